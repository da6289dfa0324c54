"""Load, mutations and chaos. The soak is soak.py, the fuzzers of the parsers are in Tests/Fuzz."""

import base64
import json
import random
import resource
import signal
import socket
import struct
import threading
import time
from collections import Counter

import soak
from reliability.framing_test import SHARED
from reliability.watch import (
    CHAT, Watch, body, encode, endless, get, health_times, read_event, responses, state, talk, wait_for)
from server import Server


def p99(times):
    return times[len(times) * 99 // 100]


def test_slow_clients_of_every_kind(s):
    """What slowhttptest does: heads, bodies, reads and ranges that do not end, beside which /health is asked."""
    other = Server(s.binary, "--test-hooks", "--max-connections", "700", "--header-timeout", "4", "--body-timeout", "4")
    try:
        quiet = p99(health_times(other, 2, 0.002))
        slow = []
        for index in range(400):
            connection = other.connect()
            kind = index % 4
            if kind == 0:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
            elif kind == 1:
                connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4096\r\n\r\n".encode())
            elif kind == 2:
                connection.sendall(encode(CHAT, body(other, stream=True, max_tokens=30)))
            else:
                ranges = ",".join(f"5-{end}" for end in range(1000))
                connection.sendall(get("/health", f"Range: bytes={ranges}"))
            slow.append(connection)
        beside = p99(health_times(other, 5, 0.002))
        for connection in slow:
            connection.close()
        wait_for(lambda: state(other)["threads"] < 40, 20, "the end of the slow ones")
        with other.connect() as connection:
            connection.sendall(get("/health", "Connection: close"))
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    finally:
        assert other.stop() == 0
    assert beside < 0.25, beside
    return f"p99 of /health {quiet * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside 400"


def seeds():
    """Messages of every kind: good ones, the shared corpus and what broke others."""
    found = [get("/health"), encode("/v1/chat/completions", b'{"model":"demo","messages":[{"role":"user","content":"x"}],"n":0}'),
             b"POST /tokenize HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"]
    corpus = SHARED / "http" / "cases.jsonl"
    if corpus.exists():
        found += [base64.b64decode(json.loads(line)["b64"]) for line in corpus.read_text().splitlines()]
    suite = SHARED / "json" / "JSONTestSuite"
    if suite.exists():
        found += [encode(CHAT, path.read_bytes()) for path in sorted(suite.rglob("*.json")) if path.stat().st_size < 2000]
    return [seed for seed in found if len(seed) < 4000]


def mutated(seed, other, chance):
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at:at] = chance.choice((b"\r\n", b"\0", b":", b"chunked", b"\xff", b"-1", b"99999999999999999999", b"{", b"\""))
        elif kind == 2:
            del data[at:at + chance.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = data[at:at + chance.randrange(1, 40)]
        elif kind == 4:
            cut = chance.randrange(len(other) + 1)
            data[at:] = other[cut:]
        else:
            data[at:at + 1] = bytes([chance.randrange(256)])
    return bytes(data)


def test_mutated_messages_do_no_harm(s, count=3000):
    """Messages with faults over sockets: an answer or the end, and nothing of the server's own making."""
    chance, all_seeds = random.Random(7), seeds()
    statuses = Counter()
    lock = threading.Lock()
    batches = [random.Random(chance.random()) for _ in range(4)]

    def send(part):
        chance, found = batches[part], Counter()
        for _ in range(count // 4):
            data = mutated(chance.choice(all_seeds), chance.choice(all_seeds), chance)
            with s.connect() as connection:
                connection.settimeout(30)
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    answer = connection.recv(12)
                except ConnectionError:
                    answer = b""
                status = int(answer[9:12]) if len(answer) == 12 and answer.startswith(b"HTTP/1.") else 0
                # A generation that a mutation made valid goes on until its client has left.
                found[status] += 1
        with lock:
            statuses.update(found)

    threads = [threading.Thread(target=send, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(statuses.values()) == count // 4 * 4, statuses
    assert all(status < 500 or status in (501, 505) for status in statuses), statuses
    return str(dict(sorted(statuses.items())))


class Chaos:
    """Things that happen to a server while it works."""

    def __init__(self, server):
        self.server = server

    def no_descriptors(self):
        pid = self.server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        held = state(self.server)["fds"]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (held + 2, before[1]))
        time.sleep(1)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    def signals(self):
        for number in (signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG):
            self.server.process.send_signal(number)

    def a_pause(self):
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.server.process.send_signal(signal.SIGCONT)

    def half_heads(self):
        heads = [self.server.connect() for _ in range(100)]
        for connection in heads:
            connection.sendall(b"GET /health HTTP/1.1\r\nHo")
        time.sleep(0.5)
        for connection in heads:
            connection.close()

    def a_stalled_reader(self):
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect((self.server.host, self.server.port))
            connection.sendall(encode(CHAT, endless(self.server, logprobs=True, top_logprobs=20)))
            time.sleep(1)

    def many_leave(self):
        for index in range(40):
            with self.server.connect() as connection:
                connection.sendall(encode(CHAT, endless(self.server)))
                if index % 2:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    events = (no_descriptors, signals, a_pause, half_heads, a_stalled_reader, many_leave)


def test_after_chaos_all_is_as_before(s, seconds=20, every=2):
    """Mixed load beside which everything happens that the other modules do alone; then all is as before."""
    server = Server(s.binary, "--test-hooks", "--log-level", "error", "--store-responses", "50")
    try:
        target = soak.Target(server.host, server.port, server.model)
        expected = {name: soak.comparable(path, *soak.exchange(target, encode(path, content, "Connection: close"))[::2])
                    for name, (path, content) in soak.requests_of(target).items()}
        watch, chaos, chance = Watch(server), Chaos(server), random.Random(10)
        end = time.monotonic() + seconds
        # Without stores, whose files would need the descriptors that chaos takes away.
        clients = [soak.Client(target, expected, seed, stores=False) for seed in range(4)]
        threads = [threading.Thread(target=client.run, args=(1_000_000, end)) for client in clients]
        for thread in threads:
            thread.start()
        happened = Counter()
        while time.monotonic() < end:
            # Each of them once before chance decides.
            event = Chaos.events[happened.total()] if happened.total() < len(Chaos.events) else chance.choice(Chaos.events)
            event(chaos)
            happened[event.__name__] += 1
            assert server.process.poll() is None, server.log[-5:]
            assert responses(talk(server, get("/health", "Connection: close"), 20)[0])[0][0] == 200, event.__name__
            time.sleep(every)
        for thread in threads:
            thread.join()
        # While there are no descriptors, a client who finds all connections at work is turned away by name.
        problems = [problem for client in clients for problem in client.problems if "too_many_connections" not in problem]
        assert not problems, problems[:3]
        watch.check()
        counts = sum((client.counts for client in clients), Counter())
    finally:
        assert server.stop() == 0
    done = sum(number for name, number in counts.items() if name != "429")
    return f"{done} requests, {happened.total()} events"
