"""The programs of docs/examples against a running server; that in C is run by Tests/Library, that in Swift here."""

import os
import pathlib
import shutil
import subprocess
import sys

from server import DEMO, ROOT

EXAMPLES = ROOT / "docs" / "examples"


def run(server, *command):
    done = subprocess.run(
        [str(word) for word in command], env={**os.environ, "BASE": server.base_url}, capture_output=True, text=True,
        timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"model: {server.model}\n"), done.stdout
    return done.stdout


def test_curl(server):
    if not shutil.which("curl"):
        return "SKIPPED: there is no curl"
    lines = run(server, "sh", EXAMPLES / "ask.sh", "Is Paris in France?").splitlines()
    assert lines[1].startswith('{"id":"chatcmpl-') and lines[2].startswith("data: {") and "data: [DONE]" in lines


def test_python(server):
    assert '"yes"' in run(server, sys.executable, EXAMPLES / "ask.py", "Is Paris in France?").splitlines()[-1]


def test_swift(server):
    """Where the package's tests have built it, it is there."""
    program = next((ROOT / ".build" / kind / "chat-example" for kind in ("debug", "release")
                    if (ROOT / ".build" / kind / "chat-example").exists()), None)
    if program is None:
        return "SKIPPED: chat-example is not built"
    done = subprocess.run(
        [program, DEMO], input="Is Paris in France?\nAnd Berlin?\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("demo is ready.\n") and len(done.stdout) > 20, done


def test_examples_are_short(server):
    for file in EXAMPLES.rglob("*.*"):
        if file.suffix in (".c", ".py", ".sh", ".swift"):
            assert len(file.read_text().splitlines()) <= 40, file
