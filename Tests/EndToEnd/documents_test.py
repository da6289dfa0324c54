"""`mlxserve read` and `ask`, and files on a server: a document is read once, also beyond the end of a process."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from server import DEMO, Server
from vector_stores_test import pdf, upload

WORDS = "".join(f"Lantern {number} hangs over door {number * 7 % 61}.\n" for number in range(30))


class Desk:
    """A document, and a folder for what is computed of it."""

    def __init__(self, binary, place, columns=None):
        self.binary, self.place = binary, pathlib.Path(place)
        self.file = self.place / "lanterns.md"
        self.file.write_text(WORDS)
        self.documents = self.place / "cache" / "mlxserve" / "documents"
        self.env = {**os.environ, "HOME": str(self.place), "XDG_CACHE_HOME": str(self.place / "cache")}

    def run(self, *words, code=0, **options):
        command = [self.binary, *map(str, words), "--model", str(DEMO)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.env, **options)
        assert result.returncode == code, result
        return result

    def ask(self, *words, **options):
        result = self.run("ask", *words, "--json", "--no-thinking", "--temperature", 0, "--max-tokens", 4, **options)
        return json.loads(result.stdout)


def with_desk(test):
    def run(s):
        with tempfile.TemporaryDirectory() as place:
            return test(s, Desk(s.binary, place))

    run.__name__ = test.__name__
    return run


@with_desk
def test_a_second_question_finds_the_document_read(s, desk):
    first = desk.ask(desk.file, "Where is lantern 3?")["usage"]
    assert first["prompt_tokens"] > 300 and first["cached_tokens"] == 0, first
    second = desk.ask(desk.file, "Where is lantern 4?")
    new = second["usage"]["prompt_tokens"] - second["usage"]["cached_tokens"]
    assert new <= 64, second
    # What was kept gives the same answer as what is computed anew.
    fresh = desk.ask(desk.file, "Where is lantern 4?", "--prefix-cache-dir", desk.place / "other")
    assert fresh["usage"]["cached_tokens"] == 0 and fresh["content"] == second["content"], (fresh, second)
    # The document as it comes through a pipe, and the question.
    piped = desk.ask("-", "Where is lantern 4?", input=WORDS)["usage"]
    assert piped["prompt_tokens"] > 300, piped
    assert desk.ask(desk.file, input="Where is lantern 4?\n")["content"] == second["content"]
    plain = desk.run("ask", desk.file, "Where is lantern 4?", "--no-thinking", "--temperature", 0, "--max-tokens", 4)
    assert plain.stdout == second["content"] + "\n", plain


@with_desk
def test_quotes_stand_in_the_document(s, desk):
    words = ["ask", desk.file, "Where is lantern 4?", "--quotes", "--no-thinking", "--temperature", 0, "--max-tokens", 500]
    answer = json.loads(desk.run(*words, "--json").stdout)
    assert answer["quotes"] and answer["answer"], answer
    for quote in answer["quotes"]:
        assert 16 <= len(quote["text"]) <= 400 and quote["file"] == "lanterns.md", quote
        assert WORDS.encode()[quote["offset"]:].startswith(quote["text"].encode()), quote
        assert quote["line"] == WORDS[:quote["offset"]].count("\n") + 1, quote
    shown = desk.run(*words).stdout
    assert shown.startswith("> ") and f"lanterns.md, line {answer['quotes'][0]['line']}" in shown, shown
    cut = desk.run(*words[:-1], 20, code=2)
    assert "--max-tokens" in cut.stderr, cut


@with_desk
def test_what_is_read_ahead_is_known(s, desk):
    two = desk.place / "two.txt"
    two.write_text("The harbour has eleven lanterns.")
    lines = [json.loads(line) for line in
             desk.run("read", desk.file, two, "--no-thinking", "--json").stdout.splitlines()]
    assert [line["file"] for line in lines] == ["lanterns.md", "two.txt"] and lines[0]["computed"] > 300, lines
    assert "known" in desk.run("read", desk.file, "--no-thinking").stdout
    usage = desk.ask(desk.file, "Where is lantern 4?")["usage"]
    assert usage["prompt_tokens"] - usage["cached_tokens"] <= 64, usage
    # A changed beginning is another document.
    desk.file.write_text("x" + WORDS)
    assert desk.ask(desk.file, "Where is lantern 4?")["usage"]["cached_tokens"] < 64


@with_desk
def test_what_cannot_be_read_or_kept_is_told(s, desk):
    for words, told in ((["ask"], "name a file"), (["read"], "name a file"), (["ask", "no.md", "x"], "no.md is not a file"),
                        (["ask", desk.place, "x"], "is a folder"), (["read", "/dev/null"], "null"),
                        (["ask", desk.file], "there is no question")):
        result = desk.run(*words, code=2, stdin=subprocess.DEVNULL)
        assert told in result.stderr and not result.stdout, result
    desk.run("read", desk.file, "--no-thinking")
    lock, = desk.documents.glob("*/lock")
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = desk.run("read", desk.file, "--no-thinking", code=2)
        assert "another process" in result.stderr, result
    long = desk.place / "long.md"
    long.write_text(WORDS * 40)
    assert "context" in desk.run("read", long, code=2).stderr


@with_desk
def test_a_server_that_has_the_documents_answers(s, desk):
    alone = desk.ask(desk.file, "Where is lantern 3?")
    quotes = ["ask", desk.file, "Where is lantern 4?", "--quotes", "--no-thinking", "--temperature", 0, "--max-tokens", 500, "--json"]
    quoted = desk.run(*quotes).stdout
    with Server(s.binary, "--prefix-cache-dir", str(desk.documents)) as server:
        assert "lanterns.md: " in desk.run("read", desk.file, "--no-thinking").stdout
        end = time.monotonic() + 10
        while not any("/v1/chat/completions" in line for line in server.log) and time.monotonic() < end:
            time.sleep(0.05)
        assert any("/v1/chat/completions" in line for line in server.log), server.log
        answer = desk.ask(desk.file, "Where is lantern 3?")
        usage = answer["usage"]
        assert answer["content"] == alone["content"] and answer["finish_reason"] == alone["finish_reason"], (answer, alone)
        assert usage["prompt_tokens"] == alone["usage"]["prompt_tokens"] and usage["prompt_tokens"] - usage["cached_tokens"] <= 64
        assert desk.run(*quotes).stdout == quoted
        plain = desk.run("ask", desk.file, "Where is lantern 3?", "--no-thinking", "--temperature", 0, "--max-tokens", 4)
        assert plain.stdout == answer["content"] + "\n", plain
        # Another folder is another's, unless the server is named.
        other = ["--prefix-cache-dir", desk.place / "other"]
        assert desk.ask(desk.file, "Where is lantern 3?", *other)["usage"]["cached_tokens"] == 0
        url = server.base_url.removesuffix("/v1")
        named = desk.ask(desk.file, "Where is lantern 3?", *other, "--server", url)
        assert named["content"] == alone["content"] and named["usage"]["cached_tokens"] > 300, named
        for address, told in ((url.replace("http:", "ftp:"), "http://"), ("http://127.0.0.1:9", "does not answer")):
            assert told in desk.run("ask", desk.file, "x", "--server", address, code=2).stderr
        desk.file.write_text(WORDS * 40)
        assert "context" in desk.run("ask", desk.file, "x", code=2).stderr
        desk.file.write_text(WORDS)
        server.process.kill()
        server.process.wait()
    # What a killed server has left means nothing.
    assert (desk.documents / "server").exists() and desk.ask(desk.file, "Where is lantern 3?")["content"] == alone["content"]


def test_a_kept_prompt_outlives_a_killed_server(s):
    with tempfile.TemporaryDirectory() as place:
        flags = ["--prefix-cache-dir", place + "/prompts", "--state-dir", place + "/state"]

        def ask(server, file, words, **options):
            content = [{"type": "input_file", "file_id": file}, *words]
            usage = server.client.responses.create(
                model=server.model, input=[{"role": "user", "content": content}], max_output_tokens=1,
                reasoning={"effort": "none"}, **options).usage
            return usage.input_tokens, usage.input_tokens_details.cached_tokens

        question = [{"type": "input_text", "text": "Where is lantern 4?"}]
        with Server(s.binary, *flags) as server:
            file = upload(server.client, "lanterns.md", WORDS).id
            tokens, _ = ask(server, file, [], extra_body={"keep_prompt": True})
            end = time.monotonic() + 30
            while len(list(pathlib.Path(place, "prompts").rglob("*.kv"))) < tokens // 32 and time.monotonic() < end:
                time.sleep(0.1)
            server.process.send_signal(signal.SIGKILL)
        with Server(s.binary, *flags) as server:
            total, cached = ask(server, file, question)
            assert total - cached <= 64, (tokens, total, cached)


def test_a_file_is_read_when_it_comes_and_when_a_store_says_so(s):
    def told(server, file):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            _, _, body = server.get(f"/v1/files/{file}")
            found = json.loads(body).get("read")
            if found and found["status"] in ("completed", "failed"):
                return found
            time.sleep(0.1)
        raise AssertionError(body)

    def ask(server, file):
        content = [{"type": "input_file", "file_id": file}, {"type": "input_text", "text": "Where is lantern 4?"}]
        usage = server.client.responses.create(
            model=server.model, input=[{"role": "user", "content": content}], max_output_tokens=16).usage
        return usage.input_tokens - usage.input_tokens_details.cached_tokens

    with tempfile.TemporaryDirectory() as place:
        with Server(s.binary, "--state-dir", place + "/state") as server:
            file = upload(server.client, "lanterns.md", WORDS, extra_body={"read_by": server.model}).id
            found = told(server, file)
            assert found["status"] == "completed" and found["tokens"] > 300, found
            assert ask(server, file) <= 64
            # A file of a store, one of several, and all that a store has.
            files = [upload(server.client, f"{n}.md", f"Shelf {n}.\n" + WORDS).id for n in range(4)]
            stores = server.client.vector_stores
            store = stores.create(file_ids=files[:1]).id
            assert "read" not in json.loads(server.get(f"/v1/files/{files[0]}")[2])
            stores.files.create(store, file_id=files[1], extra_body={"read_by": server.model})
            stores.file_batches.create(store, file_ids=files[2:], extra_body={"read_by": server.model})
            assert all(told(server, name)["status"] == "completed" and ask(server, name) <= 64 for name in files[1:])
            stores.update(store, extra_body={"read_by": server.model})
            assert told(server, files[0])["status"] == "completed" and ask(server, files[0]) <= 64
            # What cannot be done is said where one looks for it.
            nobody = upload(server.client, "b.md", WORDS, extra_body={"read_by": "nobody"}).id
            assert told(server, nobody)["status"] == "failed" and "nobody" in told(server, nobody)["error"]


def test_pages_of_a_PDF_have_numbers(s):
    with tempfile.TemporaryDirectory() as place:
        # What the program writes of two pages, and of one.
        program = pathlib.Path(place, "pdftotext")
        env = {**os.environ, "PATH": place + ":" + os.environ["PATH"], "XDG_CACHE_HOME": place}
        for pages, told in ((r"One lantern.\n\fTwo lanterns.\n\f", ["[Page 1]\nOne lantern.", "[Page 2]\nTwo lanterns."]),
                            (r"One lantern.\n\f", ["two.pdf:\nOne lantern."])):
            program.write_text(f"#!/bin/sh\nexec printf '{pages}'\n")
            program.chmod(0o755)
            with Server(s.binary, "--state-dir", place + "/state", env=env) as server:
                file = upload(server.client, "two.pdf", pdf("x")).id
                status, _, body = server.post("/apply-template", {"messages": [
                    {"role": "user", "content": [{"type": "file", "file": {"file_id": file}}]}]})
                shown = json.loads(body)["prompt"]
                assert status == 200 and all(words in shown for words in told), shown
                assert shown.count("[Page") == (len(told) if len(told) > 1 else 0), shown
            document = pathlib.Path(place, "two.pdf")
            document.write_bytes(pdf("x"))
            result = subprocess.run(
                [s.binary, "ask", str(document), "How many?", "--model", str(DEMO), "--no-thinking", "--max-tokens", "1",
                 "--json"], capture_output=True, text=True, timeout=60, env=env)
            assert result.returncode == 0, result


def test_what_is_gone_is_computed_again_before_anybody_asks(s):
    with tempfile.TemporaryDirectory() as place:
        prompts = pathlib.Path(place, "prompts")
        flags = ["--prefix-cache-dir", str(prompts), "--read-ahead"]

        def ask(server, words):
            usage = server.chat([{"role": "system", "content": WORDS}, {"role": "user", "content": words}], max_tokens=1).usage
            return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens

        def ahead(server):
            return int(server.get("/metrics")[2].decode().split("mlxserve_read_ahead_tokens_total{")[1].split()[1])

        with Server(s.binary, *flags) as server:
            tokens, cached = ask(server, "Where is lantern 4?")
            assert cached == 0
        assert list(prompts.glob("likely-*.json"))
        # As after an update, which computes other bits.
        for block in prompts.rglob("*.kv"):
            block.unlink()
        with Server(s.binary, *flags) as server:
            end = time.monotonic() + 60
            while ahead(server) < tokens - 32 and time.monotonic() < end:
                time.sleep(0.2)
            total, cached = ask(server, "Where is lantern 5?")
            assert total - cached <= 64, (ahead(server), total, cached)
            told = ahead(server)
            time.sleep(4)
            assert ahead(server) == told
            metrics = server.get("/metrics")[2].decode()
            seconds = float(metrics.split("mlxserve_read_ahead_cpu_seconds_total{")[1].split()[1])
            assert 0 < seconds < 600, seconds
            counter = pathlib.Path("/sys/class/powercap/intel-rapl:0/energy_uj")
            assert ("mlxserve_read_ahead_joules_total{" in metrics) == (counter.exists() and os.access(counter, os.R_OK)), metrics
        refusal = subprocess.run(
            [s.binary, "serve", "--model", str(DEMO), "--read-ahead"], capture_output=True, text=True, timeout=60)
        assert refusal.returncode == 2 and "--prefix-cache-dir" in refusal.stderr, refusal
