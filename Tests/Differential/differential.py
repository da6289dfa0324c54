"""Random cases for parsers, judged beside those of others: differential.py BINARY [--subject NAME,...] [--count N] [--seed N].

JSON beside Python's `json`, regular expressions beside `re`, templates beside `jinja2`, HTTP beside llhttp (`httptools`).
Every case follows from the seed. A difference is a failure unless its module lists it with a reason; the last lines say
how many cases agreed, and how many differed for which of these reasons.
"""

import argparse
import collections
import multiprocessing
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import http_cases
import jinja_cases
import json_cases
import regex_cases
from frames import packed, unpacked

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "Fixtures" / "models" / "demo" / "tokenizer.json"
SUBJECTS = {"json": json_cases, "regex": regex_cases, "jinja": jinja_cases, "http": http_cases}
BATCH = 2000
SHOWN = 10


def answers(binary, subject, cases):
    """What the binary makes of each case; None where it ends without an answer."""
    done = subprocess.run([binary, subject, str(TOKENIZER)], input=b"".join(map(packed, cases)), capture_output=True)
    if done.returncode == 0:
        return unpacked(done.stdout)
    if len(cases) == 1:
        return [None]
    half = len(cases) // 2
    return answers(binary, subject, cases[:half]) + answers(binary, subject, cases[half:])


def batch(job):
    """How many comparisons were made, the reasons of allowed differences, and the others in words."""
    binary, subject, seed, number, count = job
    module = SUBJECTS[subject]
    chance = random.Random(f"{subject} {seed} {number}")
    cases = [module.case(chance) for _ in range(count)]
    compared, reasons, problems = 0, collections.Counter(), []
    found = answers(binary, subject, [fields for fields, _ in cases])
    assert len(found) == len(cases), f"{len(found)} answers to {len(cases)} cases"
    for (fields, expected), answer in zip(cases, found):
        number, difference = (1, "it ended the process") if answer is None else module.judge(fields, expected, answer)
        compared += number
        if difference in module.REASONS:
            reasons[difference] += 1
        elif difference is not None:
            problems.append(f"{fields[0]!r}\n    {fields[1:]}\n    {difference}")
    return compared, reasons, problems


def compare(arguments, subject):
    """Prints what came of one subject; whether all differences have reasons."""
    start = time.monotonic()
    sizes = [min(BATCH, arguments.count - at) for at in range(0, arguments.count, BATCH)]
    jobs = [(arguments.binary, subject, arguments.seed, number, size) for number, size in enumerate(sizes)]
    compared, reasons, problems = 0, collections.Counter(), []
    with multiprocessing.get_context("fork").Pool(arguments.processes) as pool:
        for more, others, wrong in pool.imap_unordered(batch, jobs):
            compared += more
            reasons += others
            problems += wrong
    print(f"{subject:6} {arguments.count:,} cases, {compared:,} comparisons in {time.monotonic() - start:.0f} s: "
          f"{len(problems):,} unexplained", flush=True)
    for reason, number in reasons.most_common():
        print(f"    {number:,} differ: {reason}: {SUBJECTS[subject].REASONS[reason]}")
    for problem in sorted(problems, key=len)[:SHOWN]:
        print(f"  WRONG: {problem}", flush=True)
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--subject", default=",".join(SUBJECTS))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    good = [compare(arguments, subject) for subject in arguments.subject.split(",")]
    print("differential: passed" if all(good) else "differential: failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
