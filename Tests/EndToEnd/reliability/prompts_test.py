"""Prompts and the tokenizer, where the server adds something to what TokenizersTests prove."""

import json
import time

from reliability.framing_test import SHARED
from reliability.watch import CHAT, answered, begin, body, code_of, cpu_seconds, encode, endless, read_event
from server import Server

LONG = {
    "one letter": "x", "underscores": "_", "carets": "^", "spaces": " ", "lines": "\n", "CRLF": "\r\n", "emoji": "\U0001f600",
    "marks": "e\u0301", "digits": "1", "apostrophes": "'", "mixed": "aB1_ ", "jamo": "\u1112\u1161\u11ab",
    "zwj": "\U0001f468\u200d", "nul": "\0", "controls": "<|im_end|>", "words": "the ", "bom": "\ufeff",
}


def test_much_of_one_thing(s):
    # A megabyte of each is encoded in TokenizersTests.
    for name, unit in list(LONG.items())[::3]:
        text = unit * (200_000 // len(unit.encode()))
        before = cpu_seconds(s)
        answer = answered(s, CHAT, body(s, text))
        assert code_of(answer) == (400, "context_length_exceeded"), (name, answer[2][:200])
        assert cpu_seconds(s) - before < 2, (name, cpu_seconds(s) - before)


def test_others_do_not_wait_for_a_long_text(s):
    stream = begin(s, endless(s))
    read_event(stream)
    gaps, last = [], time.monotonic()
    with s.connect() as other:
        other.sendall(encode(CHAT, body(s, "^" * 300_000), "Connection: close"))
        for _ in range(100):
            read_event(stream)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
        assert other.recv(100).startswith(b"HTTP/1.1 400 ")
    stream.close()
    gaps.sort()
    assert gaps[len(gaps) // 2] < 0.5, gaps[-5:]
    return f"gaps: median {gaps[50] * 1000:.1f} ms, longest {gaps[-1] * 1000:.1f} ms"


def test_special_words_of_a_user_are_text(s):
    words = json.loads((s.demo / "tokenizer.json").read_text())["added_tokens"]
    # Others, such as <think>, are words of the vocabulary that a text may hold, here as in the reference.
    for word in (word for word in words if word["special"]):
        content = {"content": word["content"], "parse_special": False}
        ids = json.loads(answered(s, "/tokenize", content)[2])["tokens"]
        assert word["id"] not in ids, word
        prompt = {"messages": [{"role": "user", "content": word["content"]}]}
        ids = json.loads(answered(s, "/tokenize", prompt)[2])["tokens"]
        plain = json.loads(answered(s, "/tokenize", {"messages": [{"role": "user", "content": ""}]})[2])["tokens"]
        assert ids.count(word["id"]) == plain.count(word["id"]), word


def test_awkward_texts_come_back(s):
    folder = SHARED / "unicode" / "blns"
    if not folder.exists():
        return f"skipped: {folder} is absent"
    path = next(path for path in sorted(folder.rglob("*.json")))
    texts = [text for text in json.loads(path.read_text()) if text]
    for text in texts[::4]:
        ids = json.loads(answered(s, "/tokenize", {"content": text, "parse_special": False})[2])["tokens"]
        assert json.loads(answered(s, "/detokenize", {"tokens": ids})[2])["content"] == text, text
        assert answered(s, "/tokenize", {"messages": [{"role": "user", "content": text}]})[0] == 200
    return f"{len(texts[::4])} texts"


def test_the_edge_of_the_context(s):
    other = Server(s.binary, "--max-context", "64")
    try:
        for count, status in ((62, 200), (63, 200), (64, 400), (65, 400)):
            content = {"model": other.model, "prompt": [65] * count, "max_tokens": 5, "ignore_eos": True}
            got, _, data = answered(other, "/v1/completions", content)
            assert got == status, (count, data)
            if status == 200:
                assert json.loads(data)["usage"]["completion_tokens"] == 64 - count
            else:
                assert json.loads(data)["error"]["code"] == "context_length_exceeded"
    finally:
        other.stop()
