#!/usr/bin/env python3
"""Prints how far the fast mode is from the exact one on small checkpoints, a row of a table for each.

    python3 divergence.py BINARY FOLDER... [--tokens 1024] [--context 1024]

FOLDERs hold config.json, weights and, where the checkpoint is a golden, expected.json with the ids of its prompt; a folder
of such folders stands for all of them. Two texts of token ids are predicted by both modes (`mlxserve perplexity --ids
--compare`): the golden's prompt, and one of random ids. Keys and values are stored as the server stores them in each mode.
Unquantized checkpoints are passed over: the modes differ only in how they store keys and values there.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile


def measure(arguments, folder, ids, context):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(ids, file)
        file.flush()
        result = subprocess.run(
            [arguments.binary, "perplexity", "--model", folder, "--ids", file.name, "--compare", "--json",
             "--context", str(min(context, len(ids)))], capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{folder}: {result.stderr.strip()}")
    return json.loads(result.stdout)["comparison"]


def folders(paths):
    for path in map(pathlib.Path, paths):
        yield from [path] if (path / "config.json").exists() else sorted(p.parent for p in path.glob("*/config.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--tokens", type=int, default=1024, help="of the random text")
    parser.add_argument("--context", type=int, default=1024, help="of a window of the random text")
    parser.add_argument("--names", help="only checkpoints whose name has this")
    arguments = parser.parse_args()
    print("| `model_type` | Checkpoint | Prompt: mean KL | same likeliest | Random ids: mean KL | same likeliest |")
    print("|---|---|---|---|---|---|")
    for folder in folders(arguments.folders):
        config = json.loads((folder / "config.json").read_text())
        text = config.get("text_config", config)
        if not (config.get("quantization") or text.get("quantization")):
            continue
        if arguments.names and arguments.names not in folder.name:
            continue
        cells = []
        expected = folder / "expected.json"
        document = json.loads(expected.read_text()) if expected.exists() else {}
        if expected.exists() and not {"greedy", "text_greedy"} & document.keys():
            continue  # No decoder.
        prompt = document.get("input_ids") or document.get("text_input_ids") or []
        vocabulary = min(text["vocab_size"], 1 << 30)
        draw = random.Random(1)
        drawn = [draw.randrange(vocabulary) for _ in range(arguments.tokens)]
        for ids in (prompt, drawn):
            if len(ids) < 2:
                cells += ["", ""]
                continue
            found = measure(arguments, folder, ids, arguments.context)
            cells += [f"{found['mean_kl']:.2g}", f"{100 * found['same_top_token_share']:.1f} %"]
        print("| " + " | ".join([f"`{config['model_type']}`", folder.name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
