"""Hosts, origins and keys, beyond what access_test proves of them."""

import json
import math
import pathlib
import random
import tempfile
import time

from reliability.watch import CHAT, cpu_seconds, encode, get, refused, responses, talk
from server import Server
from wire_test import read_response

KEY = "sk-caf\u00e9-0123456789abcdefghijklmnopqrstuvwxyz"


def serving(s, folder, *flags):
    path = pathlib.Path(folder) / "keys"
    path.write_text(f"alice: {KEY}\n")
    path.chmod(0o600)
    return Server(s.binary, "--api-key-file", str(path), *flags)


def with_key(path, key, *lines):
    """A request whose key may be any bytes."""
    key = key if isinstance(key, bytes) else key.encode()
    start, end = get(path, "Authorization: @", *lines).split(b"@")
    return start + b"Bearer " + key + end


def test_hosts_and_origins_that_look_right(s):
    for host in ("[::ffff:127.0.0.1]x", "127.0.0.1.x", "127.1.evil.com", "localhost@evil.com", "evil.com#localhost",
                 "evil.com\\localhost", "[::1]evil.com", "2130706433.evil.com", "localhost:80:80"):
        answer, _ = talk(s, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        status, _, data = responses(answer)[0]
        assert status in (400, 403) and b'"data"' not in data, (host, status)
    other = Server(s.binary, "--allow-origin", "https://app.example")
    try:
        good = "Origin: https://app.example"
        assert responses(talk(other, get("/v1/models", good, "Connection: close"))[0])[0][0] == 200
        for origin in ("https://app.example.", "https://app.example:443", "https://app.example/", "HTTPS://app.example",
                       "https://app.example, https://evil.com", "https://app.example.evil.com", "app.example", "null", "file://"):
            found = responses(talk(other, get("/v1/models", f"Origin: {origin}", "Connection: close"))[0])
            assert found[0][0] == 403 and "access-control-allow-origin" not in found[0][1], (origin, found)
    finally:
        assert other.stop() == 0


def test_keys_that_are_nearly_right(s):
    with tempfile.TemporaryDirectory() as folder:
        other = serving(s, folder)
        try:
            def status(data):
                return responses(talk(other, data)[0])[0][0]

            end = "Connection: close"
            assert status(with_key("/v1/models", KEY, end)) == 200
            decomposed = KEY.replace("\u00e9", "e\u0301")
            for wrong in (KEY[:-1], KEY + "1", KEY[1:], KEY.upper(), decomposed, KEY.encode("latin-1"), "", KEY + " " + KEY,
                          KEY + ",", KEY * 20, KEY[:-1] + "Z"):
                assert status(with_key("/v1/models", wrong, end)) == 401, wrong
            # No field may hold these.
            for wrong in (KEY.encode() + b"\0", KEY.encode() + b"\x7f"):
                assert status(with_key("/v1/models", wrong, end)) in (400, 401), wrong
            assert status(with_key("/v1/models", KEY, f"Authorization: Bearer {KEY[:-1]}", end)) == 400
        finally:
            assert other.stop() == 0


def ranks_differ(first, second):
    """How surely the values of two lists differ, after Mann and Whitney: deviations of the rank sum from its mean."""
    both = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    rank_sum, index = 0.0, 0
    while index < len(both):
        end = index
        while end < len(both) and both[end][0] == both[index][0]:
            end += 1
        # Equal values share the mean of their ranks.
        rank_sum += (index + 1 + end) / 2 * sum(1 for _, which in both[index:end] if which == 0)
        index = end
    n, m = len(first), len(second)
    return abs(rank_sum - n * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12)


def test_wrong_keys_take_one_time(s, count=3000):
    """Wrong in the first byte or in the last one, in an order that chance decides: the times do not tell which."""
    chance = random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        other = serving(s, folder, "--log-level", "error")
        try:
            requests = [with_key("/v1/models", key) for key in ("X" + KEY[1:], KEY[:-1] + "X")]
            times = ([], [])
            order = [0, 1] * count
            chance.shuffle(order)
            connection = None
            for number, which in enumerate(order):
                if number % 900 == 0:
                    if connection:
                        connection.close()
                    connection = other.connect()
                start = time.perf_counter_ns()
                connection.sendall(requests[which])
                status, _, _ = read_response(connection)
                times[which].append(time.perf_counter_ns() - start)
                # Beyond the first twenty there have been too many, but they are compared all the same.
                assert status in (401, 429)
            connection.close()
        finally:
            assert other.stop() == 0
    deviations = ranks_differ(*times)
    middle = [sorted(part)[len(part) // 2] for part in times]
    # Chance alone gives more than 4 once in 16,000 runs.
    assert deviations < 4, (deviations, middle)
    return f"medians {middle[0]} and {middle[1]} ns, {deviations:.2f} deviations apart"


def test_every_route_and_method_wants_the_key(s):
    with tempfile.TemporaryDirectory() as folder:
        other = serving(s, folder)
        try:
            answer = responses(talk(other, with_key("/openapi.json", KEY, "Connection: close"))[0])[0]
            paths = [path.replace("{", "").replace("}", "") for path in json.loads(answer[2])["paths"]]
            open_paths = {"/health", "/ready", "/readyz", "/livez"}
            for path in [*paths, "/debug/state", "/none"]:
                for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
                    data = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    status = int(talk(other, data.encode())[0].split()[1])
                    if path in open_paths:
                        assert (status == 200) == (method in ("GET", "HEAD")), (method, path, status)
                    else:
                        assert status == 401, (method, path, status)
        finally:
            assert other.stop() == 0
    return f"{len(paths)} paths, 6 methods"


def test_without_a_key_a_body_costs_nothing(s):
    with tempfile.TemporaryDirectory() as folder:
        other = serving(s, folder)
        try:
            deep = encode(CHAT, b"[" * 100_000 + b" " * ((8 << 20) - 100_000))
            before = cpu_seconds(other)
            for _ in range(10):
                assert refused(other, deep, 401, wait=10) == "invalid_api_key"
            # Reading a body to its end and parsing it takes tens of milliseconds each.
            assert cpu_seconds(other) - before < 0.3, cpu_seconds(other) - before
        finally:
            assert other.stop() == 0


def test_keys_are_nowhere_to_be_read(s):
    with tempfile.TemporaryDirectory() as folder:
        other = serving(s, folder)
        try:
            secret = "sk-secret-of-a-client-0815"
            seen = talk(other, with_key("/v1/models", KEY, "Connection: close"))[0]
            for path in ("/v1/models", "/none?key=" + secret, "/v1/models/" + secret):
                seen += talk(other, with_key(path, secret, "Connection: close"))[0]
            seen += pathlib.Path(f"/proc/{other.process.pid}/cmdline").read_bytes()
            assert secret.encode() not in seen.replace(f"/v1/models/{secret}".encode(), b"") and KEY.encode() not in seen
        finally:
            assert other.stop() == 0
    log = "".join(other.log)
    assert KEY not in log and secret not in log.replace(f"/v1/models/{secret}", ""), log[-500:]
