"""The recipe of docs/moving-to-postgresql.md with PostgreSQL and pgvector: passages move there, and the same ones are found.

Skipped where there is no PostgreSQL with pgvector (Debian: postgresql and postgresql-15-pgvector); MLXSERVE_PG_BIN names the
folder of its programs where they are elsewhere."""

import contextlib
import csv
import glob
import io
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from embeddings_test import ENCODER, served

NOTES = {
    "alps.md": "The cat made a trip to the alps.", "tea.md": "The queen made some tarts.", "mat.md": "The cat sat on the mat.",
    "who.md": "Who stole the tarts of the queen?", "long.md": "# A cat\n\n" + "The cat sat on the mat. " * 20,
}


def programs():
    """The folder of PostgreSQL's programs with pgvector beside it; None without."""
    for folder in [os.environ.get("MLXSERVE_PG_BIN", ""), *sorted(glob.glob("/usr/lib/postgresql/*/bin")),
                   os.path.dirname(shutil.which("initdb") or "")]:
        if not folder or not os.path.exists(folder + "/pg_config"):
            continue
        found = subprocess.run([folder + "/pg_config", "--sharedir"], capture_output=True, text=True)
        if os.path.exists(found.stdout.strip() + "/extension/vector.control"):
            return folder
    return None


@contextlib.contextmanager
def database(folder):
    """A database of its own, reached over a socket in its folder. PostgreSQL does not run as root."""
    place = tempfile.mkdtemp(prefix="pg")
    os.chmod(place, 0o777)
    user = {"user": "nobody"} if os.getuid() == 0 else {}
    name = "nobody" if user else pwd.getpwuid(os.getuid()).pw_name
    data = place + "/data"

    def path(program):
        # Some installations have psql in a package of its own.
        own = f"{folder}/{program}"
        return own if os.path.exists(own) else shutil.which(program) or own

    def run(program, *words, **options):
        return subprocess.run(
            [path(program), *words], check=True, capture_output=True, text=True, cwd=place, **user, **options)

    run("initdb", "-D", data, "--auth=trust", "-E", "UTF8", "--no-sync")
    run("pg_ctl", "-D", data, "-w", "-l", place + "/log", "-o", f"-c listen_addresses= -k {place} -c fsync=off", "start")
    try:
        yield lambda sql, text=None: run(
            "psql", "-h", place, "-U", name, "-d", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql, input=text).stdout
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(place, ignore_errors=True)


def test_passages_move_to_postgresql_and_are_found_there(s):
    folder = programs()
    if folder is None:
        return "SKIPPED: there is no PostgreSQL with pgvector"
    with tempfile.TemporaryDirectory() as place, database(folder) as psql:
        notes = pathlib.Path(place) / "notes"
        notes.mkdir()
        for name, text in NOTES.items():
            (notes / name).write_text(text)

        def search(*words):
            return subprocess.run(
                [s.binary, "search", str(notes), *words, "--model", str(ENCODER), "--index-dir", place + "/index"],
                check=True, capture_output=True, text=True).stdout

        exported = [json.loads(line) for line in search("--export", "-").splitlines()]
        psql("CREATE EXTENSION vector")
        size = len(exported[0]["vectors"][0])
        psql("CREATE TABLE passages (id text, document text, body text, embedding vector(%d))" % size)
        rows = io.StringIO()
        # A passage that is longer than the model takes has several vectors, and the nearest counts.
        csv.writer(rows).writerows(
            [entry["id"], entry["document"], entry["text"], json.dumps(vector)]
            for entry in exported for vector in entry["vectors"])
        psql("COPY passages FROM STDIN CSV", rows.getvalue())
        psql("CREATE INDEX ON passages USING hnsw (embedding vector_cosine_ops)")
        with served(s) as other:
            for question in ("who stole the tarts", "a cat on a mat", "the alps"):
                body = {"input": question, "input_type": "query"}
                vector = json.loads(other.post("/v1/embeddings", body)[2])["data"][0]["embedding"]
                found = psql(
                    "SELECT id, round(max(1 - (embedding <=> '%s'))::numeric, 4) AS score FROM passages GROUP BY id "
                    "ORDER BY score DESC, id LIMIT 3" % json.dumps(vector))
                here = [json.loads(line) for line in search(question, "--json", "--vector-weight", "1", "--limit", "3").splitlines()]
                there = [line.split("|") for line in found.splitlines()]
                assert [entry["path"] for entry in here] == [name.rpartition("#")[0] for name, _ in there], (here, there)
                for entry, (_, score) in zip(here, there):
                    assert abs(max(0, float(score)) - entry["score"]) < 1e-3, (here, there)
    return f"{len(exported)} passages"
