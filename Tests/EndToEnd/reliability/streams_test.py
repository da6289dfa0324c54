"""Streams. Characters and stop strings cut among tokens are proved in TokenizersTests and ServerTests."""

import json
import socket
import struct
import time

from reliability.watch import (
    CHAT, answered, begin, body, encode, endless, read_all, read_event, responses, state, text_of, together, wait_for)


def events(answer):
    status, headers, content = responses(answer)[0]
    assert status == 200 and content.endswith(b"data: [DONE]\n\n"), content[-200:]
    found = []
    for event in content.decode().split("\n\n")[:-2]:
        if event.startswith(":"):
            continue
        assert event.startswith("data: ") and "\n" not in event, event
        found.append(json.loads(event[6:]))
    return found


def streamed(s, content):
    with begin(s, {**content, "stream": True}, "Connection: close") as connection:
        return events(read_all(connection))


def joined(found):
    return "".join(choice["delta"].get("content") or "" for event in found for choice in event["choices"])


def test_streams_are_the_whole_answer(s):
    for seed in range(4):
        content = {**body(s, "Tell me a story."), "temperature": 1.5, "seed": seed, "max_tokens": 60}
        found = streamed(s, {**content, "stream_options": {"include_usage": True}})
        whole = json.loads(answered(s, CHAT, content)[2])
        assert joined(found) == whole["choices"][0]["message"]["content"]
        assert found[0]["choices"][0]["delta"]["role"] == "assistant"
        ends = [choice["finish_reason"] for event in found for choice in event["choices"] if choice["finish_reason"]]
        assert ends == [whole["choices"][0]["finish_reason"]]
        assert found[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]


def test_limits_inside_characters(s):
    """At a high temperature the byte tokens of the vocabulary give every kind of broken character."""
    def run(seed):
        content = {**body(s, "\U0001f600 \u00e9\u4e2d"), "temperature": 2, "seed": seed, "max_tokens": 1 + seed % 40}
        found = streamed(s, content)
        text = text_of(answered(s, CHAT, content))
        assert joined(found) == text
        text.encode()

    together(8, lambda part: [run(seed) for seed in range(part, 64, 8)])


def test_no_part_of_a_stop_string_is_sent(s):
    text = text_of(answered(s, CHAT, body(s, "Tell me a story.", max_tokens=40)))
    for start, length in ((5, 1), (5, 3), (9, 8), (3, 20)):
        stop = text[start:start + length]
        expected = text[:text.index(stop)]
        content = body(s, "Tell me a story.", max_tokens=40, stop=[stop, stop + "!", "\U0001f600"])
        assert text_of(answered(s, CHAT, content)) == expected
        assert joined(streamed(s, content)) == expected


def test_lines_inside_of_events(s):
    content = body(s, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {
        "const": "a\n\r\u2028data: x\n\n"}}}, max_tokens=60)
    assert json.loads(joined(streamed(s, content))) == "a\n\r\u2028data: x\n\n"


def test_slow_readers_hold_little_memory_and_hinder_nobody(s):
    rest = state(s)["rss"]
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.connect((s.host, s.port))
    slow.sendall(encode(CHAT, endless(s, logprobs=True, top_logprobs=20)))
    started = time.monotonic()
    quick = events(raw_stream(s, body(s, "Tell me a story.", max_tokens=100)))
    assert time.monotonic() - started < 20 and joined(quick)
    for _ in range(20):
        slow.recv(1024)
        time.sleep(0.01)
    # A mailbox of 4096 tokens, whose alternatives are what there is most of.
    assert state(s)["rss"] - rest < 32 << 20, (state(s)["rss"] - rest) >> 20
    slow.close()
    wait_for(lambda: state(s)["slots_busy"] == 0, 10, "the end of the slow reader's answer")


def raw_stream(s, content):
    with begin(s, {**content, "stream": True}, "Connection: close") as connection:
        return read_all(connection)


def test_leaving_in_the_middle_of_an_event(s):
    for hard in (True, False):
        connections = [begin(s, endless(s)) for _ in range(8)]
        for connection in connections:
            read_event(connection)
            connection.recv(7)
            if hard:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        wait_for(lambda: state(s)["slots_busy"] == 0, 5, "the end of left streams")
