"""Copies of the demo model with something changed, and servers that are meant not to start."""

import contextlib
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading

from server import DEMO


@contextlib.contextmanager
def changed(**edits):
    """A folder like the demo model's. Keys are file names with `.` as `_dot_`; a value is the new content, a function
    of the old bytes, or None for no such file."""
    with tempfile.TemporaryDirectory(prefix="mlxserve-") as place:
        folder = pathlib.Path(place) / "demo"
        shutil.copytree(DEMO, folder)
        for name, edit in edits.items():
            path = folder / name.replace("_dot_", ".")
            content = edit(path.read_bytes()) if callable(edit) else edit
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        yield folder


def with_members(**members):
    """An edit of a JSON file: these members are set, or left out where the value is `...`."""
    def edit(data):
        content = {**json.loads(data), **members}
        return json.dumps({key: value for key, value in content.items() if value is not ...})
    return edit


def with_tensor(name, change):
    """An edit of a safetensors file: the bytes of one tensor through `change`."""
    def edit(data):
        length = struct.unpack("<Q", data[:8])[0]
        begin, end = json.loads(data[8:8 + length])[name]["data_offsets"]
        start = 8 + length
        changed_bytes = change(data[start + begin:start + end])
        assert len(changed_bytes) == end - begin
        return data[:start + begin] + changed_bytes + data[start + end:]
    return edit


def start(binary, folder, *flags, seconds=60):
    """Starts and, if it listens, ends a server at once: exit code, first line of stdout, stderr."""
    process = subprocess.Popen(
        [binary, "serve", "--model", str(folder), "--port", "0", *flags], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace")
    watchdog = None
    try:
        watchdog = threading.Timer(seconds, process.kill)
        watchdog.start()
        line = process.stdout.readline()
        if "listening on" in line:
            process.terminate()
        _, errors = process.communicate()
    finally:
        if watchdog:
            watchdog.cancel()
        process.kill()
    return process.returncode, line, errors


def refuses(binary, folder, *words, flags=()):
    """The server does not start, says so in one line with these words, and neither traps nor hangs; `verify` finds a
    fault too."""
    code, line, errors = start(binary, folder, *flags)
    assert code == 2 and not line, (code, line, errors[-500:])
    lines = errors.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("mlxserve: ") and len(errors) < 4000, errors[-1000:]
    for word in words:
        assert word in errors, (word, errors[-500:])
    if not flags:
        assert verified(binary, folder) == 1, folder
    return errors


def verified(binary, folder):
    """The exit code of `verify`: 0 for a folder that can be used, 1 for one with a fault, which its table names."""
    found = subprocess.run(
        [binary, "verify", "--json", "--model", str(folder)], capture_output=True, text=True, errors="replace", timeout=120)
    report = json.loads(found.stdout)
    faults = [check for check in report["checks"] if check["status"] == "FAILED"]
    assert found.returncode == (1 if faults else 0) and report["usable"] == (not faults), (found, faults)
    assert all(check["detail"] and len(check["detail"]) < 4000 for check in faults), faults
    return found.returncode
