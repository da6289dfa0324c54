#!/usr/bin/env python3
"""Measures ik_llama.cpp, built in a folder, on random token ids: prefill, decode at depths, and batched decode.

    python3 measure_ik_llama.py BIN_DIR MODEL.gguf [--threads 2] [--prompt-tokens 512] [--generate-tokens 32]
                        [--depth 0,4096] [--sequences 1,8]

Prints one JSON object in the words of `mlxserve bench --json`. BIN_DIR holds its llama-sweep-bench and
llama-batched-bench. Weights are repacked at load, which is its fastest way on CPUs; batches of 512, f16 keys and values
and flash attention are its own defaults.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

from sizes import measurement, parsed


def output(command):
    """What a program prints, on either stream; it leaves log files in its working directory."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stdout[-2000:]}")
    return result.stdout.splitlines()


def main():
    arguments = parsed(__doc__, programs=pathlib.Path, model=pathlib.Path)
    depths = arguments.depth
    prompt, tokens = arguments.prompt_tokens, arguments.generate_tokens
    # The sweep goes up in steps of one batch, so that depths and prompts are whole numbers of them.
    step = math.gcd(512, prompt)
    if any(depth % step for depth in depths):
        sys.exit(f"depths are multiples of {step} here")

    common = ["-m", arguments.model.resolve(), "-t", arguments.threads, "-tb", arguments.threads, "-rtr"]
    speeds = {}
    for _ in range(arguments.repetitions):
        # One step more: the batch that warms up stands beside another token.
        lines = output([arguments.programs / "llama-sweep-bench", *common, "-c", max(depths) + prompt + step, "-b", 2048,
                        "-ub", step, "-n", tokens, "-wb", "--output-format", "jsonl"])
        rows = {row["n_kv"]: row for row in map(json.loads, (line for line in lines if line.startswith('{"n_kv_max"')))}
        for depth in depths:
            seconds = sum(rows[start]["t_pp"] for start in range(depth, depth + prompt, step))
            speeds.setdefault(("prefill", depth, 1, prompt), []).append(prompt / seconds)
            speeds.setdefault(("decode", depth, 1, tokens), []).append(rows[depth]["speed_tg"])
        for count in arguments.sequences:
            if count > 1:
                lines = output([arguments.programs / "llama-batched-bench", *common, "-c", count * (tokens + 64), "-b", 2048,
                                "-ub", 512, "-npp", 1, "-ntg", tokens, "-npl", count])
                cells = next(line for line in lines if line.startswith("|") and line.split("|")[3].strip() == str(count))
                speeds.setdefault(("decode", 0, count, tokens), []).append(float(cells.split("|")[8]))
    measurements = [measurement(*key, values) for key, values in speeds.items()]
    version = " ".join(line for line in output([arguments.programs / "llama-sweep-bench", "--version"])
                       if line.startswith("version"))
    print(json.dumps({"program": "ik_llama.cpp", "version": version.removeprefix("version: "),
                      "threads": arguments.threads, "measurements": measurements}))


if __name__ == "__main__":
    main()
