"""Verdicts over published schemas: corpus.py BINARY TOKENIZER.JSON FOLDER [--list FILE].

FOLDER holds the schemas of MaskBench (`maskbench/data` of the repository guidance-ai/jsonschemabench): JSON files with
`schema` and `tests`, each with `data` and `valid`. BINARY is the executable `differential` of a release build. Schemas are
read by the letter, as they are sent: one is right when it compiles, when each valid example is reachable in the spelling of
Python's `json.dumps`, and when none of the others is. Needs nothing but Python.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "Tests" / "Differential"))

from frames import packed, unpacked  # noqa: E402

TURN = 200


def published(folder):
    """(name, schema, [(text, valid)]) of each file."""
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        case = json.loads(path.read_text())
        if isinstance(case, dict) and "schema" in case:
            texts = [(json.dumps(test["data"], ensure_ascii=False), test["valid"]) for test in case["tests"]]
            yield path.stem, case["schema"], texts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("tokenizer")
    parser.add_argument("folder")
    parser.add_argument("--list", help="where to write a line for each schema that is not right")
    arguments = parser.parse_args()
    counts, reasons, lines, compiled = collections.Counter(), collections.Counter(), [], []
    turn = []

    def ask():
        data = b"".join(packed([json.dumps(schema, ensure_ascii=False).encode(errors="surrogatepass")]
                               + [text.encode(errors="surrogatepass") for text, _ in texts])
                        for _, schema, texts in turn)
        done = subprocess.run([arguments.binary, "schema", arguments.tokenizer], input=data, capture_output=True)
        answers = unpacked(done.stdout)
        if len(answers) != len(turn):
            sys.exit(f"the program ended after {len(answers)} of {len(turn)}, at {turn[len(answers)][0]}: {done.stderr[-400:]}")
        for (name, _, texts), answer in zip(turn, answers):
            kind = answer[0].decode()
            counts["schemas"] += 1
            if kind != "ok":
                what, why = answer[1].decode(), answer[2].decode() if len(answer) > 2 else ""
                counts["unsatisfiable" if what == "unsatisfiable" else "refused"] += 1
                reasons[what] += 1
                lines.append(f"refused\t{what}\t{name}\t{why}")
                continue
            compiled.append(int(answer[1]) / 1e6)
            verdicts = answer[2].decode()
            lost = [i for i, (_, valid) in enumerate(texts) if valid and verdicts[i] != "1"]
            wrong = [i for i, (_, valid) in enumerate(texts) if not valid and verdicts[i] == "1"]
            for i in lost:
                lines.append(f"lost\t{i}\t{name}\t{texts[i][0][:300]}")
            for i in wrong:
                lines.append(f"wrong\t{i}\t{name}\t{texts[i][0][:300]}")
            counts["valid"] += sum(valid for _, valid in texts)
            counts["invalid"] += sum(not valid for _, valid in texts)
            counts["lost"] += bool(lost)
            counts["wrong"] += bool(wrong)
            counts["right"] += not lost and not wrong
        turn.clear()

    for case in published(arguments.folder):
        turn.append(case)
        if len(turn) == TURN:
            ask()
    if turn:
        ask()
    if arguments.list:
        pathlib.Path(arguments.list).write_text("\n".join(lines) + "\n", errors="surrogatepass")
    print(f"{counts['schemas']} schemas; of those that compile, {counts['valid']} valid and {counts['invalid']} invalid examples")
    print(f"right: {counts['right']} ({counts['right'] / counts['schemas']:.2%})")
    print(f"a valid example is not reachable: {counts['lost']}; an invalid one is: {counts['wrong']}")
    print(f"nothing satisfies it: {counts['unsatisfiable']}; refused: {counts['refused']}")
    for what, count in reasons.most_common():
        print(f"  {count:6} {what}")
    compiled.sort()
    at = lambda part: compiled[min(len(compiled) - 1, int(len(compiled) * part))]
    print(f"compiling: p50 {at(.5):.2f}, p90 {at(.9):.2f}, p99 {at(.99):.2f}, p99.9 {at(.999):.2f}, most {compiled[-1]:.1f} ms")


if __name__ == "__main__":
    main()
