#!/usr/bin/env python3
"""Scores `mlxserve search` on judged sets and prints a row for each, as docs/benchmarks/search.md has them.

    python3 score.py BINARY ENCODER [--sets DIR] [--least]

DIR has the folders cran, cisi and med with the collections as they are published in SMART's format; a set that is not
there is left out with a word. Notes with numbers and names (identifier_notes.py) are made on the spot. With --least the exit
code is 1 where a score is more than 0.005 below what the last release had."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# nDCG@10 of the last release with all-MiniLM-L6-v2 in 8 bits; of identifiers how often the first note is right.
LEAST = {"cran": 0.555, "cisi": 0.454, "med": 0.805, "identifiers": 0.98}


def measure(binary, encoder, work):
    command = [binary, "search", work / "notes", "--model", encoder, "--index-dir", work / "index", "--json",
               "--evaluate", work / "judgements.jsonl"]
    return json.loads(subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("encoder")
    parser.add_argument("--sets", default="../shared/data/ir", type=pathlib.Path)
    parser.add_argument("--least", action="store_true")
    options = parser.parse_args()
    isBelow = False
    for name, least in LEAST.items():
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
    return 1 if isBelow and options.least else 0


if __name__ == "__main__":
    sys.exit(main())
