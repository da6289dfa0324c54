"""What every case must leave behind: the same process, a quick /health, the same answer to the same question, and
nothing held. Memory is another matter: allocators keep what was once needed, so cases that are about memory look at it
while they run, and soak.py looks at the sum of all. Also raw sockets with their answers."""

import json
import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from server import chunks

CHAT = "/v1/chat/completions"
CANARY = "What is the capital of France?"
HOOKS = ("--test-hooks",)


def body(s, content=CANARY, **options):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return {"model": s.model, "messages": messages, "temperature": 0, "reasoning_effort": "none", **options}


def endless(s, **options):
    """A stream that runs until its limit."""
    return body(s, stream=True, ignore_eos=True, max_tokens=2000, **options)


def encode(path, content, *lines, method="POST", host="localhost"):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(data)}", *lines]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data


def get(path, *lines):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *lines]).encode("latin-1") + b"\r\n\r\n"


def talk(s, data, wait=3.0, ends=False):
    """Sends bytes and reads until the server closes or is silent for `wait` seconds: the answer, whether it closed."""
    with s.connect() as connection:
        connection.settimeout(wait)
        answer = b""
        try:
            connection.sendall(data)
        except OSError:
            pass  # Refused while it was still being sent; the answer says why.
        try:
            if ends:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except TimeoutError:
            return answer, False
        except OSError:
            pass
        return answer, True


def fields_of(head):
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def responses(answer):
    """The responses in these bytes, each with its whole body; what is no response is an error."""
    found = []
    while answer:
        head, mark, rest = answer.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.[01] (\d{3}) ", head)
        assert match and mark, answer[:100]
        status, headers = int(match[1]), fields_of(head)
        if status == 100:
            answer = rest
            continue
        if headers.get("transfer-encoding") == "chunked":
            length = rest.index(b"0\r\n\r\n") + 5 if rest.startswith(b"0\r\n") else rest.index(b"\r\n0\r\n\r\n") + 7
            found.append((status, headers, b"".join(chunks(rest[:length]))))
            answer = rest[length:]
            continue
        length = int(headers.get("content-length", 0))
        assert len(rest) >= length, (status, len(rest), length)
        found.append((status, headers, rest[:length]))
        answer = rest[length:]
    return found


def code_of(response):
    """Checks the shape that every error has, and gives status and code."""
    status, headers, content = response
    assert headers["content-type"] == "application/json", headers
    assert int(headers["content-length"]) == len(content) and "date" in headers and headers["x-request-id"], headers
    error = json.loads(content)["error"]
    assert error.keys() == {"message", "type", "param", "code"}, error
    return status, error["code"]


def refused(s, data, *statuses, wait=3.0):
    """One response with one of these statuses, then the end; gives its code."""
    answer, closed = talk(s, data, wait)
    found = responses(answer)
    assert len(found) == 1 and found[0][0] in statuses, (data[:80], answer[:200])
    assert closed, ("left open", data[:80])
    return code_of(found[0])[1]


def answered(s, path, content, *lines):
    """A request of its own connection: status, headers, body."""
    answer, closed = talk(s, encode(path, content, "Connection: close", *lines), wait=60)
    found = responses(answer)
    assert closed and len(found) == 1, answer[:200]
    return found[0]


def text_of(response):
    status, _, content = response
    assert status == 200, (status, content[:300])
    return json.loads(content)["choices"][0]["message"]["content"]


def begin(s, content, *lines):
    """Sends a request and leaves the answer unread."""
    connection = s.connect()
    connection.sendall(encode(CHAT, content, *lines))
    return connection


def read_event(connection, until=b"data: "):
    """Reads on until the answer has these bytes; the answer so far."""
    answer = b""
    while until not in answer:
        piece = connection.recv(65536)
        assert piece, answer[-300:]
        answer += piece
    return answer


def read_all(connection):
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer


def together(count, work):
    """Runs `work(0)`, `work(1)`, ... at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def state(s):
    status, _, content = s.get("/debug/state")
    assert status == 200, (status, content)
    return json.loads(content)


def wait_for(condition, seconds=5.0, what="a condition"):
    """Polls until the condition gives something true, and gives that."""
    end = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        assert time.monotonic() < end, f"{what} did not come about in {seconds} s"
        time.sleep(0.005)


def is_at_rest(now):
    return now["slots_busy"] == 0 and now["queue_len"] == 0 and now["kv_pages_used"] == now["kv_pages_cached"]


def cpu_seconds(s):
    """Processor time of the server so far."""
    fields = open(f"/proc/{s.process.pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def health_times(s, seconds, pause=0.005):
    """Response times of /health, one after the other on fresh connections."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        assert s.get("/health")[0] == 200
        times.append(time.monotonic() - begin)
        time.sleep(pause)
    return sorted(times)


class Watch:
    """Compares a server with itself at rest."""

    def __init__(self, s):
        self.server = s
        # Twice: the first answers touch memory that later ones find.
        for _ in range(2):
            together(8, lambda _: self.canary())
        self.first = self.canary()
        self.rest = self.settled()

    def canary(self):
        status, _, content = answered(self.server, CHAT, body(self.server, max_tokens=24))
        assert status == 200, content
        return json.loads(content)["choices"]

    def settled(self):
        def look():
            now = state(self.server)
            before = getattr(self, "rest", None)
            calm = before is None or all(now[key] <= before[key] + 2 for key in ("fds", "threads"))
            return now if is_at_rest(now) and calm else None

        return wait_for(look, 6, f"rest (now {state(self.server)}, at first {getattr(self, 'rest', None)})")

    def check(self):
        """S0: raises when a case has left something behind."""
        s = self.server
        assert s.process.poll() is None, f"the server ended with {s.process.returncode}: {s.log[-5:]}"
        times = []
        for _ in range(5):
            begin = time.monotonic()
            assert s.get("/health")[0] == 200
            times.append(time.monotonic() - begin)
        # The best of five: this machine may be busy with others.
        assert min(times) < 0.1, times
        assert self.canary() == self.first, "the canary's answer has changed"
        before, self.rest = self.rest, self.settled()
        # Descriptors and threads were compared with the first rest; their allowance does not add up.
        self.rest = {**self.rest, "fds": min(before["fds"], self.rest["fds"]),
                     "threads": min(before["threads"], self.rest["threads"])}
        assert not any("fatal" in line.lower() for line in s.log[-200:]), s.log[-5:]
