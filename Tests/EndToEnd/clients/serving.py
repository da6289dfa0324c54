"""A server for clients, with models of the fixtures."""

import contextlib
import pathlib
import re
import subprocess

MODELS = pathlib.Path(__file__).resolve().parents[3] / "Fixtures" / "models"


@contextlib.contextmanager
def serving(binary, *flags):
    """The URL of a server, with /v1 at its end."""
    process = subprocess.Popen(
        [binary, "serve", "--port", "0", "--log-level", "error", *flags], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"listening on (http://\S+)", line)
        if not found:
            raise RuntimeError(f"the server did not start: no address in {line!r}")
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=40)
