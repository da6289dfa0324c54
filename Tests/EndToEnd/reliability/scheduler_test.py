"""Queue, cancellation and sameness, against servers whose steps take long enough to look at them."""

import contextlib
import json
import random
import socket
import struct
import threading
import time

from reliability.hosts_and_keys_test import ranks_differ
from reliability.folders import changed, with_tensor
from reliability.streams_test import joined, streamed
from reliability.watch import (
    CHAT, answered, begin, body, code_of, encode, endless, read_all, read_event, responses, state, text_of, together,
    wait_for)
from server import Server

SLOTS, QUEUE = 4, 8


@contextlib.contextmanager
def slow_server(s, *flags, delay=20):
    other = Server(s.binary, "--test-hooks", "--step-delay-ms", str(delay), "--speculate", "off", "--threads", "1", *flags)
    try:
        yield other
    finally:
        assert other.stop() == 0


def small(s):
    return slow_server(s, "--max-sequences", str(SLOTS), "--queue-limit", str(QUEUE))


def long(s, tokens=60, **options):
    return body(s, ignore_eos=True, max_tokens=tokens, **options)


def busy(s, count):
    wait_for(lambda: state(s)["slots_busy"] == count, 10, f"{count} busy places")


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_the_queue_has_its_length(s, rounds=2):
    extra = 20
    with small(s) as other:
        for _ in range(rounds):
            streams = [begin(other, endless(other)) for _ in range(SLOTS)]
            busy(other, SLOTS)
            waiting = [begin(other, long(other, 1), "Connection: close") for _ in range(QUEUE)]
            wait_for(lambda: state(other)["queue_len"] == QUEUE, 5, "a full queue")
            times = []
            for _ in range(extra):
                start = time.monotonic()
                answer = answered(other, CHAT, long(other, 1))
                times.append(time.monotonic() - start)
                assert code_of(answer) == (429, "rate_limit_exceeded") and int(answer[1]["retry-after"]) >= 1
            assert min(times) < 0.1, sorted(times)[:3]
            for stream in streams:
                stream.close()
            for connection in waiting:
                assert responses(read_all(connection))[0][0] == 200
            # Who comes back finds room.
            assert answered(other, CHAT, long(other, 1))[0] == 200
        # All at once, before the first has its answer: every one is answered, no more than there is room for and no fewer.
        answers = [response[0] for response in
                   together(SLOTS + QUEUE + extra, lambda _: answered(other, CHAT, long(other, 200)))]
        assert (answers.count(200), answers.count(429)) == (SLOTS + QUEUE, extra), answers
    return f"a 429 takes {sorted(times)[extra // 2] * 1000:.1f} ms"


def test_overload_keeps_the_queue_bounded(s, seconds=4):
    """Ten times what fits, each refused client trying again: the queue keeps its bound and the work its pace."""
    with slow_server(s, "--max-sequences", "4", "--queue-limit", "8", delay=5) as other:
        def run(count, seconds):
            done, most, stop = [0], [0], time.monotonic() + seconds

            def client(_):
                while time.monotonic() < stop:
                    status = answered(other, CHAT, long(other, 10))[0]
                    assert status in (200, 429), status
                    if status == 200:
                        done[0] += 1
                    else:
                        time.sleep(0.2)

            def look():
                while time.monotonic() < stop:
                    most[0] = max(most[0], state(other)["queue_len"])
                    time.sleep(0.05)

            watcher = threading.Thread(target=look)
            watcher.start()
            together(count, client)
            watcher.join()
            return done[0], most[0]

        saturated, _ = run(8, seconds)
        overloaded, queue = run(60, seconds)
    # Those for whom there is room are counted too, until the engine looks.
    assert queue <= 8 + 4 and saturated > 0 and overloaded > 0.5 * saturated, (saturated, overloaded, queue)
    return f"{saturated} answers in {seconds} s with 8 clients, {overloaded} with 60"


def test_without_a_queue_the_rest_is_refused(s):
    with slow_server(s, "--max-sequences", "2", "--queue-limit", "0") as other:
        answers = [response[0] for response in together(8, lambda _: answered(other, CHAT, long(other, 100)))]
        assert (answers.count(200), answers.count(429)) == (2, 6), answers


def test_first_come_first_served(s):
    with slow_server(s, "--max-sequences", "1", "--queue-limit", "30", delay=10) as other:
        first = begin(other, endless(other))
        busy(other, 1)
        order, threads = [], []

        def wait(index, connection):
            read_all(connection)
            order.append(index)

        for index in range(15):
            connection = begin(other, long(other, 5), "Connection: close")
            wait_for(lambda: state(other)["queue_len"] == index + 1, 5, "one more in the queue")
            threads.append(threading.Thread(target=wait, args=(index, connection)))
            threads[-1].start()
        first.close()
        for thread in threads:
            thread.join()
        assert order == list(range(15)), order


def test_a_long_prompt_beside_streams(s):
    with slow_server(s, "--prefix-cache", "0", delay=5) as other:
        streams = [begin(other, endless(other)) for _ in range(4)]
        for stream in streams:
            read_event(stream)
        prompt = begin(other, {"model": other.model, "prompt": [65] * 1900, "max_tokens": 2}, "Connection: close")
        prompt.close()
        with other.connect() as connection:
            connection.sendall(encode(
                "/v1/completions", {"model": other.model, "prompt": [65] * 1900, "max_tokens": 2}, "Connection: close"))
            before = state(other)["decode_steps_total"]
            arrived = sum(read_event(stream).count(b"data: ") for stream in streams for _ in range(12))
            steps = state(other)["decode_steps_total"] - before
            assert responses(read_all(connection))[0][0] == 200
        for stream in streams:
            stream.close()
        # Every step that computes a part of the prompt gives each stream its token too.
        assert arrived >= 4 * 12 and steps >= 12, (arrived, steps)


def test_leaving_the_queue(s):
    with slow_server(s, "--max-sequences", "1") as other:
        first = begin(other, endless(other))
        busy(other, 1)
        started = state(other)["started_total"]
        for leave in (reset, lambda connection: connection.close()):
            waiting = [begin(other, long(other)) for _ in range(5)]
            wait_for(lambda: state(other)["queue_len"] == 5, 5, "a queue")
            for connection in waiting:
                leave(connection)
            wait_for(lambda: state(other)["queue_len"] == 0, 2, "an empty queue")
        first.close()
        busy(other, 0)
        assert state(other)["started_total"] == started


def test_leaving_at_work(s):
    with slow_server(s, "--max-sequences", "2", "--prefix-cache", "0", delay=100) as other:
        prompt = {"model": other.model, "prompt": [65] * 2000, "max_tokens": 4}
        for name, data in (("prefill", encode("/v1/completions", prompt)),
                           ("stream", encode(CHAT, endless(other))), ("whole", encode(CHAT, long(other, 1000)))):
            connection = other.connect()
            connection.sendall(data)
            busy(other, 1)
            if name == "stream":
                read_event(connection)
            else:
                time.sleep(0.25)
            connection.close()
            left = state(other)["decode_steps_total"]
            busy(other, 0)
            # The step under way, and one more that had begun before the end was noticed.
            assert state(other)["decode_steps_total"] - left <= 2, name


def test_leaving_at_any_time(s, count=100):
    chance = random.Random(12)

    def one(_):
        with s.connect() as connection:
            connection.sendall(encode(CHAT, endless(s) if chance.random() < 0.5 else long(s, 500)))
            time.sleep(chance.random() * 0.2)
            if chance.random() < 0.5:
                reset(connection)

    for _ in range(count // 20):
        together(20, one)
    busy(s, 0)


def test_many_streams_do_not_mix(s, count=64):
    def content(index):
        kinds = ("Hello!", "What is the capital of France?", "Tell me a story.", "What is the weather in Paris?")
        return body(s, kinds[index % 4], temperature=(0, 1)[index % 2], seed=index % 8, max_tokens=32)

    alone = [text_of(answered(s, CHAT, content(index))) for index in range(8)]

    def run(index):
        for _ in range(20):
            try:
                return joined(streamed(s, content(index)))
            except AssertionError as problem:
                if b"rate_limit" not in str(problem).encode():
                    raise
                time.sleep(0.2)
        raise AssertionError("no place")

    texts = together(count, run)
    for index, text in enumerate(texts):
        assert text == alone[index % 8], index


def test_the_bytes_are_the_same_alone_in_company_and_from_the_cache(s):
    """Alone, in company, from the cache, without one, after a restart."""
    question = [{"role": "user", "content": "Tell me a story. " * 40}]
    content = body(s, question, max_tokens=40)
    first = text_of(answered(s, CHAT, content))
    for count in (1, 2, 8, 16):
        assert {text_of(answer) for answer in together(count, lambda _: answered(s, CHAT, content))} == {first}, count
    partly = body(s, [{"role": "user", "content": "Tell me a story. " * 25 + "Hello!"}], max_tokens=40)
    second = text_of(answered(s, CHAT, partly))
    for flags in (("--prefix-cache", "0"), (), ("--max-sequences", "1", "--speculate", "off"), ("--threads", "1")):
        other = Server(s.binary, *flags)
        try:
            assert text_of(answered(other, CHAT, partly)) == second, flags
            assert text_of(answered(other, CHAT, content)) == first, flags
        finally:
            other.stop()


def test_weights_that_are_not_numbers(s):
    broken = with_tensor("model.norm.weight", lambda data: b"\xff\x7f" * (len(data) // 2))
    with changed(model_dot_safetensors=broken) as folder:
        other = Server(s.binary, model=folder)
        try:
            for stream in (False, True):
                status, _, data = answered(other, CHAT, body(other, stream=stream, max_tokens=5))
                # A stream has begun when the first logits are there.
                assert status == (200 if stream else 500) and b'"code":"internal"' in data, (status, data)
            assert other.get("/health")[0] == 200
        finally:
            assert other.stop() == 0


def test_what_one_key_has_computed_helps_no_other(s, rounds=20):
    """Without tenants a shared beginning is found in the cache; with them not across keys, nor can a clock tell."""
    def ask(other, key, prompt):
        content = {"model": other.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        start = time.monotonic()
        status, _, data = answered(other, "/v1/completions", content, f"Authorization: Bearer {key}")
        assert status == 200, data
        return time.monotonic() - start, json.loads(data)["usage"]["prompt_tokens_details"]["cached_tokens"]

    times = {"cold": [], "other": [], "same": []}
    for scope in ("shared", "tenant"):
        other = Server(s.binary, "--api-key", "alice", "--api-key", "bob", "--prefix-cache-scope", scope, "--speculate", "off")
        try:
            for number in range(rounds if scope == "tenant" else 2):
                prompt = [100 + number] * 1900
                cold, first = ask(other, "alice", prompt)
                across, second = ask(other, "bob", prompt)
                same, third = ask(other, "alice", prompt)
                assert first == 0 and third >= 1800, (scope, first, third)
                assert second == (0 if scope == "tenant" else third), (scope, second)
                if scope == "tenant":
                    for name, value in (("cold", cold), ("other", across), ("same", same)):
                        times[name].append(value)
        finally:
            assert other.stop() == 0
    middle = {name: sorted(values)[len(values) // 2] * 1000 for name, values in times.items()}
    deviations = ranks_differ(times["cold"], times["other"])
    assert deviations < 4 and middle["same"] < middle["cold"] / 2, (deviations, middle)
    return ", ".join(f"{name} {value:.1f} ms" for name, value in middle.items()) + f"; {deviations:.2f} deviations apart"
