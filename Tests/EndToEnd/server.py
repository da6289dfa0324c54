"""Starts the server under test and knows how to reach it."""

import json
import pathlib
import re
import socket
import subprocess
import threading

from openai import AsyncOpenAI, OpenAI

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "Fixtures" / "models" / "demo"


def expected(name):
    """A conversation of the demo model with the reference's token ids."""
    cases = json.loads((DEMO / "expected.json").read_text())["cases"]
    return next(case for case in cases if case["name"] == name)


class Server:
    """A running server. Standard output is read until the line that names the address."""

    def __init__(self, binary, *flags, model=DEMO, key="none", env=None, prefix=(), words=()):
        self.binary = binary
        self.demo = DEMO
        named = ["--model", str(model)] if model else [*map(str, words)]
        command = [binary, *prefix, "serve", *named, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.log = []
        self._reader = threading.Thread(target=self._collect_log, daemon=True)
        self._reader.start()
        line = self.process.stdout.readline()
        found = re.search(r"listening on (http://([\d.]+):(\d+)/v1) \((.*)\)", line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"no address in {line!r}; the log ends with {self.log[-5:]}")
        self.base_url, self.host = found[1], found[2]
        self.port, self.model = int(found[3]), found[4]
        self.client = OpenAI(
            base_url=self.base_url, api_key=key, max_retries=0, timeout=120, _strict_response_validation=True)
        # Legacy log probabilities hold nulls that the SDK's own types do not know.
        self.lenient = OpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _collect_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def make_async_client(self):
        return AsyncOpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=120)

    def chat(self, messages, **options):
        """A greedy chat completion without thinking, unless told otherwise."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        options.setdefault("temperature", 0)
        options.setdefault("reasoning_effort", "none")
        return self.client.chat.completions.create(model=self.model, messages=messages, **options)

    def complete(self, prompt, **options):
        options.setdefault("temperature", 0)
        return self.lenient.completions.create(model=self.model, prompt=prompt, **options)

    # Raw sockets.

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=30)

    def raw(self, data):
        """Sends bytes, reads until the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer

    def post(self, path, body, headers=()):
        """One request on a connection of its own: status, headers in lower case, body with chunks joined."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}"]
        if not any(line.lower().startswith("content-type") for line in headers):
            lines.append("Content-Type: application/json")
        return parse(self.raw("\r\n".join([*lines, *headers]).encode() + b"\r\n\r\n" + body))

    def get(self, path, headers=(), host="localhost", method="GET"):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
        return parse(self.raw("\r\n".join(lines).encode() + b"\r\n\r\n"))

    def delete(self, path):
        return parse(self.raw(f"DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()))

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(timeout=20)
            # What it said last is still on its way.
            self._reader.join(timeout=5)
            return status
        finally:
            self.process.kill()


def parse(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(chunks(body))
    return int(lines[0].split()[1]), headers, body


def chunks(body):
    """The chunks of a chunked body; fails unless it ends properly."""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            assert body == b"\r\n", f"after the last chunk: {body!r}"
            return
        yield body[:length]
        assert body[length : length + 2] == b"\r\n"
        body = body[length + 2 :]
