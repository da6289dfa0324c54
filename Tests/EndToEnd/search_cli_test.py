"""`mlxserve search` and `mlxserve embed` as scripts and people use them, with a tiny encoder and, where it is, the real MiniLM."""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import numpy

from embeddings_test import ENCODER, GOLDEN
from rerank_test import RERANKER, TINY
from vector_stores_test import pdf

MINILM = TINY.parent / "all-minilm-l6-v2-8bit-mlx"
ALICE = TINY.parent / "alice"


class Notes:
    """A folder of notes with an index of its own."""

    def __init__(self, binary, place, model=ENCODER):
        self.binary, self.place, self.model = binary, pathlib.Path(place), model
        self.folder = self.place / "notes"
        self.folder.mkdir()

    def command(self, *words):
        return [self.binary, "search", str(self.folder), *map(str, words), "--model", str(self.model),
                "--index-dir", str(self.place / "index")]

    def run(self, *words, code=0, **options):
        result = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=600, **options)
        assert result.returncode == code, result
        return result

    def find(self, question, *words):
        return [json.loads(line) for line in self.run(question, "--json", *words).stdout.splitlines()]

    def update(self):
        """What an update of the index did: files, vectors, removed, all."""
        words = self.run("x", "--verbose", "--files").stderr.split("indexed ")[-1].split()
        return (int(words[0]), int(words[2]), int(words[4])) if words and words[0].isdigit() else (0, 0, 0)


def notes(s, place, count=3):
    found = Notes(s.binary, place)
    for number in range(count):
        letters = "".join(chr(97 + number // 26**k % 26) for k in range(3))
        (found.folder / f"{letters}.md").write_text(f"the cat {letters} sat on the mat.\n")
    (found.folder / "tarts.md").write_text("# A theft\n\nThe queen made some tarts. Who stole the tarts?\n")
    return found


def test_a_search_says_when_nothing_matches(s):
    if not MINILM.is_dir():
        return "SKIPPED: there is no all-MiniLM-L6-v2"
    with tempfile.TemporaryDirectory() as place:
        found = notes(s, place)
        found.model = MINILM
        near, far = found.run("who stole the tarts"), found.run("quantum chromodynamics")
        words = "nothing matches well; these are the nearest passages"
        assert words not in near.stderr and "matched name: tarts" in near.stdout, near
        assert words in far.stderr and "closest passage:" not in far.stdout, far
        assert words not in found.run("quantum chromodynamics", "--json").stderr


def test_a_folder_is_followed(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place, 40)
        assert own.find("who stole the tarts")[0]["path"] == "tarts.md"
        assert own.update() == (0, 0, 0)
        first = sorted(own.folder.iterdir())[0]
        first.write_text("the queen sat on a cat.\n")
        os.rename(own.folder / "tarts.md", own.folder / "theft.md")
        sorted(own.folder.iterdir())[-2].unlink()
        result = own.update()
        # One file has another text; the renamed one costs nothing; two names are gone.
        assert result[1] <= 2 and result[2] == 2, result
        assert own.find("who stole the tarts")[0]["path"] == "theft.md"
        # The same size, and a clock set back: known by time and content together.
        before = first.stat()
        first.write_text("the queen sat on a mat.\n")
        os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns - 10**12))
        assert own.update()[0] == 1
        assert "mat" in own.find("queen sat mat")[0]["text"]


def test_what_is_no_plain_file_is_left_out_and_told(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        os.mkfifo(own.folder / "pipe.md")
        os.symlink(own.folder, own.folder / "loop")
        os.symlink("/etc/passwd", own.folder / "link.txt")
        (own.folder / "picture.png").write_bytes(b"\x89PNG")
        (own.folder / ".hidden.md").write_text("the tarts")
        (own.folder / ".gitignore").write_text("secret.md\n")
        (own.folder / "secret.md").write_text("the tarts are hidden")
        told = own.run("tarts", "--verbose").stderr
        for name in ("pipe.md", "loop", "link.txt", "picture.png"):
            assert f"left out: {name}" in told, (name, told)
        paths = {result["path"] for result in own.find("tarts", "--limit", 50)}
        assert paths.isdisjoint({"pipe.md", "link.txt", "picture.png", ".hidden.md", "secret.md"}), paths


def test_what_was_done_before_Ctrl_C_stays(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        for number in range(60):
            words = " ".join(f"{chr(97 + number % 26)}{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600))
            (own.folder / f"n{number}.md").write_text(words)
        process = subprocess.Popen(own.command("tarts"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.0)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        seconds = time.monotonic() - begin
        # By words: the tiny encoder's weights are random.
        assert own.find("who stole the tarts", "--vector-weight", "0")[0]["path"] == "tarts.md"
        assert own.update() == (0, 0, 0)
        return f"ended {seconds * 1e3:.0f} ms after Ctrl-C"


def test_a_reader_that_leaves_is_no_error(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place, 30)
        own.update()
        process = subprocess.Popen(own.command("the cat", "--json", "--limit", 50), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=60)
        assert b"error" not in said.lower() and b"fatal" not in said.lower(), said


def test_results_for_programs_and_exit_codes(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        result = own.find("who stole the tarts")[0]
        assert result["path"] == "tarts.md" and result["line"] == 3, result
        assert {"terms", "sentence", "concepts", "scores", "weak", "summary"} <= set(result["why"])
        text = result["text"]
        for term in result["why"]["terms"]:
            assert all(text[a:b].lower() == term["term"].lower() for a, b in term["positions"])
        assert own.run("tarts", "--files").stdout.splitlines()[0] == "tarts.md"
        own.run("zzz qqq", "--vector-weight", "0", code=1)
        assert subprocess.run([s.binary, "search", place + "/missing", "x"], capture_output=True).returncode == 2
        watched = own.run("--watch", "--json", input="who stole the tarts\n").stdout.splitlines()
        assert json.loads(watched[0])["query"] == "who stole the tarts"
        reranked = own.find("who stole the tarts", "--rerank", RERANKER)
        assert [entry["why"]["scores"]["rerank"] for entry in reranked] == [entry["score"] for entry in reranked]


def test_an_index_moves_to_another_machine(s):
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        own = notes(s, first)
        lines = pathlib.Path(first) / "notes.jsonl"
        expected = own.find("who stole the tarts")
        own.run("--export", lines)
        other = Notes(s.binary, second)
        other.run("--import", lines)
        found = other.find("who stole the tarts", "--no-update")
        assert [(x["path"], x["score"]) for x in found] == [(x["path"], x["score"]) for x in expected]
        # Its files need no model when they come.
        for file in own.folder.iterdir():
            (other.folder / file.name).write_bytes(file.read_bytes())
        assert other.update()[1] == 0
        broken = pathlib.Path(second) / "broken.jsonl"
        broken.write_text('{"document":"a","text":"b","vectors":[[1,2]]}\n')
        assert "line 1" in other.run("--import", broken, code=2).stderr
        foreign = {"document": "from.txt", "text": "a text of another program", "vectors": [[1.0] * 16]}
        broken.write_text(json.dumps(foreign) + "\n")
        other.run("--import", broken)
        assert "from.txt" in other.run("another program", "--files", "--vector-weight", "0").stdout


def test_places_are_those_of_the_files(s):
    """Lines of tables, JSON and pages, and pages of a PDF; texts in other encodings are found, too."""
    with tempfile.TemporaryDirectory() as place:
        own, count = Notes(s.binary, place), itertools.count()

        def word():
            return f"w{next(count)}x"

        def rows(row, number=30):
            return "".join(row() for _ in range(number))

        files = {
            "table.csv": "name,note\n\n" + rows(lambda: f'{word()},"{word()}\n{word()}"\n') + f"{word()},crocodile\n",
            "tabs.tsv": "a\tb\n" + rows(lambda: f"{word()}\t{word()}\n") + f"{word()}\tcrocodile\n",
            "data.json": json.dumps([{"a": word(), "b": [word(), word()]} for _ in range(20)] + [{"c": "crocodile"}], indent=2),
            "log.jsonl": rows(lambda: json.dumps({"n": word(), "text": f"{word()}\n{word()}"}) + "\n") + '{"x":"crocodile"}\n',
            "page.html": "<html>\n<body>" + rows(lambda: f"<p>{word()}\n{word()}</p>\n") + f"<!--\n-->\n<div>{word()}\ncrocodile</div>",
            "note.md": f"# {word()}\n\n" + rows(lambda: f"{word()}\n") + "crocodile\n",
        }
        for name, text in files.items():
            (own.folder / name).write_text(text)
        (own.folder / "latin.html").write_bytes("<meta charset=windows-1252>\n<p>Straße, café</p>".encode("cp1252"))
        (own.folder / "wide.txt").write_text("ein Zebra\n", encoding="utf-16-le")
        found = own.find("crocodile", "--limit", 50, "--vector-weight", "0")
        lines = {}
        for hit in found:
            # The line is that at which the nearest sentence begins, or the passage where none is told.
            text = files[hit["path"]]
            first = re.search(r"w\d+x|crocodile", (hit["why"]["sentence"] or hit)["text"]).group()
            lines[hit["path"]] = hit["line"]
            assert hit["line"] == 1 + text[:text.index(first)].count("\n"), (hit, first)
            assert "page" not in hit
        assert lines.keys() == files.keys() and max(lines.values()) > 20, lines
        shown = own.run("crocodile", "--limit", 50, "--vector-weight", "0").stdout
        assert all(f"{name}:{line}  " in shown for name, line in lines.items()), shown
        assert own.find("Zebra", "--vector-weight", "0")[0]["path"] == "wide.txt"
        if shutil.which("iconv"):
            assert own.find("Straße", "--vector-weight", "0")[0]["path"] == "latin.html"
        # Without a look at the folder the file may be another one: then nobody knows the line.
        (own.folder / "data.json").write_text("[]")
        later = own.find("crocodile", "--limit", 50, "--vector-weight", "0", "--no-update")
        assert {hit["path"]: hit["line"] for hit in later}["data.json"] is None
        assert "data.json  " in own.run("crocodile", "--limit", 50, "--vector-weight", "0", "--no-update").stdout
        if shutil.which("pdftotext"):
            (own.folder / "paper.pdf").write_bytes(pdf("an alligator of one page"))
            hit = own.find("alligator", "--vector-weight", "0")[0]
            assert (hit["path"], hit["line"], hit["page"]) == ("paper.pdf", 1, 1), hit
            assert "paper.pdf, page 1  " in own.run("alligator", "--vector-weight", "0").stdout


def test_what_is_left_out_is_counted(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        assert "left out" not in own.run("tarts").stderr
        (own.folder / "picture.png").write_bytes(b"\x89PNG")
        assert "1 file is left out; --verbose lists them" in own.run("tarts", "--json").stderr
        (own.folder / "empty.md").write_text("")
        with open(bytes(own.folder) + b"/caf\xe9.md", "w") as file:
            file.write("the tarts of a name that is Latin-1")
        told = own.run("tarts").stderr.splitlines()
        assert [line for line in told if "left out" in line] == ["3 files are left out; --verbose lists them"], told
        told = own.run("tarts", "--verbose").stderr
        assert "left out: caf\ufffd.md: its name is not UTF-8" in told and "left out: empty.md: the file is empty" in told, told
        assert "--verbose lists" not in told


def test_patterns_above_the_folder_hold_within_a_repository(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        (pathlib.Path(place) / ".gitignore").write_text("\ufeffnotes/[t]arts.md\n")
        assert "tarts.md" in own.run("tarts", "--files").stdout
        (pathlib.Path(place) / ".git").mkdir()
        assert "tarts.md" not in own.run("tarts", "--files").stdout
        assert "tarts.md" in own.run("tarts", "--files", "--all-files").stdout


def test_a_damaged_index_is_made_again(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        before = own.find("who stole the tarts")

        def damage(ending, at):
            [index] = pathlib.Path(place).glob("index/*/index-*")
            for file in index.glob(ending):
                content = bytearray(file.read_bytes())
                if len(content) > at:
                    content[at] ^= 0x40
                    file.write_bytes(content)

        for ending, at in (("index.json", 80), ("*.segment", 40)):
            damage(ending, at)
            # What is lost is told, and read again from the folder; the next search has nothing to tell.
            told = own.run("tarts", "--json").stderr
            assert "is damaged" in told and "read again from the folder" in told, told
            assert own.find("who stole the tarts") == before
            assert "damaged" not in own.run("tarts", "--json").stderr
            assert own.find("who stole the tarts", "--rebuild") == before
        # Without a question it is only made again.
        result = own.run("--rebuild")
        assert result.stdout == "" and own.update() == (0, 0, 0), result


def test_indexes_are_listed_and_forgotten(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        shelf = ["--index-dir", str(own.place / "index")]

        def search(*words, code=0):
            result = subprocess.run([s.binary, "search", *map(str, words), *shelf], capture_output=True, text=True)
            assert result.returncode == code, result
            return result

        assert "no folder is indexed" in search("--list").stderr
        own.update()
        (other := own.place / "other").mkdir()
        (other / "a.md").write_text("the cat")
        search(other, "cat", "--model", ENCODER)
        listed = [json.loads(line) for line in search("--list", "--json").stdout.splitlines()]
        real = own.folder.resolve()
        assert [entry["folder"] for entry in listed] == [str(real), str(other.resolve())], listed
        assert all(entry["bytes"] > 100 and not entry["gone"] and entry["model"].endswith("encoder-tiny") for entry in listed), listed
        shown = search("--list").stdout
        assert "FOLDER" in shown and str(real) in shown and "encoder-tiny" in shown, shown
        # A folder that gets another name keeps its index, and needs no model.
        moved = own.place / "renamed notes"
        own.folder.rename(moved)
        assert "(gone)" in search("--list").stdout
        told = search(moved, "who stole the tarts", "--verbose", "--files")
        assert told.stdout.splitlines()[0] == "tarts.md" and "indexed" not in told.stderr, told
        assert [json.loads(line)["folder"] for line in search("--list", "--json").stdout.splitlines()] == [
            str(other.resolve()), str(moved.resolve())]
        # Another folder in its place is a folder of its own.
        own.folder.mkdir()
        (own.folder / "b.md").write_text("a mat")
        assert "not indexed yet" in search(own.folder, "mat", code=2).stderr
        search("--forget", own.folder)
        (other / "a.md").unlink()
        other.rmdir()
        assert "forgot" in search(other, "--forget").stderr
        assert "forgot" in search("--forget", moved).stderr
        assert "no index is kept" in search("--forget", moved, code=2).stderr
        assert search("--list").stdout == "" and not [*(own.place / "index").iterdir()]


def test_a_question_that_is_too_long_is_cut_with_a_note(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        question = "who stole the tarts " + "and the cat sat on the mat " * 400
        result = own.run(question, "--files")
        assert "tarts.md" in result.stdout and "the model reads the first" in result.stderr, result
        assert "the model reads" not in own.run("who stole the tarts").stderr


def test_judgements_are_measured(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        judgements = pathlib.Path(place) / "judgements.jsonl"
        # With a mark at the beginning and empty lines, as programs write them.
        judgements.write_text('\ufeff{"query": "who stole the tarts", "relevant": {"tarts.md": 2}}\r\n\r\n \n')
        result = json.loads(own.run("--evaluate", judgements, "--json").stdout)
        assert result["queries"] == 1 and result["ndcg10"] == 1 and result["p1"] == 1, result
        judgements.write_text("\n\nnothing\n")
        assert "line 3 of" in own.run("--evaluate", judgements, code=2).stderr


def book(binary, place):
    """The chunks of the shared book as notes, and the file that says which of them answer which query."""
    own = Notes(binary, place, MINILM)
    for line in (ALICE / "corpus.jsonl").read_text().splitlines():
        chunk = json.loads(line)
        (own.folder / f"{chunk['id']}.txt").write_text(chunk["text"])
    judgements = pathlib.Path(place) / "judgements.jsonl"
    with judgements.open("w") as out:
        for line in (ALICE / "queries.jsonl").read_text().splitlines():
            query = json.loads(line)
            relevant = {f"{name}.txt": grade for name, grade in query["relevant"].items()}
            out.write(json.dumps({"query": query["query"], "relevant": relevant}) + "\n")
    return own, judgements


def test_the_book_is_searched_as_well_as_promised(s):
    if not MINILM.is_dir() or not ALICE.is_dir():
        return "SKIPPED: no shared data"
    with tempfile.TemporaryDirectory() as place:
        own, judgements = book(s.binary, place)
        measured = json.loads(own.run("--evaluate", judgements, "--json").stdout)
        summary = json.loads((ALICE / "results.json").read_text())["summary"]
        assert measured["ndcg10"] >= 0.78, measured
        # What nothing in the book is about is said to be weak.
        strange = own.find("quantum chromodynamics")[0]
        assert strange["why"]["terms"] == [] and strange["why"]["concepts"] == [], strange["why"]
        return f"nDCG@10 {measured['ndcg10']:.4f}; of the reference: {json.dumps(summary)[:160]}"


def test_vectors_on_the_command_line(s):
    texts = [case["text"] for case in GOLDEN["cases"] if case["tokens_untruncated"] <= GOLDEN["max_seq_length"]]
    wanted = [case["embedding"] for case in GOLDEN["cases"] if case["tokens_untruncated"] <= GOLDEN["max_seq_length"]]

    def embed(*words, **options):
        return subprocess.run(
            [s.binary, "embed", "--model", str(ENCODER), "--compute", "exact", *words], capture_output=True, text=True,
            check=True, **options).stdout.splitlines()

    plain = [(text, vector) for text, vector in zip(texts, wanted) if text and not text.startswith("-") and "\n" not in text]
    lines = embed(input="\n".join(text for text, _ in plain) + "\n")
    assert len(lines) == len(plain)
    for line, (_, vector) in zip(lines, plain):
        assert abs(numpy.array(json.loads(line)) - vector).max() < 1e-4
    assert json.loads(embed("the cat")[0]) == json.loads(embed(input="the cat\n")[0])
    assert json.loads(embed("the cat", "--query")[0]) == json.loads(embed("query: the cat")[0])
    rows = embed("the cat", "the mat", "--similarity")
    assert len(rows) == 2 and rows[0].split()[0] == "1.0000" and rows[0].split()[1] == rows[1].split()[0]
    assert subprocess.run([s.binary, "embed", "--model", str(RERANKER), "x"], capture_output=True).returncode == 2
