"""Logs and hygiene."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from reliability.watch import CHAT, answered, body, encode, get, talk
from server import DEMO, Server, parse

SECRET = "Zq7-Marker-Of-A-Secret"


def test_what_clients_send_cannot_forge_a_line(s):
    other = Server(s.binary)
    try:
        hostile = "x\r\n2026-01-01T00:00:00.000Z info forged\x1b[31m\u2028"
        talk(other, get("/" + "a" * 8000, "Connection: close"))
        talk(other, get("/%0d%0aforged%1b", "User-Agent: " + "b" * 5000, "Connection: close"))
        answered(other, CHAT, {**body(other), "model": hostile})
        answered(other, CHAT, body(other, tools=[{"type": "function", "function": {"name": hostile}}]))
        answered(other, CHAT, body(other, user=hostile, max_tokens=1))
        answered(other, CHAT, body(other, SECRET, max_tokens=8))
        answered(other, CHAT, body(other, "x", max_tokens=1), f"Authorization: Bearer {SECRET}")
        answered(other, CHAT, body(other, "x", metadata={"a": SECRET}, stop=[SECRET], max_tokens=1))
    finally:
        other.stop()
    assert len(other.log) >= 8
    for line in other.log:
        assert line.startswith("20") and "\x1b" not in line and "\u2028" not in line and len(line) <= 2048, line
        assert " info forged" not in line.replace("\\r\\n", "").split("path=")[0], line
        assert SECRET not in line, line


def test_errors_tell_nothing_of_the_machine(s):
    for answer in (answered(s, CHAT, b"{"), answered(s, CHAT, body(s, n=0)), s.get("/v1/nope"), s.get("/v1/responses/x")):
        text = answer[2].decode()
        assert "/root" not in text and str(DEMO) not in text and "0x" not in text and ".swift" not in text, text


def test_it_calls_and_opens_nothing_else(s):
    if not shutil.which("strace"):
        return "skipped: strace is absent"
    with tempfile.TemporaryDirectory() as place:
        trace = pathlib.Path(place) / "trace"
        process = subprocess.Popen(
            ["strace", "-D", "-f", "-qq", "-o", str(trace), "-e", "trace=connect,openat,open,execve,socket,creat", s.binary, "serve",
             "--model", str(DEMO), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = process.stdout.readline()
        if "listening" not in line:
            process.kill()
            process.wait()
            process.stdout.close()
            return "skipped: strace cannot trace here"
        port = int(line.split(":")[2].split("/")[0])
        for path, content in ((CHAT, body(s, max_tokens=3)), (CHAT, {**body(s), "model": "../../etc/passwd"}),
                              ("/v1/responses", {"model": s.model, "input": "x", "max_output_tokens": 3})):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(encode(path, content, "Connection: close"))
                while connection.recv(65536):
                    pass
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
        lines = trace.read_text().splitlines()
    assert len(lines) > 5
    # The loader looks beside the program for libraries first.
    allowed = (str(pathlib.Path(s.binary).resolve().parent), str(DEMO), "/proc/", "/sys/", "/etc/ld.so", "/lib", "/usr/lib", "/dev/null", "/etc/localtime", "/usr/share/zoneinfo",
               # Where it looks for what a process has left that was killed.
               os.environ.get("TMPDIR", "/tmp"))
    for line in lines:
        assert "connect(" not in line, line
        if "open" in line and '"' in line:
            assert line.split('"')[1].startswith(allowed), line


def test_only_this_machine_is_served(s):
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == "0A" and int(address.split(":")[1], 16) == s.port:
                ports.add(address.split(":")[0])
    assert ports == {"0100007F"}, ports
