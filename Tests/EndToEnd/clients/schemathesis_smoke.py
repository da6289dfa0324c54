"""schemathesis: requests made after /openapi.json; none that the document allows may fail the server."""

import os
import subprocess
import sys
from importlib.metadata import version

from smoke import URL, check, main, test

ROOT = URL.removesuffix("/v1")
PATHS = ["/tokenize", "/detokenize", "/apply-template", "/v1/models", "/version", "/tokenizer_info", "/props", "/slots",
         "/v1/chat/completions/input_tokens", "/v1/messages/count_tokens", "/health"]


@test()
def no_request_fails_the_server():
    """Paths that generate nothing: of the others each request would take seconds."""
    command = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", ROOT + "/openapi.json",
        "--checks", "not_a_server_error", "--max-examples", "30", "--seed", "7", "--phases", "examples,fuzzing",
    ]
    for path in PATHS:
        command += ["--include-path", path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280)
    check(result.returncode == 0, result.stdout[-6000:], result.stderr[-1000:])


main("schemathesis " + version("schemathesis"))
