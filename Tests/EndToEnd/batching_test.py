"""Many requests at once, and prefixes that outlive the server: every answer is the one that the request gets alone."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from reliability.watch import wait_for
from server import Server

CHAT = "/v1/chat/completions"
WORDS = "stone river cloud lamp green seven window paper north apple quick silver garden music winter bread".split()


def text(seed, words):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


def options(seed):
    """Greedy or sampled; with log probabilities, which tell answers apart that have the same words."""
    return {
        "temperature": 0 if seed % 2 else 1, "seed": seed, "max_tokens": 24, "logprobs": True, "top_logprobs": 2,
        "extra_body": {"ignore_eos": True}}


def numbers(logprobs):
    return [(entry.token, entry.logprob, tuple(top.logprob for top in entry.top_logprobs)) for entry in logprobs]


def ask(s, seed, words=30):
    """A request that no other is like: its tokens with their log probabilities, and its cached tokens."""
    answer = s.chat(f"Number {seed}. " + text(seed, words), **options(seed))
    return numbers(answer.choices[0].logprobs.content), answer.usage.prompt_tokens_details.cached_tokens


def stream(s, seed):
    parts, finish = [], None
    for chunk in s.chat(f"Number {seed}. " + text(seed, 30), stream=True, **options(seed)):
        for choice in chunk.choices:
            parts += numbers(choice.logprobs.content) if choice.logprobs else []
            finish = choice.finish_reason or finish
    assert finish == "length", f"stream {seed} ended with {finish}"
    return parts


def test_two_hundred_streams_each_get_their_own_answer(s):
    other = Server(s.binary, "--max-sequences", "16", "--queue-limit", "300", "--max-stall", "50")
    try:
        alone = [ask(other, seed)[0] for seed in range(200)]
    finally:
        assert other.stop() == 0
    other = Server(s.binary, "--max-sequences", "16", "--queue-limit", "300", "--max-stall", "50")
    try:
        with ThreadPoolExecutor(200) as pool:
            together = list(pool.map(lambda seed: stream(other, seed), range(200)))
        mixed = [seed for seed in range(200) if together[seed] != alone[seed]]
        assert not mixed, f"{len(mixed)} differ, the first is {mixed[0]}"
        assert len({str(answer) for answer in alone}) == 200, "the numbers do not tell the requests apart"
    finally:
        assert other.stop() == 0


def test_a_long_prompt_changes_no_stream_beside_it(s):
    other = Server(s.binary, "--max-stall", "10", "--prefix-cache", "0")
    try:
        alone = [stream(other, seed) for seed in range(4)]
        with ThreadPoolExecutor(6) as pool:
            long = [pool.submit(ask, other, seed, 700) for seed in (1001, 1003)]
            together = list(pool.map(lambda seed: stream(other, seed), range(4)))
            answers = [f.result()[0] for f in long]
        assert together == alone
        assert answers == [ask(other, seed, 700)[0] for seed in (1001, 1003)]
    finally:
        assert other.stop() == 0


def test_refusals_have_numbers(s):
    other = Server(s.binary, "--max-sequences", "2", "--queue-limit", "3")
    body = {
        "model": other.model, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 600,
        "ignore_eos": True, "temperature": 0}
    try:
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: other.post(CHAT, body), range(20)))
        refused = [answer for answer in answers if answer[0] == 429]
        assert len([answer for answer in answers if answer[0] == 200]) + len(refused) == 20
        assert refused
        for _, headers, content in refused:
            assert 1 <= int(headers["retry-after"]) <= 60
            assert b"2 running, 3 waiting (--queue-limit 3)" in content, content
    finally:
        assert other.stop() == 0


# Prefixes on disk.


def cached(s, seed, words=300):
    return ask(s, seed, words)


def opened(server):
    """Waits until the weights are hashed, which the first server with a folder does in the background."""
    until = time.monotonic() + 20
    while not any("prefixes on disk" in line for line in server.log):
        assert time.monotonic() < until, server.log[-5:]
        time.sleep(0.02)


def test_a_restart_finds_the_prefixes_of_the_run_before(s):
    folder = tempfile.mkdtemp()
    try:
        first = Server(s.binary, "--prefix-cache-dir", folder)
        cold, none = cached(first, 5)
        assert none == 0
        opened(first)
        assert first.stop() == 0
        second = Server(s.binary, "--prefix-cache-dir", folder)
        warm, tokens = cached(second, 5)
        assert tokens > 100 and tokens % 32 == 0, tokens
        assert warm == cold
        assert second.stop() == 0
        # Other bits are no hits.
        third = Server(s.binary, "--prefix-cache-dir", folder, "--kv-cache-type", "q8")
        assert cached(third, 5)[1] == 0
        assert third.stop() == 0
        return f"{tokens} tokens from disk"
    finally:
        shutil.rmtree(folder)


def files(folder, ending):
    return [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(ending)]


def test_a_kill_while_prefixes_are_written_leaves_whole_ones(s):
    folder = tempfile.mkdtemp()
    try:
        plain = Server(s.binary)
        expected = [cached(plain, seed)[0] for seed in range(6)]
        assert plain.stop() == 0
        hits = 0
        for round in range(6):
            server = Server(s.binary, "--prefix-cache-dir", folder)
            unfinished = files(folder, ".tmp")
            assert not unfinished, unfinished

            def work():
                try:
                    for _ in range(3):
                        for seed in range(6):
                            cached(server, seed)
                except Exception:
                    return

            thread = threading.Thread(target=work)
            thread.start()
            before, deadline = len(files(folder, ".kv")), time.monotonic() + 30
            while round < 3 and len(files(folder, ".kv")) <= before + round and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.05 * round)
            os.kill(server.process.pid, signal.SIGKILL)
            thread.join()
            server.process.wait()
        last = Server(s.binary, "--prefix-cache-dir", folder)
        for seed in range(6):
            content, tokens = cached(last, seed)
            assert content == expected[seed], seed
            hits += tokens
        # The few tokens that all prompts begin with come from memory.
        assert hits >= 32 * 6, hits
        assert last.stop() == 0
        assert not [line for line in last.log if "a saved prefix is deleted" in line and "damaged" in line]
        return f"{hits} tokens found after six kills"
    finally:
        shutil.rmtree(folder)


def test_damaged_and_foreign_files_do_no_harm(s):
    folder = tempfile.mkdtemp()
    try:
        first = Server(s.binary, "--prefix-cache-dir", folder)
        expected = cached(first, 7)[0]
        opened(first)
        assert first.stop() == 0
        blocks = files(folder, ".kv")
        assert len(blocks) > 4
        place = os.path.dirname(blocks[0])
        for path, damage in zip(blocks, (b"", b"x", os.urandom(10_000))):
            with open(path, "wb") as file:
                file.write(damage)
        with open(blocks[3], "r+b") as file:
            file.seek(1_000)
            file.write(bytes(64))
        foreign = os.path.join(place, "notes.txt")
        with open(foreign, "w") as file:
            file.write("mine")
        second = Server(s.binary, "--prefix-cache-dir", folder)
        assert cached(second, 7)[0] == expected
        assert second.stop() == 0
        assert [line for line in second.log if "a saved prefix is deleted" in line]
        assert os.path.exists(foreign)
    finally:
        shutil.rmtree(folder)


def test_the_size_of_the_folder_is_bounded(s):
    folder = tempfile.mkdtemp()
    try:
        server = Server(s.binary, "--prefix-cache-dir", folder, "--prefix-cache-dir-size", "1")
        for seed in range(8):
            for _ in range(2):
                cached(server, seed, 600)
        opened(server)
        assert server.stop() == 0
        size = sum(os.path.getsize(path) for path in files(folder, ".kv"))
        assert 0 < size <= 1 << 20, size
    finally:
        shutil.rmtree(folder)


def test_a_full_disk_costs_one_warning(s):
    folder = tempfile.mkdtemp()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True).returncode == 0
    try:
        if not mounted:
            return "skipped: no right to mount a file system"
        server = Server(s.binary, "--prefix-cache-dir", folder)
        expected = [cached(server, seed, 600)[0] for seed in range(3)]
        assert [cached(server, seed, 600)[0] for seed in range(3)] == expected
        opened(server)
        assert server.stop() == 0
        warnings = [line for line in server.log if "prefixes cannot be saved now" in line]
        assert len(warnings) == 1, warnings
        again = Server(s.binary, "--prefix-cache-dir", folder)
        assert [cached(again, seed, 600)[0] for seed in range(3)] == expected
        assert again.stop() == 0
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)


def test_two_servers_with_one_folder_both_serve(s):
    folder = tempfile.mkdtemp()
    try:
        first = Server(s.binary, "--prefix-cache-dir", folder)
        # The folder is its own once the weights are hashed.
        opened(first)
        second = Server(s.binary, "--prefix-cache-dir", folder)
        assert cached(first, 3)[0] == cached(second, 3)[0]
        wait_for(lambda: "prefixes are kept in memory only" in "".join(second.log), 30)
        assert second.stop() == 0
        assert first.stop() == 0
    finally:
        shutil.rmtree(folder)
