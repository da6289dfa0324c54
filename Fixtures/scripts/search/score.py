#!/usr/bin/env python3
"""Scores `mlxserve search` on judged sets and prints a row for each, as docs/benchmarks/search.md has them.

    python3 score.py BINARY ENCODER [--sets DIR] [--least] [--store]

DIR has the folders cran, cisi and med with the collections as they are published in SMART's format; a set that is not
there is left out with a word. Notes with numbers and names (identifier_notes.py) are made on the spot. With --least the exit
code is 1 where a score is more than 0.005 below what the last release had. With --store the notes are searched in a vector
store of a server as well."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
# nDCG@10 of the last release with all-MiniLM-L6-v2 in 8 bits, of the command and of a store; of identifiers how often the first
# note is right.
LEAST = {"cran": (0.555, 0.559), "cisi": (0.454, 0.448), "med": (0.805, 0.810), "identifiers": (0.98, 0.98)}


def measure(binary, encoder, work):
    command = [binary, "search", work / "notes", "--model", encoder, "--index-dir", work / "index", "--json",
               "--evaluate", work / "judgements.jsonl"]
    return json.loads(subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout)


class Store:
    """A vector store with the notes of a folder, on a server of its own."""

    def __init__(self, binary, encoder, notes):
        self.process = subprocess.Popen([str(binary), "--model", str(encoder), "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.base = self.process.stdout.readline().split()[3]
        files = [self.upload(path) for path in sorted(notes.iterdir())]
        self.store = self.ask("/vector_stores", {})["id"]
        for start in range(0, len(files), 100):
            self.ask(f"/vector_stores/{self.store}/file_batches", {"file_ids": files[start:start + 100]})
        for _ in range(3_600):
            counts = self.ask(f"/vector_stores/{self.store}")["file_counts"]
            # A text of white space fails.
            if counts["in_progress"] == 0 and counts["total"] == len(files):
                return
            time.sleep(1)
        raise SystemExit(f"{counts} of {len(files)} files are indexed")

    def ask(self, path, body=None, kind="application/json"):
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def upload(self, path):
        part = b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        body = (part % (b"purpose", b"", b"assistants")
                + part % (b"file", b'; filename="%s"' % path.name.encode(), path.read_bytes()) + b"--b--\r\n")
        return self.ask("/files", body, "multipart/form-data; boundary=b")["id"]

    def measure(self, judgements):
        gains, firsts, times = [], [], []
        for line in judgements.read_text().splitlines():
            judged = json.loads(line)
            start = time.monotonic()
            page = self.ask(f"/vector_stores/{self.store}/search", {"query": judged["query"], "max_num_results": 50})
            times.append((time.monotonic() - start) * 1e3)
            names = list(dict.fromkeys(hit["filename"] for hit in page["data"]))[:10]
            discounts = [1 / math.log2(rank + 2) for rank in range(10)]
            grades = judged["relevant"]
            ideal = sorted(grades.values(), reverse=True)[:10]
            gains.append(sum(grades.get(name, 0) * discount for name, discount in zip(names, discounts))
                         / sum(grade * discount for grade, discount in zip(ideal, discounts)))
            firsts.append(grades.get(names[0], 0) > 0 if names else False)
        return sum(gains) / len(gains), sum(firsts) / len(firsts), sorted(times)[len(times) // 2]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("encoder")
    parser.add_argument("--sets", default="../shared/data/ir", type=pathlib.Path)
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    isBelow = False
    for name, (least, leastOfStore) in LEAST.items():
        with tempfile.TemporaryDirectory() as place:
            work = pathlib.Path(place)
            if name == "identifiers":
                make = ["identifier_notes.py", work]
            elif (options.sets / name).is_dir():
                make = ["smart_notes.py", options.sets / name, work]
            else:
                print(f"{name}: left out, {options.sets / name} is not there")
                continue
            subprocess.run([sys.executable, HERE / make[0], *make[1:]], check=True, stdout=subprocess.DEVNULL)
            found = measure(options.binary, options.encoder, work)
            print(f"| {name} | {found['queries']} | {found['ndcg10']:.3f} | {found['recall10']:.3f} | {found['p1']:.3f} | "
                  f"{found['p50_ms']:.1f} ms |", flush=True)
            score = found["p1"] if name == "identifiers" else found["ndcg10"]
            isBelow = isBelow or score < least - 0.005
            if options.store:
                store = Store(options.binary, options.encoder, work / "notes")
                try:
                    ndcg, first, milliseconds = store.measure(work / "judgements.jsonl")
                finally:
                    store.stop()
                print(f"| {name} in a store | | {ndcg:.3f} | | {first:.3f} | {milliseconds:.1f} ms |", flush=True)
                isBelow = isBelow or (first if name == "identifiers" else ndcg) < leastOfStore - 0.005
    return 1 if isBelow and options.least else 0


if __name__ == "__main__":
    sys.exit(main())
