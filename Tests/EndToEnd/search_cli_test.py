"""`mlxserve search` and `mlxserve embed` as scripts and people use them, with a tiny encoder and, where it is, the real MiniLM."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import numpy

from embeddings_test import ENCODER, GOLDEN
from rerank_test import RERANKER, TINY

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


def test_S125_S126_a_folder_is_followed(s):
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


def test_S131_what_is_no_plain_file_is_left_out_and_told(s):
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


def test_S130_what_was_done_before_Ctrl_C_stays(s):
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


def test_S132_a_reader_that_leaves_is_no_error(s):
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


def test_judgements_are_measured(s):
    with tempfile.TemporaryDirectory() as place:
        own = notes(s, place)
        judgements = pathlib.Path(place) / "judgements.jsonl"
        judgements.write_text('{"query": "who stole the tarts", "relevant": {"tarts.md": 2}}\n')
        result = json.loads(own.run("--evaluate", judgements, "--json").stdout)
        assert result["queries"] == 1 and result["ndcg10"] == 1 and result["p1"] == 1, result


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


def test_S081_the_book_is_searched_as_well_as_promised(s):
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
