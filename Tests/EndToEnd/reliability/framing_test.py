"""HTTP framing. What is refused is answered once and the connection closed."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

from reliability.watch import (
    CHAT, answered, body, code_of, cpu_seconds, encode, get, read_all, refused, responses, state, talk, text_of)
from server import ROOT, parse

SHARED = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data"
POST = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n".encode()


def framed(fields, content=b"hello"):
    return POST + fields.encode("latin-1") + b"\r\n\r\n" + content


def chunked(data, more=""):
    return framed(f"Content-Type: application/json\r\nTransfer-Encoding: chunked{more}", data)


def test_the_corpus_leaves_nothing_open(s):
    script = SHARED / "http" / "run_http_cases.py"
    if not script.exists():
        return f"skipped: {script} is absent"
    report = subprocess.run(
        [sys.executable, script, str(s.port), "--probe", "/health", "--workers", "32", "--wait", "1"],
        capture_output=True, text=True, timeout=300).stdout
    # The verdicts themselves are HTTPTests/CorpusTests: here most paths are unknown, and that is answered first.
    totals = [line for line in report.splitlines() if "left-open=" in line]
    assert totals and all(line.endswith("left-open=0 multi-response=0 5xx=0") for line in totals), report[:3000]
    assert "alive after run: b'HTTP/1.1 200 OK'" in report, report
    return "1892 cases"


def test_however_a_request_is_cut(s):
    whole = encode(CHAT, body(s, max_tokens=8), "Connection: close")
    expected = text_of(responses(talk(s, whole, 30)[0])[0])
    with s.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in whole:
            connection.sendall(bytes([byte]))
        assert text_of(responses(read_all(connection))[0]) == expected
    simple = get("/health", "Connection: close")
    for end in range(1, len(simple)):
        with s.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(simple[:end])
            time.sleep(0.001)
            connection.sendall(simple[end:])
            assert responses(read_all(connection))[0][0] == 200, end


def test_a_hundred_requests_in_one_write(s):
    answer, _ = talk(s, get("/health") * 99 + get("/health", "Connection: close"))
    assert [status for status, _, _ in responses(answer)] == [200] * 100


def test_a_stream_between_two_requests(s):
    stream = encode(CHAT, body(s, stream=True, max_tokens=8))
    answer, _ = talk(s, get("/v1/models") + stream + get("/health", "Connection: close"), 30)
    models, events, health = responses(answer)
    assert json.loads(models[2])["object"] == "list" and json.loads(health[2]) == {"status": "ok"}
    assert events[1]["content-type"].startswith("text/event-stream") and b"data: [DONE]\n\n" in events[2]


def test_what_follows_a_request_is_a_request(s):
    for tail in (b"Invalid\r\n\r\n", b"extra"):
        answer, closed = talk(s, (get("/health") if tail[:1] == b"I" else encode("/tokenize", {"content": "x"})) + tail
                              + b"\r\n\r\n")
        first, second = responses(answer)
        assert first[0] == 200 and code_of(second) == (400, "bad_http") and closed


def test_doubtful_framing_is_refused(s):
    for fields in (
            "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity",
            "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked",
            "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 6",
            "Transfer-Encoding: chun\xe2\x84\xaaed", "Transfer-Encoding: \xa0chunked",
            "Transfer-Encoding: \x0bchunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked;q=1"):
        refused(s, framed(fields), 400, 501)


def test_lengths_that_are_no_numbers_are_refused(s):
    for length in ("+5", "-5", "5_0", "0x5", "5,6", "", str(2**63), str(2**64 + 5), "\xd9\xa5", "\xef\xbc\x95",
                   "\xa05", "5\x85"):
        refused(s, framed(f"Content-Length: {length}"), 400)


def test_chunks_that_are_malformed_are_refused(s):
    for size in (b"+5", b"-5", b"0x5", b"0_5", b" 5", b"", b"5g", "\uff15".encode(), b"%x" % 2**63, b"%x" % (2**64 - 1),
                 b"1" * 17):
        refused(s, chunked(size + b"\r\nhello\r\n0\r\n\r\n"), 400, 413)
    for data in (b"5\r\nhello0\r\n\r\n", b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n",
                 b"5;a\rb\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloXX0\r\n\r\n"):
        refused(s, chunked(data), 400)


def test_chunk_extensions_are_bounded(s):
    before = cpu_seconds(s)
    refused(s, chunked(b"".join(b"1;" + b"e" * 1000 + b"\r\nx\r\n" for _ in range(17)) + b"0\r\n\r\n"), 400, 431)
    refused(s, chunked(b"1;" + b"e" * (1 << 20) + b"\r\nx\r\n0\r\n\r\n"), 400, 431)
    assert cpu_seconds(s) - before < 0.1


def test_half_a_million_chunks(s):
    content = json.dumps(body(s, max_tokens=1)).encode()
    content = content[:-1] + b" " * (500_000 - len(content)) + b"}"
    data = b"".join(b"1\r\n%c\r\n" % byte for byte in content) + b"0\r\n\r\n"
    before, rest = cpu_seconds(s), state(s)["rss"]
    answer, _ = talk(s, chunked(data, "\r\nConnection: close"), 30)
    assert responses(answer)[0][0] == 200, answer[:300]
    # The loops of a debug build are not what is measured here.
    assert cpu_seconds(s) - before < 3
    assert state(s)["rss"] - rest < 2 * len(content) + (8 << 20)


def test_trailers_are_bounded(s):
    content = json.dumps(body(s, max_tokens=1)).encode()
    data = b"%x\r\n%s\r\n0\r\n" % (len(content), content)
    close = "\r\nConnection: close"
    assert parse(talk(s, chunked(data + b"X-A: b\r\n\r\n", close), 30)[0])[0] == 200
    assert refused(s, chunked(data + (b"X-A: " + b"b" * 1000 + b"\r\n") * 17 + b"\r\n"), 431)
    assert parse(talk(s, chunked(data + b"Content-Length: 5\r\n\r\n", close), 30)[0])[0] in (200, 400)
    assert refused(s, chunked(data + b"no colon\r\n\r\n"), 400)


def test_headers_follow_the_grammar(s):
    for line in (b"X: a\nY: b", b"X: a\rY: b", b"X: a\r\n b", b"X : a", b": a", b"no colon", b"X: a\0b", b"X: a\x7fb",
                 b"X\0: a", b"(X): a"):
        refused(s, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + line + b"\r\n\r\n", 400)
    refused(s, b"GET /health HTTP/1.1\nHost: localhost\n\n", 400)
    answer, _ = talk(s, get("/health", "X: a\xe9b", "Connection: close"))
    assert responses(answer)[0][0] == 200


def test_small_forms(s):
    for path in ("/health", "/v1/models"):
        head = f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        answer, _ = talk(s, head + get("/health", "Connection: close"))
        first, _, rest = answer.partition(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 200 ") and responses(rest)[0][0] == 200
    for data in (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                 b"GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                 b"\r\n" + get("/health", "Connection: close")):
        assert responses(talk(s, data)[0])[0][0] in (200, 204), data
    answer, _ = talk(s, encode("/health", b"12345", method="GET") + get("/health", "Connection: close"))
    assert [status for status, _, _ in responses(answer)] == [200, 200]


def test_other_methods_are_refused(s):
    for method in ("PUT", "DELETE", "PATCH"):
        status, headers, content = responses(talk(s, encode(CHAT, b"", "Connection: close", method=method))[0])[0]
        assert status == 405 and "POST" in headers["allow"], (method, status)
    for method in ("TRACE", "CONNECT", "BREW"):
        answer, _ = talk(s, f"{method} {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert parse(answer)[0] in (400, 405, 501), (method, answer[:80])


def test_expectations_are_met_or_refused(s):
    content = json.dumps(body(s, max_tokens=1)).encode()
    head = f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(content)}\r\n"
    with s.connect() as connection:
        connection.sendall(framed(head + "Expect: 100-continue", b""))
        begin = time.monotonic()
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        assert time.monotonic() - begin < 0.5
        connection.sendall(content)
        assert parse(read_all(connection))[0] == 200
    assert refused(s, framed(f"Content-Length: {9 << 20}\r\nExpect: 100-continue", b""), 413) == "request_too_large"
    refused(s, framed("Content-Length: 5\r\nExpect: x", b""), 417)


def test_http_1_0_is_answered_and_closed(s):
    answer, closed = talk(s, b"GET /health HTTP/1.0\r\n\r\n")
    assert parse(answer)[0] == 200 and closed


def test_other_protocols_are_refused(s):
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(range(190))
    for data in (b"GET /\r\n\r\n", b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", b"GET /health http/1.1\r\nHost: x\r\n\r\n",
                 b"GET /health HTTP/1.32\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + get("/health"), hello, bytes(range(256)) * 4):
        answer, closed = talk(s, data + b"\r\n\r\n")
        found = responses(answer)
        assert closed and len(found) == 1 and found[0][0] in (400, 501, 505), (data[:40], answer[:80])


def test_upgrades_that_are_not_offered(s):
    for name in ("websocket", "h2c"):
        answer, _ = talk(s, get("/health", "Connection: Upgrade, close", f"Upgrade: {name}"))
        assert parse(answer)[0] == 200, answer[:80]


def test_paths_and_targets(s):
    for path in ("/v1%2fmodels", "/%2e%2e/", "/health%00", "//v1/models", "/V1/models", "/health#x", "/he%zz",
                 "/v1/../v1/models", "/health;/v1/models"):
        status, _, _ = parse(talk(s, get(path, "Connection: close"))[0])
        assert status in (400, 404), (path, status)
    for target, status in (("/a b", 400), ("/a\x01", 400), ("/a\xc3\xa9", 400), ("/" + "%41" * 2700, 404)):
        assert parse(talk(s, get(target, "Connection: close"))[0])[0] == status, target[:20]


def test_an_early_answer_can_be_read(s):
    data = encode("/v1/nope", b"x" * (5 << 20), "Content-Type: application/json")
    answer, closed = talk(s, data, 10)
    assert code_of(responses(answer)[0]) == (404, "unknown_url") and closed


def test_answers_have_their_headers_and_no_forged_ones(s):
    for response in (s.get("/health"), s.get("/v1/models"), s.get("/v1/nope"), answered(s, CHAT, body(s, max_tokens=1))):
        status, headers, content = response
        assert int(headers["content-length"]) == len(content) and headers["date"] and headers["content-type"]
    for own in ("a%0d%0aSet-Cookie: x", "a" * 7000, "n\xe9", "a b"):
        headers = parse(talk(s, get("/health", f"X-Request-Id: {own}", "Connection: close"))[0])[1]
        assert headers["x-request-id"].startswith("req_") and "set-cookie" not in headers
    answer = answered(s, CHAT, {**body(s), "model": "x\r\nSet-Cookie: a"})
    assert code_of(answer) == (404, "model_not_found") and "set-cookie" not in answer[1]


def test_a_stream_for_another_parser(s):
    client = http.client.HTTPConnection(s.host, s.port, timeout=30)
    client.request("POST", CHAT, json.dumps(body(s, stream=True, max_tokens=8)), {"Content-Type": "application/json"})
    answer = client.getresponse()
    assert answer.status == 200 and answer.read().endswith(b"data: [DONE]\n\n")
    client.close()
