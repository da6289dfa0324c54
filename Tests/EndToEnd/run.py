"""Black-box tests of the release binary: run.py BINARY [NAME-PART]. The last line says how many passed."""

import sys
import time
import traceback

import around_test
import chat_cases_test
import checkpoints_test
import cli_test
import models_test
import openapi_test
import raw_test
import responses_stream_test
import responses_test
import sdk_test
from server import Server


def main():
    binary, part = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "")
    tests = [
        (f"{module.__name__}.{name}", function)
        for module in (
            sdk_test, chat_cases_test, responses_test, responses_stream_test, around_test, openapi_test, raw_test,
            cli_test, checkpoints_test, models_test)
        for name, function in vars(module).items()
        if name.startswith("test_") and part in name
    ]
    server = Server(binary)
    passed, failed = 0, 0
    try:
        for name, test in tests:
            begin = time.monotonic()
            try:
                note = test(server)
                passed += 1
                print(f"ok    {name} ({time.monotonic() - begin:.2f} s){f': {note}' if note else ''}", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    finally:
        code = server.stop()
    if code != 0:
        failed += 1
        print(f"FAIL  the server ended with {code}; its log ends with {server.log[-5:]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
