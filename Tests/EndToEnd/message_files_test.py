"""Files of /v1/files in messages of every wire, the Files API through Anthropic's SDK, and packed bodies."""

import base64
import functools
import gzip
import json
import os
import pathlib
import shutil
import struct
import tempfile

import anthropic

from messages_test import client as messages_client, refused
from server import Server, parse
from vector_stores_test import pdf, upload

WORDS = "The harbour master keeps eleven lanterns."


def reading_pdf(test):
    """A case that reads a PDF, which is skipped where the program for it is not installed."""

    @functools.wraps(test)
    def run(s):
        return test(s) if shutil.which("pdftotext") else "SKIPPED: pdftotext is not installed"

    return run


def kept(s):
    """A text and a PDF with the same words, by their ids."""
    return upload(s.client, "lanterns.md", WORDS).id, upload(s.client, "lanterns.pdf", pdf(WORDS)).id


def prompt(s, content):
    status, _, body = s.post("/apply-template", {"messages": [{"role": "user", "content": content}]})
    assert status == 200, body
    return json.loads(body)["prompt"]


def count(s, content):
    return messages_client(s).messages.count_tokens(model=s.model, messages=[{"role": "user", "content": content}]).input_tokens


@reading_pdf
def test_a_file_of_a_chat_message_is_its_text(s):
    for file, name in zip(kept(s), ("lanterns.md", "lanterns.pdf")):
        shown = prompt(s, [{"type": "file", "file": {"file_id": file}}, {"type": "text", "text": "How many?"}])
        assert f"{name}:\n" in shown and WORDS in shown and "How many?" in shown, shown
        answer = s.chat([{"role": "user", "content": [{"type": "file", "file": {"file_id": file}}]}], max_tokens=3)
        assert answer.usage.prompt_tokens > 20
    status, _, body = s.post("/v1/chat/completions", {
        "model": s.model, "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-no"}}]}]})
    assert (status, json.loads(body)["error"]["param"]) == (404, "messages[0].content[0].file.file_id"), body


@reading_pdf
def test_a_pdf_is_read_once_for_all_turns(s):
    with tempfile.TemporaryDirectory() as place:
        runs = pathlib.Path(place, "runs")
        program = pathlib.Path(place, "pdftotext")
        program.write_text(f'#!/bin/sh\necho run >> "{runs}"\nexec "{shutil.which("pdftotext")}" "$@"\n')
        program.chmod(0o755)
        other = Server(s.binary, env={**os.environ, "PATH": f"{place}:{os.environ['PATH']}"})
        try:
            data = pdf(WORDS)
            file = upload(other.client, "lanterns.pdf", data).id
            inline = {"file_data": base64.b64encode(data).decode(), "filename": "lanterns.pdf"}
            for part in ({"file_id": file}, {"file_id": file}, inline):
                assert WORDS in prompt(other, [{"type": "file", "file": part}])
            assert runs.read_text() == "run\n", runs.read_text()
            assert "Another" in prompt(other, [{"type": "file", "file": {
                "file_id": upload(other.client, "b.pdf", pdf("Another text.")).id}}])
            assert runs.read_text() == "run\nrun\n", runs.read_text()
        finally:
            assert other.stop() == 0


@reading_pdf
def test_a_file_of_a_response_is_its_text_and_stays_an_id(s):
    text, document = kept(s)
    plain = [{"type": "input_text", "text": f"lanterns.md:\n{WORDS}\n"}]
    usual = s.client.responses.input_tokens.count(model=s.model, input=[{"role": "user", "content": plain}]).input_tokens
    content = [{"type": "input_file", "file_id": text}]
    items = [{"role": "user", "content": content}]
    assert s.client.responses.input_tokens.count(model=s.model, input=items).input_tokens == usual
    first = s.client.responses.create(model=s.model, input=items, max_output_tokens=3)
    found = s.client.responses.input_items.list(first.id).data
    assert found[0].content[0].file_id == text and found[0].content[0].type == "input_file"
    # A result of a tool, on top of the turn before.
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "file_id": document}]}
    more = s.client.responses.create(
        model=s.model, previous_response_id=first.id, input=[call, result], max_output_tokens=3)
    assert more.usage.input_tokens > usual + 15
    # A PDF within the request is read, too.
    data = "data:application/pdf;base64," + base64.b64encode(pdf(WORDS)).decode()
    inline = s.client.responses.input_tokens.count(model=s.model, input=[{"role": "user", "content": [
        {"type": "input_file", "filename": "lanterns.md", "file_data": data}]}]).input_tokens
    assert abs(inline - usual) <= 3, (inline, usual)
    s.client.files.delete(text)
    status, _, body = s.post("/v1/responses", {"model": s.model, "input": items})
    assert (status, json.loads(body)["error"]["param"]) == (404, "input[0].content[0].file_id"), body


@reading_pdf
def test_a_document_of_a_message_is_a_file(s):
    text, document = kept(s)
    for file in (text, document):
        block = {"type": "document", "source": {"type": "file", "file_id": file}}
        message = messages_client(s).beta.messages.create(
            model=s.model, max_tokens=3, messages=[{"role": "user", "content": [block, {"type": "text", "text": "?"}]}],
            betas=["files-api-2025-04-14"])
        assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 20
        titled = {**block, "title": "A title that is longer than the name of the file", "context": "Read this."}
        assert count(s, [titled]) > count(s, [block])
    # Within the result of a tool.
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [block]}]}]
    assert messages_client(s).messages.count_tokens(model=s.model, messages=history).input_tokens > 25
    inline = {"type": "document", "source": {
        "type": "base64", "media_type": "application/pdf", "data": base64.b64encode(pdf(WORDS)).decode()}}
    assert count(s, [inline]) > 10
    unknown = {"type": "document", "source": {"type": "file", "file_id": "file-no"}}
    assert refused(lambda: count(s, [unknown]), 404, "file-no") == "not_found_error"
    broken = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    refused(lambda: count(s, [broken]), 400, "messages[0].content[0].source.data", "pdftotext")
    picture = upload(s.client, "a.bin", bytes(range(256))).id
    refused(lambda: count(s, [{"type": "document", "source": {"type": "file", "file_id": picture}}]), 400, "binary")


def test_the_files_of_Anthropics_API(s):
    client = messages_client(s)
    before = {file.id for file in client.files.list()}
    made = client.files.upload(file=("notes.txt", WORDS.encode(), "text/plain"), expires_in_seconds=3600)
    assert made.type == "file" and made.filename == "notes.txt" and made.mime_type == "text/plain"
    assert made.size_bytes == len(WORDS) and made.downloadable is True
    assert (made.expires_at - made.created_at).total_seconds() == 3600
    assert client.files.retrieve_metadata(made.id) == made
    assert client.files.download(made.id).read() == WORDS.encode()
    assert client.beta.files.retrieve_metadata(made.id).filename == "notes.txt"
    others = [client.files.upload(file=(f"{number}.txt", b"x", "text/plain")).id for number in range(4)]
    listed = [file.id for file in client.files.list(limit=2)]
    assert set(listed) == before | {made.id, *others} and len(listed) == len(before) + 5
    page = client.files.list(limit=2)
    assert len(page.data) == 2 and page.next_page.startswith("page_")
    assert {file.id for file in client.files.list(ids=[made.id, "file-no"]).data} == {made.id}
    # OpenAI's clients see the same file in their own shape.
    assert s.client.files.retrieve(made.id).purpose == "user_data"
    deleted = client.files.delete(made.id)
    assert deleted.id == made.id and deleted.type == "file_deleted"
    assert refused(lambda: client.files.retrieve_metadata(made.id), 404, made.id) == "not_found_error"
    refused(lambda: client.files.upload(file=("a", b"x"), expires_in_seconds=1), 400, "expires_in_seconds")
    assert refused(lambda: client.models.retrieve("no-such-model"), 404, "no-such-model") == "not_found_error"
    for file in others:
        client.files.delete(file)


def test_a_packed_body_is_read(s):
    body = json.dumps({"model": s.model, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 3}).encode()

    def send(data, coding="gzip", kind="application/json", path="/v1/chat/completions"):
        head = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
                f"Content-Encoding: {coding}\r\nContent-Length: {len(data)}\r\n\r\n")
        return parse(s.raw(head.encode() + data))

    assert send(gzip.compress(body))[0] == 200
    status, headers, answer = send(gzip.compress(body), "zstd")
    assert status == 415 and headers["accept-encoding"] == "gzip" and b"'zstd'" in answer, answer
    # As large as a body may be, and one byte more: eight thousand bytes say so.
    for size, expected in ((8 << 20, 400), ((8 << 20) + 1, 413)):
        packed = gzip.compress(b" " * size)
        assert len(packed) < 10_000 and send(packed)[0] == expected, size
    lie = gzip.compress(b" " * (1 << 20))
    assert send(lie[:-4] + struct.pack("<I", 1000))[0] == 400
    # A form, and another wire.
    form = (b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhi\r\n--x--\r\n')
    status, _, answer = send(gzip.compress(form), kind="multipart/form-data; boundary=x", path="/v1/files")
    assert status == 200 and json.loads(answer)["bytes"] == 2, answer
    status, _, answer = send(b"no gzip", path="/v1/messages")
    assert status == 400 and json.loads(answer)["error"]["type"] == "invalid_request_error"
