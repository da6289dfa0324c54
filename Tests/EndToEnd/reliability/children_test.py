"""Programs that the server starts have bounds, and neither they nor the server leave anything behind when it is killed."""

import base64
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import time

from reliability.watch import encode, wait_for
from server import Server

# A PDF that promises thirty million objects: without bounds pdftotext takes 1.1 GiB for it.
START = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 0/Kids[]>>endobj\n"
BOMB = START + b"xref\n29999999 1\n0000000000 65535 f \ntrailer<</Root 1 0 R/Size 30000000>>\nstartxref\n%d\n%%%%EOF\n" % len(START)


def asking(s, document):
    """A chat with a PDF in it."""
    data = "data:application/pdf;base64," + base64.b64encode(document).decode()
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}
    return {"model": s.model, "max_tokens": 2, "messages": [{"role": "user", "content": [part]}]}


def within(folder):
    # Folders may go while they are walked through.
    return sorted(os.path.relpath(os.path.join(place, name), folder)
                  for place, folders, files in os.walk(folder) for name in folders + files)


def children(pid):
    """Their ids, and what each may take: bytes of memory of its own, and seconds of computing."""
    found = {}
    for child in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for number in map(int, child.read_text().split()):
                limits = pathlib.Path(f"/proc/{number}/limits").read_text().splitlines()
                found[number] = {line[:26].strip(): line[26:].split()[0] for line in limits}
        except OSError:
            pass  # It has ended meanwhile.
    return found


def test_a_small_pdf_that_wants_much_memory_is_refused_with_the_reason(s):
    if not shutil.which("pdftotext"):
        return "skipped: pdftotext is absent"
    assert len(BOMB) < 232
    status, _, data = s.post("/v1/chat/completions", asking(s, BOMB))
    error = json.loads(data)["error"]
    assert status == 400 and "may take 32 MiB of memory and 5 seconds" in error["message"], error
    other = Server(s.binary, "--memory", "24M")
    try:
        status, _, data = other.post("/v1/chat/completions", asking(other, BOMB))
        assert (status, json.loads(data)["error"]["code"]) == (503, "insufficient_memory"), data
    finally:
        assert other.stop() == 0


def test_nothing_private_stays_after_a_kill(s):
    """Neither of files without a state directory, nor of a PDF that is being read."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as programs:
        # It says that it runs, and does not end.
        slow = pathlib.Path(programs) / "pdftotext"
        slow.write_text(f"#!/bin/sh\n/bin/cat /dev/fd/0 > {programs}/read\nexec /bin/sleep 60\n")
        slow.chmod(0o755)
        environment = {**os.environ, "TMPDIR": folder, "PATH": f"{programs}:{os.environ['PATH']}"}

        def started():
            other = Server(s.binary, env=environment)
            other.client.files.create(file=("a.txt", b"private words"), purpose="assistants")
            upload = other.client.uploads.create(bytes=100, filename="b.txt", mime_type="text/plain", purpose="assistants")
            other.client.uploads.parts.create(upload.id, data=b"a private part")
            assert any("part_" in name for name in within(folder))
            return other

        other = started()
        connection = other.connect()
        connection.sendall(encode("/v1/chat/completions", asking(other, b"%PDF-1.4 private")))
        read = pathlib.Path(programs) / "read"
        wait_for(lambda: read.exists() and read.read_bytes() == b"%PDF-1.4 private", 20, "pdftotext")
        kept = within(folder)
        assert len([name for name in kept if "/" not in name]) == 1, kept
        limits = [limit for limit in children(other.process.pid).values() if limit["Max cpu time"] == "5"]
        assert [limit["Max data size"] for limit in limits] == [str(32 << 20)], children(other.process.pid)
        assert limits[0]["Max core file size"] == "0"
        os.kill(other.process.pid, signal.SIGKILL)
        other.process.wait()
        connection.close()
        wait_for(lambda: within(folder) == [], 10, "an empty folder")

        # What waits for that is killed too: the next start removes what was left, and nothing of a process that lives.
        other = started()
        living = started()
        for child in children(other.process.pid):
            os.kill(child, signal.SIGKILL)
        os.kill(other.process.pid, signal.SIGKILL)
        other.process.wait()
        assert len([name for name in within(folder) if "/" not in name]) == 2
        last = Server(s.binary, env=environment)
        try:
            assert len([name for name in within(folder) if "/" not in name]) == 1
            assert len(living.client.files.list().data) == 1
        finally:
            assert last.stop() == 0 and living.stop() == 0
        wait_for(lambda: within(folder) == [], 10, "an empty folder")
