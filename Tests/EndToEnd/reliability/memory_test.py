"""One limit for everything: the worst request of every route, alone and 24 at a time, beside a small --memory.

Anonymous memory is what counts: weights are a mapped file, which the limit counts in full. It is looked at every few
milliseconds while the requests are answered; all resident memory, the program's own pages too, is told beside it."""

import json
import os
import pathlib
import tempfile
import threading
import time

import openai

from reliability.operating_system_test import control_group
from reliability.watch import CANARY, body, encode, get, read_all, responses, together, wait_for
from batches_test import line, upload
from server import DEMO, ROOT, Server

ENCODER = ROOT / "Fixtures" / "models" / "encoder-tiny"

# Bytes that a body may have without --max-body, less room for what is around the text.
MOST = (8 << 20) - 200
# 64 MiB beside the weights of the two models, 2 MiB.
LIMIT = 64 + 2


def held(pid):
    """KiB that no file backs, in memory or swapped out, and KiB in memory of every kind."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    anonymous, swapped, resident = (int(fields[name].split()[0]) for name in ("RssAnon", "VmSwap", "VmRSS"))
    return anonymous + swapped, resident


class Peak:
    """The most memory of a process while the block runs, KiB: what no file backs, and all."""

    def __init__(self, server):
        self.pid, self.most, self.resident, self.ended = server.process.pid, 0, 0, threading.Event()

    def _own(self):
        """What the kernel says is the most of all since it was asked to forget; nothing where it may not be asked."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) if self.isKnown else 0

    def _look(self):
        while not self.ended.wait(0.003):
            try:
                anonymous, resident = held(self.pid)
            except (OSError, KeyError):
                return
            self.most, self.resident = max(self.most, anonymous), max(self.resident, resident)

    def __enter__(self):
        try:
            pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")
            self.isKnown = True
        except OSError:
            self.isKnown = False
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        try:
            # A peak between two looks is in here.
            self.resident = max(self.resident, self._own())
        except OSError:
            pass

    def __str__(self):
        return f"{self.most >> 10} MiB, RSS {self.resident >> 10} MiB"


class Account:
    """What every request held, in lines, and the most of all."""

    def __init__(self, limit=LIMIT):
        self.lines, self.most, self.resident, self.limit = [], 0, 0, limit

    def note(self, what, peak):
        """Raises where it was more than the limit."""
        self.lines.append(f"{what}, {peak}")
        self.most, self.resident = max(self.most, peak.most), max(self.resident, peak.resident)
        assert peak.most <= self.limit << 10, self.lines[-1]

    def __str__(self):
        return (f"{self.most >> 10} MiB of {self.limit} at most, RSS {self.resident >> 10}, memory of the program and its files "
                f"included; {len(self.lines)} requests")


def filled(start, piece, end):
    """A body of nearly the largest size: a start, as many pieces as fit, an end."""
    room = MOST - len(start) - len(end)
    return Filled((start + piece * (room // len(piece.encode())) + end).encode(), start.encode(), piece.encode(), end.encode())


class Filled(bytes):
    """A body that can be made smaller: the largest is refused where one that is not might be worked on."""

    def __new__(cls, content, *parts):
        made = super().__new__(cls, content)
        made.parts = parts
        return made

    def part(self, share):
        start, piece, end = self.parts
        return start + piece * ((len(self) // share - len(start) - len(end)) // len(piece)) + end


def smaller(requests, *shares):
    """These requests, and those of them whose bodies are filled with that part of the bytes."""
    found = dict(requests)
    for name, (path, content, *kind) in requests.items():
        if isinstance(content, Filled):
            found |= {f"{name}, {share} times smaller": (path, content.part(share), *kind) for share in shares}
    return found


def worst(s, tokens):
    """Path and body of the request that holds most, route by route; tokens of an answer with log probabilities."""
    model = json.dumps(s.model)
    long = dict(ignore_eos=True, max_tokens=tokens, logprobs=True, top_logprobs=20)
    chat = f'{{"model":{model},"messages":['
    answer = dict(model=s.model, input=CANARY, include=["message.output_text.logprobs"], top_logprobs=20, max_output_tokens=tokens)
    return {
        "chat, 128 choices with 20 log probabilities": ("/v1/chat/completions", body(s, n=128, **long)),
        "the same as a stream": ("/v1/chat/completions", body(s, n=128, stream=True, **long)),
        "chat, a text that fills the body": (
            "/v1/chat/completions", filled(chat + '{"role":"user","content":"', "a b c, ", '"}]}')),
        "chat, empty objects that fill the body": ("/v1/chat/completions", filled(chat, "{},", "{}]}")),
        "chat, lists in lists": ("/v1/chat/completions", filled(chat, '[[[{"a":0}]]],', "0]}")),
        "completions, 1,024 choices with log probabilities": (
            "/v1/completions", dict(model=s.model, prompt=["a"] * 8, n=128, logprobs=5, echo=True, max_tokens=min(30, tokens))),
        "completions, a long prompt that is echoed": (
            "/v1/completions", dict(model=s.model, prompt=[300] * 1900, n=16, logprobs=5, echo=True, max_tokens=min(100, tokens))),
        "completions, ids that fill the body": ("/v1/completions", filled(f'{{"model":{model},"prompt":[', "1,", "1]}")),
        "messages, a long answer": (
            "/v1/messages", dict(model=s.model, max_tokens=4 * tokens, messages=[{"role": "user", "content": CANARY}])),
        "messages, counting": (
            "/v1/messages/count_tokens", filled(f'{{"model":{model},"messages":[{{"role":"user","content":"', "word ", '"}]}')),
        "responses with log probabilities": ("/v1/responses", answer),
        "the same, not stored and as a stream": ("/v1/responses", dict(answer, store=False, stream=True)),
        "the same in the background": ("/v1/responses", dict(answer, background=True, stream=True)),
        "responses, counting": ("/v1/responses/input_tokens", filled(f'{{"model":{model},"input":"', "word ", '"}')),
        "responses, compacting": ("/v1/responses/compact", filled(
            f'{{"model":{model},"input":[', '{"role":"user","content":"a"},' * 9_000, '{"role":"user","content":"a"}]}')),
        "conversations, as many parts as there may be": ("/v1/conversations", {"items": [
            {"role": "user", "content": [{"type": "input_text", "text": "a" * 300}] * 1000}] * 20}),
        "tokenize with pieces": ("/tokenize", filled('{"with_pieces":true,"return_token_strs":true,"content":"', "a1 ", '"}')),
        # Each is one word for some tokenizers, which takes most: of it, or of its bytes.
        **{f"tokenize with pieces, {name}": ("/tokenize", filled('{"with_pieces":true,"content":"', piece, '"}')) for name, piece in (
            ("Chinese", "你好世界"), ("one letter", "x"), ("digits", "1"), ("blanks", " "), ("emoji", "😀"), ("controls", "\\u0001"))},
        "detokenize, controls": ("/detokenize", dict(tokens=[token_of("ā")] * (1 << 20))),
        "detokenize, the longest token": (
            "/detokenize", dict(tokens=[longest_token()] * (1 << 18))),
        "apply-template": ("/apply-template", filled(chat + '{"role":"user","content":"', "<|im_end|>", '"}]}')),
    }


def search_requests(s, files):
    """The same for vectors, files, and what is searched; `files` are a store and two files in it."""
    store, file = files["store"], files["file"]
    model = json.dumps(ENCODER.name)
    form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--b\r\n'
            b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n%s\r\n--b--\r\n')
    words = [" ".join(f"w{16 * index + number}" for number in range(11_000)) for index in range(16)]
    return {
        "embeddings, a text that fills the body": ("/v1/embeddings", filled(f'{{"model":{model},"input":"', "a b c ", '"}')),
        "embeddings, ids that fill the body": ("/v1/embeddings", filled(f'{{"model":{model},"input":[', "1,", "1]}")),
        "embeddings, as many texts as there may be": (
            "/v1/embeddings", dict(model=ENCODER.name, input=[f"a {index}" for index in range(2048)])),
        "embeddings, many texts of one letter": ("/v1/embeddings", filled(f'{{"model":{model},"input":[', '"a",', '"a"]}')),
        "a file that fills the body": ("/v1/files", form % (b"a b\n" * (MOST // 4 - 100)), "multipart/form-data; boundary=b"),
        "a form of many parts": ("/v1/files", b"--b\r\n\r\n\r\n" * (MOST // 10), "multipart/form-data; boundary=b"),
        "the content of a large file": (f"/v1/files/{files['large']}/content", None),
        "files of a client": ("/v1/files", None),
        "a store of many files": ("/v1/vector_stores", dict(name="x", file_ids=[file] * 500)),
        "many files for a store": (f"/v1/vector_stores/{store}/file_batches", dict(file_ids=[file] * 2000)),
        "the text of a file in a store": (f"/v1/vector_stores/{store}/files/{file}/content", None),
        "sixteen long questions, explained": (
            f"/v1/vector_stores/{store}/search", dict(query=words, max_num_results=50, explain=True)),
        "a filter that fills the body": (f"/v1/vector_stores/{store}/search", filled(
            '{"query":"a","filters":{"type":"or","filters":[', '{"type":"eq","key":"a","value":1},', "]}}")),
        "Ollama's chat, a text that fills the body": (
            "/api/chat", filled('{"model":"demo","messages":[{"role":"user","content":"', "a b c ", '"}]}')),
        "Ollama's chat, messages that fill the body": (
            "/api/chat", filled('{"model":"demo","messages":[', '{"role":"user","content":"a"},', '{"role":"user","content":"a"}]}')),
        "Ollama's generate, as it is": ("/api/generate", filled('{"model":"demo","raw":true,"prompt":"', "a1 ", '"}')),
        "Ollama's chat with log probabilities": ("/api/chat", dict(
            model="demo", messages=[{"role": "user", "content": CANARY}], stream=False, logprobs=True, top_logprobs=20,
            options=dict(num_predict=1000))),
        "Ollama's list": ("/api/tags", None),
        "pulling a model": ("/models/pull", dict(model="owner/name")),
        "the page": ("/", None),
        "the document": ("/openapi.json", None),
        "counters": ("/metrics", None),
    }


def searched(s):
    """A store with a file, and a file that nearly fills a body."""
    def send(path, content, kind="application/json"):
        status, _, data = s.post(path, content, [f"Content-Type: {kind}"])
        assert status == 200, (path, status, data[:200])
        return json.loads(data)

    def upload(text):
        form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--b\r\n'
                b'Content-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n' + text + b"\r\n--b--\r\n")
        return send("/v1/files", form, "multipart/form-data; boundary=b")["id"]

    file = upload(b"# A title\n\n" + b"The words of a text, one after another. " * 400)
    store = send("/v1/vector_stores", dict(name="x", file_ids=[file]))["id"]
    wait_for(lambda: json.loads(s.get(f"/v1/vector_stores/{store}")[2])["status"] == "completed", 60, "the index")
    return dict(store=store, file=file, large=upload(b"a b c d\n" * (5 << 17)))


def any_body_for(s):
    """For every route that takes a body, bodies of nearly the largest size: whatever is asked there, and by what route."""
    document = json.loads(s.get("/openapi.json")[2])
    found = {}
    for pattern, methods in document["paths"].items():
        if "post" not in methods or pattern in ("/models/unload", "/models/load"):
            continue
        path = pattern.replace("{", "").replace("}", "")
        for name, content in (
            ("a text", filled('{"model":"demo","input":"', "a b ", '"}')),
            ("objects", filled('{"model":"demo","messages":[', "{},", "{}],\"input\":1}")),
            ("members", filled('{"model":"demo"', ',"a":0', "}")),
        ):
            found[f"{pattern}, {name} that fills the body"] = (path, content)
    return found


def vocabulary():
    return json.loads((DEMO / "tokenizer.json").read_text())["model"]["vocab"]


def longest_token():
    return max(vocabulary().items(), key=lambda item: len(item[0]))[1]


def token_of(spelling):
    return vocabulary()[spelling]


def status_of(s, path, content, kind="application/json"):
    """The status of an answer of which only the ends are kept: it may have a hundred megabytes."""
    start, end = b"", b""
    with s.connect() as connection:
        connection.settimeout(600)
        try:
            if content is None:
                connection.sendall(get(path, "Connection: close"))
            else:
                head = [] if kind == "application/json" else [f"Content-Type: {kind}"]
                connection.sendall(encode(path, content, "Connection: close", *head))
        except OSError:
            pass  # Refused before the end of the body; the answer says why.
        try:
            while piece := connection.recv(1 << 20):
                start = start if len(start) > 100 else start + piece[:1000]
                end = (end + piece)[-3000:]
        except OSError:
            pass
    status = int(start.split(b" ", 2)[1]) if start else "no answer"
    return "200, then 503" if status == 200 and b"insufficient_memory" in end else status


def long_conversation(s):
    """A conversation as long as there is room for; its id."""
    for count in (20, 10, 5, 2):
        items = {"items": [{"role": "user", "content": [{"type": "input_text", "text": "a" * 300}] * 1000}] * count}
        status, _, data = s.post("/v1/conversations", items)
        if status == 200:
            return json.loads(data)["id"]
    raise AssertionError((status, data[:200]))


def serving(binary, *flags):
    return Server(binary, "--memory", f"{LIMIT}M", "--kv-cache-type", "f32", *flags)


def searching(binary):
    """A server that makes vectors too."""
    return serving(binary, "--model", str(ENCODER), "--allow-pull")


ANSWERS = {200, 400, 404, 413, 503, 507, "200, then 503"}


def ask_alone(other, requests, account):
    for name, request in requests.items():
        with Peak(other) as peak:
            status = status_of(other, *request)
        account.note(f"{name}: {status}", peak)
        # 422 and 424 are what text-embeddings-inference says of a bad body, and where it is short of something.
        assert status in ANSWERS | {403, 405, 408, 415, 422, 424}, account.lines[-1]
        assert other.process.poll() is None, account.lines[-1]


def answers(other):
    try:
        return other.chat(CANARY, max_tokens=4).choices[0].message.content
    except openai.InternalServerError as error:
        assert error.code == "insufficient_memory", error
        return None


def alone(other, ask, account=None):
    """Asks one after the other; what was held, in words."""
    account = account or Account()
    try:
        ask(account)
        wait_for(lambda: other.get("/health")[0] == 200, 5, "health")
        # What was left to be done in the background may hold memory for a while; then there is room again.
        wait_for(lambda: answers(other), 60, "an answer")
    finally:
        print("\n".join(account.lines))
        code = other.stop()
    assert code == 0
    return str(account)


def test_the_worst_request_of_every_other_route(s):
    """Files, stores, vectors, other wires, and any route of the document that takes a body."""
    other = searching(s.binary)
    return alone(other, lambda account: ask_alone(
        other, smaller(search_requests(other, searched(other)) | any_body_for(other), 4, 16), account))


def test_the_worst_request_of_every_route(s):
    other = serving(s.binary)

    def ask(account):
        ask_alone(other, smaller(worst(other, 200), 4, 16), account)
        identity = long_conversation(other)
        ask_alone(other, {path: (path, content) for path, content in (
            (f"/v1/conversations/{identity}/items", {"items": [{"role": "user", "content": "a"}]}),
            ("/v1/responses", dict(model=other.model, conversation=identity, input="a")))}, account)

    return alone(other, ask)


def batch_requests(s):
    """The same for batches: what is asked, and what is answered beside all others afterwards."""
    def of(file):
        return "/v1/batches", dict(input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h")

    def batch(*lines):
        return of(upload(s.client, lines))

    message = {"model": s.model, "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}
    many = [{"custom_id": f"r{index}", "params": message} for index in range(50_000)]
    return {
        "a batch of messages that fills the body": ("/v1/messages/batches", dict(requests=many)),
        "a batch of messages with a text that fills the body": ("/v1/messages/batches", dict(requests=[
            {"custom_id": "a", "params": dict(message, messages=[{"role": "user", "content": "a b c " * (MOST // 6 - 100)}])}])),
        "batches of messages, empty objects": ("/v1/messages/batches", filled('{"requests":[', "{},", "{}]}")),
        "a batch of many lines": batch(*(line(f"r{index}", s.model, max_tokens=1) for index in range(MOST // 220))),
        "a batch of one line, a text that fills it": batch(line("a", s.model, messages=[
            {"role": "user", "content": "a b c " * (MOST // 6 - 100)}])),
        "a batch of one line of small values": batch(line("a", s.model, stop=[1] * (MOST // 3 - 200))),
        "a batch of lines of one letter": of(
            s.client.files.create(file=("in.jsonl", b"a\n" * (MOST // 2 - 200)), purpose="batch").id),
        "a batch of long answers": batch(*(line(f"r{index}", s.model, n=128, logprobs=True, top_logprobs=20, max_tokens=100)
                                           for index in range(4))),
    }


def test_batches_stay_within_the_limit(s):
    """Their requests are answered meanwhile: the next ones come beside that."""
    other = serving(s.binary)

    def ask(account):
        requests = smaller(batch_requests(other), 16)
        ask_alone(other, requests, account)
        for name, request in requests.items():
            with Peak(other) as peak:
                statuses = together(24, lambda _: status_of(other, *request))
                time.sleep(1)
            account.note(f"{name}: {counted(statuses)}", peak)
            assert set(statuses) <= ANSWERS | {408, 429}, account.lines[-1]

    return alone(other, ask)


def test_24_of_the_worst_at_once(s, tokens=4):
    """Where vectors are made, too: that model takes room."""
    return at_once(s, lambda other: smaller(worst(other, tokens), 16))


def test_24_of_the_others_at_once(s):
    return at_once(s, lambda other: smaller(search_requests(other, searched(other)), 16))


def test_24_of_any_body_at_once(s, every=17):
    """Bodies that fill every route, each seventeenth of them or all."""
    return at_once(s, lambda other: dict(list(smaller(any_body_for(other), 16).items())[::every]))


def counted(statuses):
    return {status: statuses.count(status) for status in set(statuses)}


def at_once(s, requests_for):
    with control_group(LIMIT + 24) as group:
        binary = s.binary
        if group:
            start = pathlib.Path(f"/tmp/mlxserve-memory-{os.getpid()}")
            start.write_text(f"#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {s.binary} \"$@\"\n")
            start.chmod(0o755)
            binary = str(start)
        other = searching(binary)

        def ask(account):
            for name, request in requests_for(other).items():
                with Peak(other) as peak:
                    statuses = together(24, lambda _: status_of(other, *request))
                account.note(f"{name}: {counted(statuses)}", peak)
                assert set(statuses) <= ANSWERS | {403, 405, 408, 415, 422, 424, 429}, account.lines[-1]
                assert other.process.poll() is None, account.lines[-1]
            if group:
                events = group / "memory.events"
                killed = (events if events.exists() else group / "memory.oom_control").read_text()
                assert "oom_kill 0" in killed, killed

        try:
            told = alone(other, ask)
        finally:
            if group:
                start.unlink()
    return told + (f"; in a control group of {LIMIT + 24} MiB" if group else "; without a control group: none can be made here")


def test_files_that_become_large(s):
    """What is indexed in the background is claimed too: a file is searched, or refused in words."""
    other = searching(s.binary)
    name = "n" * 100_000
    texts = {
        "lines of one letter": ("a.txt", b"a\n" * (MOST // 2 - 200)),
        "sentences of one letter": ("a.md", b"a. " * (MOST // 3 - 200)),
        "headings": ("b.md", b"".join(b"%s %s\n" % (b"#" * (1 + level % 6), b"h" * 80) for level in range(20_000))),
        "values under a long name": ("a.json", f'{{"{name}":[{"1," * 100_000}1]}}'.encode()),
        "rows under a long name": ("a.csv", f"{name}\n".encode() + b"1\n" * 100_000),
        "a table of columns": ("b.csv", b"," * (MOST // 2 - 200) + b"\n" + b"," * (MOST // 2 - 200)),
        "cells": ("c.csv", b"a," * 16_000 + b"\n" + (b"b," * 16_000 + b"\n") * 200),
        "a long name above others": ("c.json", b'{"%s":%s}' % (b"n" * (MOST - 1_000), b'{"a":' * 60 + b"1" + b"}" * 60)),
        "lines of JSON": ("a.jsonl", b"1\n" * (MOST // 2 - 200)),
        "sentences of wide stops": ("c.md", "！".encode() * (MOST // 3 - 200)),
        "words that are all different": ("c.txt", b"".join(b"%x " % number for number in range(600_000))),
        "empty objects": ("b.json", b"[" + b"{}," * (MOST // 3 - 300) + b"{}]"),
        "tags": ("a.html", b"<p>a" * (MOST // 4 - 200)),
        "one word": ("b.txt", b"a" * (MOST - 400)),
    }

    def ask(account):
        store = searched(other)["store"]
        for what, (file_name, text) in texts.items():
            form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--b\r\n'
                    b'Content-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' % file_name.encode()
                    + text + b"\r\n--b--\r\n")
            with Peak(other) as peak:
                status, _, data = other.post("/v1/files", form, ["Content-Type: multipart/form-data; boundary=b"])
                assert status in (200, 503), (what, status, data[:200])
                if status == 200:
                    file = json.loads(data)["id"]
                    path = f"/v1/vector_stores/{store}/files"
                    assert other.post(path, dict(file_id=file))[0] == 200

                    def entry():
                        return json.loads(other.get(f"{path}/{file}")[2])

                    try:
                        wait_for(lambda: entry()["status"] != "in_progress", 20, what)
                    except AssertionError:
                        pass  # It is large, and indexed piece by piece: that has a bound, too.
                    status = entry()["status"], (entry()["last_error"] or {}).get("message", "")[:60]
                    assert other.delete(f"/v1/files/{file}")[0] == 200
            account.note(f"{what}: {status}", peak)
            assert other.process.poll() is None, account.lines[-1]

    return alone(other, ask)


def test_24_of_every_export_at_once(s):
    """What only hands out: large files, the texts and lists of large stores, results of batches, stored answers, settings."""
    limit = 200
    with tempfile.TemporaryDirectory() as folder:
        other = Server(s.binary, "--memory", f"{limit}M", "--kv-cache-type", "f32", "--model", f"e={ENCODER}",
                       "--state-dir", folder)

        def made(path, content):
            status, _, data = other.post(path, content)
            assert status == 200, (path, status, data[:200])
            return json.loads(data)["id"]

        def of(kind):
            return json.loads(other.get(f"/v1/{kind}?limit=1")[2])["data"][0]["id"]

        def ask(account):
            parts = [b"The words of a text, one after another.\n" * 200_000] * 6
            large = other.client.uploads.upload_file_chunked(
                file=b"".join(parts), filename="large.txt", bytes=sum(map(len, parts)), mime_type="text/plain",
                purpose="assistants", part_size=8_000_000).file.id
            texts = [sent(other, f"{number}.md", b"# A title\n\n" + b"All words of number %d. " % number * 30) for number in range(400)]
            store = made("/v1/vector_stores", dict(name="x", metadata={"k": "v" * 500}))
            batch = made(f"/v1/vector_stores/{store}/file_batches", dict(file_ids=texts))
            long = sent(other, "long.md", b"# A title\n\n" + b"The words of a text, one after another. " * 40_000)
            made(f"/v1/vector_stores/{store}/files", dict(file_id=long))
            wait_for(lambda: json.loads(other.get(f"/v1/vector_stores/{store}")[2])["status"] == "completed", 240, "the index")
            lines = [dict(custom_id=f"r{number}", method="POST", url="/v1/embeddings",
                          body=dict(model="e", input=[f"a {index}" for index in range(1000)])) for number in range(30)]
            asked = sent(other, "in.jsonl", b"\n".join(json.dumps(each).encode() for each in lines), "batch")
            vectors = made("/v1/batches", dict(input_file_id=asked, endpoint="/v1/embeddings", completion_window="24h"))
            message = {"model": "demo", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}
            messages = made("/v1/messages/batches", dict(requests=[
                dict(custom_id=f"r{number}", params=message) for number in range(2_000)]))
            chat = made("/v1/chat/completions", dict(message, store=True, n=128, max_tokens=60, ignore_eos=True,
                                                     logprobs=True, top_logprobs=20))
            answer = made("/v1/responses", dict(model="demo", input=CANARY, max_output_tokens=1000, top_logprobs=20,
                                                include=["message.output_text.logprobs"]))
            conversation = long_conversation(other)
            item = of(f"conversations/{conversation}/items")
            wait_for(lambda: json.loads(other.get(f"/v1/batches/{vectors}")[2])["status"] == "completed", 240, "vectors")
            wait_for(lambda: json.loads(other.get(f"/v1/messages/batches/{messages}")[2])["processing_status"] == "ended", 240, "messages")
            output = json.loads(other.get(f"/v1/batches/{vectors}")[2])["output_file_id"]
            known = {"chat/completions/{id}": [chat], "models/{id}": ["demo"], "responses/{id}": [answer],
                     "conversations/{id}": [conversation], "files/{id}": [large, output], "vector_stores/{id}": [store],
                     "messages/batches/{id}": [messages], "batches/{id}": [vectors]}
            for pattern, methods in json.loads(other.get("/openapi.json")[2])["paths"].items():
                if "get" not in methods or pattern == "/models/sse" or "{owner}" in pattern:
                    continue
                ids = next((ids for start, ids in known.items() if f"/{start}" in pattern), [""])
                for number, id in enumerate(ids):
                    path = pattern.replace("{id}", id).replace("{file}", long).replace("{batch}", batch).replace("{item}", item)
                    if any(each.get("name") == "limit" for each in methods["get"].get("parameters", [])):
                        path += "?limit=100"
                    with Peak(other) as peak:
                        statuses = together(24, lambda _: status_of(other, path, None))
                    account.note(f"{pattern} {number or ''}: {counted(statuses)}", peak)
                    # 426: a path of WebSockets alone.
                    assert set(statuses) <= ANSWERS | {426, 429}, account.lines[-1]
                    assert other.process.poll() is None, account.lines[-1]

        return alone(other, ask, Account(limit))


def test_large_files_that_become_larger(s):
    """30 MB each, the worst of every reader, in 512 MiB: searched, or failed with its reason, and the process goes on."""
    size = 30 << 20
    texts = {
        "two rows of 7.5 million columns": ("a.csv", b"," * (size // 4) + b"\n" + b"1," * (size // 4)),
        "rows of two letters": ("b.csv", b"a\n" * (size // 2)),
        "numbers in a list": ("a.json", b"[" + b"1," * (size // 2) + b"1]"),
        "empty objects": ("b.json", b"[" + b"{}," * (size // 3) + b"{}]"),
        "lines of JSON": ("a.jsonl", b"1\n" * (size // 2)),
        "tags": ("a.html", b"<p>a" * (size // 4)),
        "entities": ("b.html", b"&lt;" * (size // 4)),
        "headings": ("a.md", b"# a\n" * (size // 4)),
        "sentences of one letter": ("b.md", b"a. " * (size // 3)),
        "code, lines of a brace": ("a.c", b"{\n" * (size // 2)),
        "code, functions": ("a.py", b"def a():\n b\n" * (size // 12)),
        "words that are all different": ("a.txt", b"".join(b"%x " % number for number in range(size // 7))),
        "one word": ("b.txt", b"a" * size),
    }
    limit = 512
    with control_group(limit) as group, tempfile.TemporaryDirectory() as folder:
        binary = within(group, s.binary, folder)
        flags = ["--memory", "400M", "--max-body", "64", "--model", f"e={ENCODER}", "--state-dir", folder + "/state"]
        other = Server(binary, *flags)
        lines = []
        try:
            store = json.loads(other.post("/v1/vector_stores", {})[2])["id"]
            path = f"/v1/vector_stores/{store}/files"
            for what, (name, text) in texts.items():
                with Peak(other) as peak:
                    file = sent(other, name, text)
                    assert other.post(path, dict(file_id=file))[0] == 200
                    try:
                        wait_for(lambda: entry(other, path, file)["status"] != "in_progress", 4, what)
                    except AssertionError:
                        pass  # It is large, and indexed piece by piece.
                    found = entry(other, path, file)
                    assert other.delete(f"/v1/files/{file}")[0] == 200
                reason = (found["last_error"] or {}).get("message", "")[:90]
                lines.append(f"{what}: {found['status']} {reason}, {peak.most >> 10} MiB")
                assert other.process.poll() is None and peak.most >> 10 <= 400, lines[-1]
            # Processes that die while they read a file.
            file = sent(other, *texts["sentences of one letter"])
            assert other.post(path, dict(file_id=file))[0] == 200
            tries = 0
            for _ in range(6):
                note = pathlib.Path(folder) / "state" / "library" / "attempts" / f"{store}.{file}"
                wait_for(lambda: note.exists() or entry(other, path, file)["status"] == "failed", 60, "a try")
                if entry(other, path, file)["status"] == "failed":
                    break
                tries += 1
                other.process.kill()
                other.process.wait()
                other = Server(binary, *flags)
            found = entry(other, path, file)
            lines.append(f"{tries} processes killed while they read one: {found['status']}, {(found['last_error'] or {}).get('message')}")
            assert tries == 3 and found["status"] == "failed" and "ended 3 times" in found["last_error"]["message"], lines[-1]
        finally:
            print("\n".join(lines))
            code = other.stop()
    assert code == 0
    return f"{len(texts)} files of 30 MB; " + (f"in a control group of {limit} MiB" if group else "without a control group: none can be made here")


def within(group, binary, folder):
    """A program that runs this one in a control group."""
    if not group:
        return binary
    start = pathlib.Path(folder) / "start"
    start.write_text(f"#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {binary} \"$@\"\n")
    start.chmod(0o755)
    return str(start)


def sent(server, name, text, purpose="assistants"):
    """The id of an uploaded file; tried again while another one has the memory that it needs."""
    form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n%s\r\n--b\r\n'
            b'Content-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' % (purpose.encode(), name.encode())
            + text + b"\r\n--b--\r\n")
    end = time.monotonic() + 120
    while True:
        status, _, data = server.post("/v1/files", form, ["Content-Type: multipart/form-data; boundary=b"])
        if status != 503 or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert status == 200, (name, status, data[:200])
    return json.loads(data)["id"]


def entry(server, path, file):
    return json.loads(server.get(f"{path}/{file}")[2])


def test_a_client_that_leaves_ends_its_work(s):
    """Memory that was claimed for an answer is given back when nobody waits for it."""
    other = serving(s.binary, "--test-hooks", "--step-delay-ms", "5")
    try:
        def claimed():
            text = other.get("/metrics")[2].decode()
            return next(int(float(line.split()[-1])) for line in text.splitlines()
                        if line.startswith('mlxserve_memory_bytes{part="answers"}'))

        connection = other.connect()
        connection.sendall(encode("/v1/chat/completions", body(other, n=16, ignore_eos=True, max_tokens=1000, logprobs=True,
                                                               top_logprobs=20)))
        wait_for(lambda: claimed() > 100_000, 20, "a claim")
        connection.close()
        wait_for(lambda: claimed() == 0, 10, "the end of the claim")
    finally:
        assert other.stop() == 0
