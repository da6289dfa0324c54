"""JSON. A wrong document is a 400 on a connection that goes on."""

import json
import time

from reliability.framing_test import SHARED
from reliability.watch import CHAT, answered, body, code_of, encode, text_of
from wire_test import read_response


def post_many(s, bodies, path=CHAT):
    """The answers to these bodies, sent one after the other; a new connection where the last one ended."""
    connection, answers = s.connect(), []
    try:
        for data in bodies:
            connection.sendall(encode(path, data, "Content-Type: application/json"))
            answers.append(read_response(connection))
            if answers[-1][1].get("connection") == "close":
                connection.close()
                connection = s.connect()
    finally:
        connection.close()
    return answers


def document(name, limit=8 << 20):
    return (SHARED / "json" / "JSONTestSuite" / name).read_bytes()[:limit]


def test_the_json_test_suite_has_its_verdicts(s):
    folder = SHARED / "json" / "JSONTestSuite"
    if not folder.exists():
        return f"skipped: {folder} is absent"
    files = sorted(path for path in folder.rglob("*.json"))
    checked = {"y": 0, "n": 0, "i": 0}
    answers = post_many(s, [path.read_bytes() for path in files])
    for path, answer in zip(files, answers):
        kind = path.name[0]
        if path.name[1] != "_" or kind not in checked:
            continue
        status, code = code_of(answer)
        assert status == 400, (path.name, status)
        assert kind == "i" or (code == "invalid_json") == (kind == "n"), (path.name, code)
        checked[kind] += 1
    assert checked["y"] > 90 and checked["n"] > 180, checked
    return str(checked)


def test_nesting_is_bounded(s):
    inside, outside = [], []
    for depth in (64, 120, 127, 130, 1000, 100_000, 1_000_000):
        for start, end in ((b"[", b"]"), (b'{"a":', b"}")):
            whole = b'{"metadata":' + start * depth + b"0" + end * depth + b"}"
            (inside if depth < 128 else outside).append(whole)
            outside.append(start * depth)
    begin = time.monotonic()
    for answer in post_many(s, outside):
        assert code_of(answer) == (400, "invalid_json"), answer[2][:200]
    assert time.monotonic() - begin < 0.3 * len(outside)
    for answer in post_many(s, inside):
        status, code = code_of(answer)
        assert status == 400 and code != "invalid_json", answer[2][:200]


def test_the_last_of_equal_keys_counts_and_keys_are_compared_by_bytes(s):
    content = json.dumps(body(s, max_tokens=1))[:-1]
    twice = content + ', "model": "nope"}'
    assert code_of(answered(s, CHAT, twice.encode()))[1] == "model_not_found"
    # Two spellings of one word are two keys, and neither is a known one.
    marked = content + ', "\u00e9": 1, "e\u0301": 2, "temperature\u0301": "x"}'
    status, headers, _ = answered(s, CHAT, marked.encode())
    assert status == 200 and headers["x-mlxserve-ignored"].count(",") == 2, headers


def test_surrogates_and_nul(s):
    for content in (r'"\ud800"', r'"\udc00 x"', r'"a\u0000b"'):
        data = json.dumps(body(s, "@", max_tokens=2)).encode().replace(b'"@"', content.encode())
        json.loads(answered(s, CHAT, data)[2].decode())
    data = json.dumps(body(s, "@", max_tokens=2, stop=["@"])).encode().replace(b'["@"]', rb'["\u0000"]')
    assert answered(s, CHAT, data)[0] == 200
    tool = {"type": "function", "function": {"name": "a\0b"}}
    assert code_of(answered(s, CHAT, body(s, tools=[tool])))[0] == 400


def test_what_is_no_utf_8_and_no_json(s):
    wrong = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf8\x88\x80\x80\x80"]
    answers = post_many(s, [b'{"model":"' + text + b'"}' for text in wrong])
    plain = json.dumps(body(s))
    documents = [b"\xef\xbb\xbf" + plain.encode(), plain.encode("utf-16-le"), plain.encode("utf-16-be"), b"{}{}",
                 b'{"a":1,}', b'{"a":1}//', b"{'a':1}"]
    documents += [b'{"temperature":' + number + b"}" for number in
                  (b"NaN", b"Infinity", b"+1", b"01", b".5", b"1.", b"0x10", b"1e", b"-")]
    for answer in answers + post_many(s, documents):
        assert code_of(answer) == (400, "invalid_json"), answer[2][:200]
        assert any(character.isdigit() for character in json.loads(answer[2])["error"]["message"])


def test_large_documents(s):
    start = json.dumps(body(s, max_tokens=1))[:-1].encode()
    million = b"1" * 1_000_000
    cases = [
        (start + b',"seed":' + million + b"}", {400}),
        (start + b',"top_p":0.' + million + b"}", {200}),
        (start + b',"top_p":1e' + b"9" * 100_000 + b"}", {400}),
        (start + b"," + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}", {200, 400}),
        (start + b',"' + b"k" * (1 << 20) + b'":1}', {200, 400}),
        (start + b',"user":"' + rb"\u0041" * 700_000 + b'"}', {200, 400}),
    ]
    for data, expected in cases:
        begin = time.monotonic()
        status = answered(s, CHAT, data)[0]
        assert status in expected and time.monotonic() - begin < 3, (data[-40:], status, time.monotonic() - begin)


def test_cut_and_flipped_documents_are_refused(s, step=37):
    """Every 37th place here; all of them in the long run."""
    data = json.dumps(body(s, "Hello! " * 60, max_tokens=1, stop=["x", "y"], seed=1, metadata={"a": "b"})).encode()
    for answer in post_many(s, [data[:end] for end in range(0, len(data), max(1, step // 8))]):
        assert code_of(answer)[0] == 400
    flipped = []
    for place in range(0, len(data) * 8, step):
        copy = bytearray(data)
        copy[place // 8] ^= 1 << place % 8
        flipped.append(bytes(copy))
    statuses = {}
    for answer in post_many(s, flipped):
        statuses[answer[0]] = statuses.get(answer[0], 0) + 1
    assert statuses.keys() <= {200, 400, 404}, statuses
    return str(statuses)
