"""Files and vector stores through the OpenAI SDK, strict about what it reads."""

import concurrent.futures
import contextlib
import io
import json
import shutil
import time

import openai

from server import DEMO, ROOT, Server

ENCODER = ROOT / "Fixtures" / "models" / "encoder-tiny"


@contextlib.contextmanager
def served(s, *flags):
    other = Server(s.binary, "--model", str(ENCODER), *flags, model=DEMO)
    try:
        yield other
    finally:
        assert other.stop() == 0, other.log[-5:]


def strict(server, **options):
    return openai.OpenAI(
        base_url=server.client.base_url, api_key=options.get("key", "none"), _strict_response_validation=True,
        max_retries=0)


def upload(client, name, text, **options):
    body = text if isinstance(text, bytes) else text.encode()
    return client.files.create(file=(name, io.BytesIO(body)), purpose="assistants", **options)


def finished(client, store, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        found = client.vector_stores.retrieve(store)
        if found.file_counts.in_progress == 0:
            return found
        time.sleep(0.05)
    raise AssertionError(f"still in progress: {found}")


def fails(code, param, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert error.status_code == code, (error.status_code, error.body)
        assert param is None or error.body["param"] == param, error.body
        return error
    raise AssertionError("no error")


def test_a_file_is_kept_told_and_deleted(s):
    with served(s) as other:
        client = strict(other)
        text = bytes(range(256)) * 3
        file = upload(client, "some.bin", text)
        assert (file.bytes, file.filename, file.purpose, file.status) == (768, "some.bin", "assistants", "processed")
        assert client.files.retrieve(file.id) == file
        assert client.files.content(file.id).read() == text
        assert [f.id for f in client.files.list()] == [file.id]
        assert client.files.delete(file.id).deleted
        fails(404, None, lambda: client.files.retrieve(file.id))
        assert list(client.files.list()) == []


def test_names_are_shown_and_lead_nowhere(s):
    with served(s) as other:
        client = strict(other)
        for name, shown in [
            ("../../etc/x", "x"), ("C:\\x\\y.txt", "y.txt"), ("", "upload"), ("..", "upload"), ("😀.txt", "😀.txt"),
            ("n" * 300, "n" * 255),
        ]:
            body = (
                f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--b\r\n'
                f'Content-Disposition: form-data; name="file"; filename="{name.replace(chr(92), chr(92) * 2)}"\r\n\r\nx\r\n--b--'
            ).encode()
            status, _, answer = other.post("/v1/files", body, ["Content-Type: multipart/form-data; boundary=b"])
            assert status == 200 and json.loads(answer)["filename"] == shown, (name, answer)


def test_purposes(s):
    with served(s) as other:
        client = strict(other)
        for purpose in ["assistants", "user_data", "vision"]:
            client.files.create(file=("a.txt", b"x"), purpose=purpose)
        for purpose in ["fine-tune", "evals", "nonsense"]:
            fails(400, "purpose", lambda: client.files.create(file=("a.txt", b"x"), purpose=purpose))


def test_a_store_of_files(s):
    with served(s) as other:
        client = strict(other)
        files = [upload(client, f"{i}.txt", f"note {i} about things") for i in range(3)]
        store = client.vector_stores.create(name="notes", file_ids=[f.id for f in files], metadata={"a": "b"})
        assert store.name == "notes" and store.metadata == {"a": "b"} and store.file_counts.total == 3
        store = finished(client, store.id)
        assert store.status == "completed" and store.file_counts.completed == 3 and store.usage_bytes > 0
        fails(404, "file_ids[0]", lambda: client.vector_stores.create(file_ids=["file-nothing"]))
        assert len(list(client.vector_stores.list())) == 1
        assert client.vector_stores.create().name == ""


def test_kinds_of_files(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        for name, text, code in [
            ("a.txt", "plain words", None), ("a.md", "# Title\n\nwords", None),
            ("a.html", "<p>Some <b>words</b></p>", None), ("a.json", '{"a": [1, 2]}', None),
            ("a.jsonl", '{"a": 1}\n{"a": 2}\n', None), ("a.csv", "a,b\n1,2\n", None),
            ("a.py", "def f():\n  return 1\n", None), ("empty.txt", b"", "invalid_file"),
            ("a.bin", b"\x00\x01\x02", "unsupported_file"), ("b.txt", b"\xff\x00", "unsupported_file"),
        ]:
            file = upload(client, name, text)
            found = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
            assert found.status == ("failed" if code else "completed"), (name, found)
            assert (found.last_error.code if code else found.last_error) == code, (name, found)
        # PDF is read where the program for it is, and where it is not the client is told which.
        file = upload(client, "a.pdf", pdf("Words of a page"))
        found = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
        if shutil.which("pdftotext"):
            assert found.status == "completed", found
            page = client.vector_stores.files.content(file.id, vector_store_id=store.id)
            assert "Words of a page" in "".join(part.text for part in page)
        else:
            assert found.status == "failed" and found.last_error.code == "unsupported_file", found
            assert "pdftotext" in found.last_error.message, found


def pdf(text):
    """A document of one page."""
    content = f"BT /F1 18 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(places) + 1, table, len(places) + 1, len(out))


def test_chunks_and_attributes(s):
    with served(s) as other:
        client = strict(other)
        text = "".join(f"# Part {i}\n\nSome words of part {i}, and a few more of them.\n\n" for i in range(60))
        file = upload(client, "long.md", text)
        store = client.vector_stores.create()

        def create(**options):
            return client.vector_stores.files.create(file_id=file.id, vector_store_id=store.id, **options)

        def static(size, overlap):
            return {"type": "static", "static": {"max_chunk_size_tokens": size, "chunk_overlap_tokens": overlap}}

        for size, overlap, param in [(99, 0, "max_chunk_size_tokens"), (4097, 0, "max_chunk_size_tokens"),
                                     (100, 51, "chunk_overlap_tokens")]:
            fails(400, f"chunking_strategy.static.{param}", lambda: create(chunking_strategy=static(size, overlap)))
        fails(400, "attributes", lambda: create(attributes={str(i): 1 for i in range(17)}))
        fails(400, "attributes", lambda: create(attributes={"k" * 65: 1}))
        fails(400, "attributes.k", lambda: create(attributes={"k": "v" * 513}))
        fails(400, "attributes.k", lambda: create(attributes={"k": [1]}))
        found = create(chunking_strategy=static(100, 50), attributes={"k" * 64: "v" * 512, "n": 1.5, "b": True})
        assert found.chunking_strategy.static.max_chunk_size_tokens == 100
        finished(client, store.id)
        page = client.vector_stores.files.content(file.id, vector_store_id=store.id)
        assert "".join(part.text for part in page) == text


def test_filters(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        for i in range(6):
            file = upload(client, f"{i}.txt", f"all notes share these words and number {i}")
            attributes = {"n": i, "even": i % 2 == 0, "name": f"n{i}"} if i < 5 else {}
            client.vector_stores.files.create(store.id, file_id=file.id, attributes=attributes)
        finished(client, store.id)

        def names(filters):
            page = client.vector_stores.search(
                store.id, query="notes share words", filters=filters, max_num_results=50)
            return sorted(result.filename[0] for result in page)

        def compare(kind, key, value):
            return {"type": kind, "key": key, "value": value}

        for filters, expected in [
            (compare("eq", "n", 3), "3"), (compare("eq", "n", 3.0), "3"), (compare("eq", "n", "3"), ""),
            (compare("ne", "n", 3), "01245"), (compare("gt", "n", 3), "4"), (compare("gte", "n", 3), "34"),
            (compare("lt", "n", 1), "0"), (compare("lte", "n", 1), "01"), (compare("eq", "even", True), "024"),
            (compare("eq", "even", 1), ""), (compare("in", "name", ["n1", "n4"]), "14"),
            (compare("nin", "name", ["n1", "n4"]), "0235"), (compare("gt", "name", "n2"), "34"),
            ({"type": "and", "filters": [compare("gt", "n", 1), compare("eq", "even", False)]}, "3"),
            ({"type": "or", "filters": [compare("eq", "n", 0), compare("eq", "n", 4)]}, "04"),
        ]:
            assert "".join(names(filters)) == expected, (filters, names(filters))
        deep = compare("eq", "n", 1)
        for _ in range(7):
            deep = {"type": "and", "filters": [deep]}
        assert names(deep) == ["1"]
        for filters in [
            {"type": "and", "filters": [deep]}, {"type": "and", "filters": []}, compare("like", "n", 1),
            {"type": "or", "filters": [compare("eq", "n", 1)] * 64}, {"type": "eq", "key": "n"},
            compare("in", "n", 3), compare("eq", "n", [1]),
        ]:
            fails(400, None, lambda: names(filters))
        # Attributes change at once, and nothing is embedded for it.
        file = next(f for f in client.files.list() if f.filename == "5.txt")
        client.vector_stores.files.update(file.id, vector_store_id=store.id, attributes={"n": 3})
        assert names(compare("eq", "n", 3)) == ["3", "5"]


def test_batches(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        files = [upload(client, f"{i}.txt", f"words {i}") for i in range(2)] + [upload(client, "c.bin", b"\x00")]
        batch = client.vector_stores.file_batches.create_and_poll(
            store.id, file_ids=[f.id for f in files], poll_interval_ms=50)
        assert batch.status == "completed" and batch.file_counts.completed == 2 and batch.file_counts.failed == 1
        listed = list(client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id))
        assert {f.id for f in listed} == {f.id for f in files}
        many = [upload(client, f"m{i}.txt", " ".join(f"w{i}x{j}" for j in range(4000))) for i in range(12)]
        batch = client.vector_stores.file_batches.create(store.id, file_ids=[f.id for f in many])
        batch = client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
        assert batch.status in ("cancelled", "in_progress")
        store = finished(client, store.id)
        batch = client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
        assert batch.status == "cancelled" and batch.file_counts.cancelled > 0
        assert len(client.vector_stores.search(store.id, query="words").data) >= 2
        fails(400, "file_ids", lambda: client.vector_stores.file_batches.create(store.id, file_ids=[]))


def test_lists(s):
    with served(s) as other:
        client = strict(other)
        stores = [client.vector_stores.create(name=str(i)).id for i in range(5)]
        assert {x.id for x in client.vector_stores.list(limit=2)} == set(stores)
        newest = [x.id for x in client.vector_stores.list(limit=100)]
        assert [x.id for x in client.vector_stores.list(order="asc", limit=100)] == newest[::-1]
        assert [x.id for x in client.vector_stores.list(after=newest[1], limit=2).data] == newest[2:4]
        assert [x.id for x in client.vector_stores.list(before=newest[3], limit=2).data] == newest[1:3]
        for options in [{"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "vs_x"}]:
            fails(400, None, lambda: client.vector_stores.list(**options))


def test_what_is_deleted_is_not_found(s):
    with served(s) as other:
        client = strict(other)
        files = [upload(client, f"{i}.txt", f"shared words {i}") for i in range(3)]
        store = client.vector_stores.create(file_ids=[f.id for f in files])
        client.vector_stores.files.delete(files[0].id, vector_store_id=store.id)
        finished(client, store.id)
        client.files.delete(files[1].id)
        found = {result.file_id for result in client.vector_stores.search(store.id, query="shared words")}
        assert found == {files[2].id}
        assert client.vector_stores.retrieve(store.id).file_counts.total == 1
        fails(404, None, lambda: client.vector_stores.files.retrieve(files[0].id, vector_store_id=store.id))
        assert client.vector_stores.delete(store.id).deleted
        fails(404, None, lambda: client.vector_stores.search(store.id, query="x"))


def test_metadata(s):
    with served(s) as other:
        client = strict(other)
        fails(400, "metadata", lambda: client.vector_stores.create(metadata={str(i): "x" for i in range(17)}))
        store = client.vector_stores.create(
            metadata={"a": "b"}, expires_after={"anchor": "last_active_at", "days": 2})
        assert store.expires_at == store.last_active_at + 2 * 86400
        changed = client.vector_stores.update(store.id, metadata=None, expires_after=None, name="new")
        assert changed.metadata == {} and changed.expires_at is None and changed.name == "new"
        for days in [0, 366]:
            fails(400, None, lambda: client.vector_stores.create(
                expires_after={"anchor": "last_active_at", "days": days}))


@contextlib.contextmanager
def anna_and_bert(s):
    """A server, and clients with two keys."""
    keys = ROOT / "Tests" / "EndToEnd" / "__pycache__" / "keys.txt"
    keys.parent.mkdir(exist_ok=True)
    keys.write_text("anna: key-of-anna-0123456789\nbert: key-of-bert-0123456789\n")
    with served(s, "--api-key-file", str(keys)) as other:
        yield other, *(strict(other, key=f"key-of-{name}-0123456789") for name in ("anna", "bert"))


def test_keys_see_their_own(s):
    with anna_and_bert(s) as (other, anna, bert):
        file = upload(anna, "a.txt", "words of anna")
        store = anna.vector_stores.create(file_ids=[file.id])
        finished(anna, store.id)
        assert list(bert.files.list()) == [] and list(bert.vector_stores.list()) == []
        own = bert.vector_stores.create()
        for call in [
            lambda: bert.files.retrieve(file.id), lambda: bert.files.content(file.id), lambda: bert.files.delete(file.id),
            lambda: bert.vector_stores.retrieve(store.id), lambda: bert.vector_stores.search(store.id, query="words"),
            lambda: bert.vector_stores.files.list(store.id), lambda: bert.vector_stores.delete(store.id),
            lambda: bert.vector_stores.files.create(own.id, file_id=file.id),
            lambda: bert.chat.completions.create(model="demo", messages=[
                {"role": "user", "content": [{"type": "file", "file": {"file_id": file.id}}]}]),
        ]:
            fails(404, None, call)
        assert anna.vector_stores.search(store.id, query="words").data[0].file_id == file.id


def test_bounds_of_a_search(s):
    with served(s) as other:
        client = strict(other)
        files = [upload(client, f"{i}.txt", f"some words and the number {i}") for i in range(60)]
        store = client.vector_stores.create(file_ids=[f.id for f in files[:40]])
        client.vector_stores.file_batches.create_and_poll(
            store.id, file_ids=[f.id for f in files[40:]], poll_interval_ms=50)
        finished(client, store.id)

        def search(query="some words", **options):
            return client.vector_stores.search(store.id, query=query, **options)

        for count in [1, 50]:
            assert len(search(max_num_results=count).data) == count
        for count in [0, 51]:
            fails(400, "max_num_results", lambda: search(max_num_results=count))
        assert search(query=["some words", "number 7", "number 8"]).search_query == [
            "some words", "number 7", "number 8"]
        assert len(search(ranking_options={"score_threshold": 0.0}).data) == 10
        assert len(search(ranking_options={"score_threshold": 0.99}).data) < 10
        fails(400, "ranking_options.score_threshold", lambda: search(ranking_options={"score_threshold": 1.1}))
        for query in ["", "  ", [], "x" * 100_001]:
            fails(400, None, lambda: search(query=query))

        def hybrid(embedding, text):
            return {"hybrid_search": {"embedding_weight": embedding, "text_weight": text}}

        def scores(options):
            body = {"query": "number 7", "ranking_options": options, "explain": True}
            data = json.loads(other.post(f"/v1/vector_stores/{store.id}/search", body)[2])["data"]
            return [entry["why"]["scores"] for entry in data]

        assert all(entry["lexical"] is None for entry in scores(hybrid(1, 0)))
        assert all(entry["vector"] is None for entry in scores(hybrid(0, 1)))
        for weights in [(0, 0), (-1, 1)]:
            fails(400, None, lambda: search(ranking_options=hybrid(*weights)))
        # An identifier is found by its letters, and the search is the same every time.
        other_file = upload(client, "x.txt", "the error MATHN-4711 means something")
        client.vector_stores.files.create_and_poll(other_file.id, vector_store_id=store.id, poll_interval_ms=50)
        assert search(query="MATHN-4711").data[0].file_id == other_file.id
        body = {"query": "MATHN-4711 means", "explain": True}
        path = f"/v1/vector_stores/{store.id}/search"
        first, second = (other.post(path, body)[2] for _ in range(2))
        assert json.loads(first) == json.loads(second)
        why = json.loads(first)["data"][0]["why"]
        text = json.loads(first)["data"][0]["content"][0]["text"]
        assert [t["term"] for t in why["terms"]] == ["MATHN-4711", "means"]
        for term in why["terms"]:
            assert [text[a:b] for a, b in term["positions"]] == [term["term"]]


def test_a_killed_server_loses_nothing(s, ):
    import tempfile
    folder = tempfile.mkdtemp()
    try:
        flags = ("--model", str(ENCODER), "--state-dir", folder)
        other = Server(s.binary, *flags, model=DEMO)
        client = strict(other)
        files = [upload(client, f"{i}.txt", f"text {i} " + "words " * 50) for i in range(30)]
        store = client.vector_stores.create(file_ids=[f.id for f in files])
        for _ in range(4):
            time.sleep(0.15)
            other.process.kill()
            other.process.wait()
            other = Server(s.binary, *flags, model=DEMO)
            client = strict(other)
            assert len(list(client.files.list())) == 30
            client.vector_stores.search(store.id, query="text")
        found = finished(client, store.id)
        assert found.file_counts.completed == 30, found
        names = set()
        for i in range(30):
            page = client.vector_stores.search(store.id, query=f"text {i}", max_num_results=50)
            names |= {result.filename for result in page}
        assert len(names) == 30
        assert other.stop() == 0
    finally:
        shutil.rmtree(folder)


def test_the_example_of_the_documentation_finds_notes(s):
    import os
    import subprocess
    import sys
    import tempfile
    import pathlib
    with served(s) as other, tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder)
        (notes / "tea.md").write_text("# Tea\n\nTea needs four minutes.\n")
        (notes / "snow.txt").write_text("Bring goggles and wax.\n")
        script = ROOT / "docs" / "examples" / "notes_search.py"

        def find(question):
            return subprocess.run(
                [sys.executable, str(script), folder, question], capture_output=True, text=True, timeout=60,
                env={**os.environ, "MLXSERVE_URL": f"http://127.0.0.1:{other.port}"})

        first = find("goggles")
        assert first.returncode == 0, first.stderr
        assert first.stdout.splitlines()[0].split()[1] == "snow.txt", first.stdout
        (notes / "snow.txt").unlink()
        (notes / "wax.md").write_text("Wax and goggles are in the cellar.\n")
        assert "wax.md" in find("goggles").stdout.splitlines()[0]


def test_a_file_beyond_the_limit(s):
    with served(s, "--max-file-bytes", "1", "--max-body", "4") as other:
        client = strict(other)
        assert upload(client, "a.txt", b"x" * (1 << 20)).bytes == 1 << 20
        fails(413, None, lambda: upload(client, "a.txt", b"x" * ((1 << 20) + 1)))
        assert len(list(client.files.list())) == 1
        assert other.client.models.list().data


def test_the_tail_of_a_long_chunk_is_found(s):
    with served(s) as other:
        client = strict(other)
        # The encoder takes 24 tokens: the chunk has many windows.
        # Both of one name, which counts too.
        long = upload(client, "text.txt", "the cat sat on the mat. " * 20 + "who stole the tarts")
        store = client.vector_stores.create()
        client.vector_stores.files.create_and_poll(long.id, vector_store_id=store.id, poll_interval_ms=50)
        found = client.vector_stores.search(
            store.id, query="who stole the tarts", ranking_options={"hybrid_search": {"embedding_weight": 1, "text_weight": 0}})
        assert len(found.data) == 1 and found.data[0].content[0].text.endswith("who stole the tarts")
        # Nearer than a file that has the beginning alone, which is all that a cut chunk would keep.
        short = upload(client, "text.txt", "the cat sat on the mat. " * 2)
        client.vector_stores.files.create_and_poll(short.id, vector_store_id=store.id, poll_interval_ms=50)
        both = client.vector_stores.search(
            store.id, query="who stole the tarts", ranking_options={"hybrid_search": {"embedding_weight": 1, "text_weight": 0}})
        assert [result.file_id for result in both.data] == [long.id, short.id], both.data


def test_few_among_many(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        files = [upload(client, f"{i}.txt", f"a note about things, number {i}") for i in range(80)]
        special = upload(client, "code.txt", "raised as MATHN-4711 by the parser")
        written = upload(client, "cjk.txt", "東京都の天気は明日も晴れです。")
        batch = [{"file_id": f.id, "attributes": {"mark": i in (3, 40, 77)}} for i, f in enumerate(files)]
        client.vector_stores.file_batches.create_and_poll(
            store.id, files=batch + [{"file_id": special.id}, {"file_id": written.id}], poll_interval_ms=50)

        def names(query, **options):
            return [x.filename for x in client.vector_stores.search(store.id, query=query, max_num_results=50, **options)]

        marked = names("a note about things", filters={"type": "eq", "key": "mark", "value": True})
        assert sorted(marked) == ["3.txt", "40.txt", "77.txt"], marked
        assert names("MATHN-4711")[0] == "code.txt"
        assert names("天気", ranking_options={"hybrid_search": {"embedding_weight": 0, "text_weight": 1}}) == ["cjk.txt"]


def test_searching_while_files_come(s):
    with served(s, "--test-hooks", "--step-delay-ms", "10") as other:
        client = strict(other)
        files = [upload(client, f"{i}.txt", f"text {i} of many words " + "word " * 40) for i in range(20)]
        store = client.vector_stores.create(file_ids=[f.id for f in files])
        seen = 0
        while client.vector_stores.retrieve(store.id).file_counts.in_progress:
            found = {x.filename for x in client.vector_stores.search(store.id, query="text of many words", max_num_results=50)}
            assert len(found) >= seen
            seen = len(found)
        finished(client, store.id)

        def embedded():
            lines = other.get("/metrics")[2].decode().splitlines()
            return float(next(x for x in lines if x.startswith("mlxserve_index_texts_total")).split()[-1])

        before = embedded()
        assert client.vector_stores.files.delete(files[0].id, vector_store_id=store.id).deleted
        client.vector_stores.files.create_and_poll(files[0].id, vector_store_id=store.id, poll_interval_ms=20)
        assert embedded() - before <= 2, "a file that was there is embedded anew"


def test_another_model_takes_over(s):
    import tempfile
    folder = tempfile.mkdtemp()
    try:
        renamed = folder + "/other-encoder"
        shutil.copytree(ENCODER, renamed)
        # Another prompt is another model: vectors are not those that were.
        config = json.loads((ENCODER / "config_sentence_transformers.json").read_text())
        config["prompts"] = {name: "the " + text for name, text in config["prompts"].items()}
        open(renamed + "/config_sentence_transformers.json", "w").write(json.dumps(config))
        state = ("--state-dir", folder + "/state")
        import os
        os.mkdir(folder + "/state")
        other = Server(s.binary, "--model", str(ENCODER), *state, model=DEMO)
        client = strict(other)
        store = client.vector_stores.create(file_ids=[upload(client, f"{i}.txt", f"the cat {i} sat").id for i in range(5)])
        finished(client, store.id)
        assert other.stop() == 0
        other = Server(s.binary, "--model", renamed, *state, model=DEMO)
        path = f"/v1/vector_stores/{store.id}/search"
        first = json.loads(other.post(path, {"query": "the cat sat"})[2])
        assert first.get("degraded") == "lexical" and len(first["data"]) == 5, first
        end = time.time() + 30
        while "degraded" in (page := json.loads(other.post(path, {"query": "the cat sat"})[2])):
            assert len(page["data"]) == 5 and time.time() < end
            time.sleep(0.1)
        assert len(page["data"]) == 5
        assert other.stop() == 0
        # Where the old model is served too, it answers until the new index is there.
        slow = ("--test-hooks", "--step-delay-ms", "500")
        other = Server(
            s.binary, "--model", renamed, "--model", str(ENCODER), "--embedding-model", "encoder-tiny", *state, *slow, model=DEMO)
        # The first search has the new index made, and may come after it.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            search = pool.submit(other.post, path, {"query": "the cat sat"})
            end = time.time() + 20
            while f'mlxserve_index_rebuild_progress{{store="{store.id}"}}' not in other.get("/metrics")[2].decode():
                assert time.time() < end, "nobody saw the new index made"
            first = json.loads(search.result()[2])
        assert "degraded" not in first and len(first["data"]) == 5, first
        while f'mlxserve_index_rebuild_progress{{store="{store.id}"}}' in other.get("/metrics")[2].decode():
            again = json.loads(other.post(path, {"query": "the cat sat"})[2])
            assert len(again["data"]) == 5 and "degraded" not in again, again
            time.sleep(0.05)
        assert other.stop() == 0
    finally:
        shutil.rmtree(folder)


def test_too_many_searches_are_told(s):
    with served(s, "--search-slots", "4", "--test-hooks", "--step-delay-ms", "300") as other:
        client = strict(other)
        store = client.vector_stores.create(file_ids=[upload(client, "a.txt", "the cat sat").id])
        finished(client, store.id)
        path = f"/v1/vector_stores/{store.id}/search"
        with concurrent.futures.ThreadPoolExecutor(90) as pool:
            texts = [f"the cat {chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(90)]
            statuses = list(pool.map(lambda text: other.post(path, {"query": text})[0], texts))
        assert statuses.count(429) >= 1 and set(statuses) <= {200, 429, 408}, statuses
        assert other.post(path, {"query": "the mat"})[0] == 200
        return f"{statuses.count(200)} answered, {statuses.count(429)} refused"


def test_a_question_that_is_too_long_is_cut_and_it_is_said(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create(file_ids=[upload(client, "tarts.md", "The knave stole the tarts.").id])
        finished(client, store.id)
        path = f"/v1/vector_stores/{store.id}/search"
        status, _, body = other.post(path, {"query": "who stole the tarts " + "and the cat sat on the mat " * 400})
        page = json.loads(body)
        assert status == 200 and page["data"][0]["filename"] == "tarts.md", page
        assert page["query_cut"]["tokens"] > 400 > page["query_cut"]["read"] > 8, page
        assert "query_cut" not in json.loads(other.post(path, {"query": "who stole the tarts"})[2])
