#!/usr/bin/env python3
"""Measures mlxserve and its rivals alternately on this machine and writes a CSV and a chart.

    python3 compare.py BINARY OUT_DIR [--shapes qwen3-0.6b,llama-3.2-1b] [--rounds 3] [--work DIR] [--flags "..."]
                       [--ik-llama BIN_DIR]

Checkpoints of random weights in the exact shapes are made first (make_checkpoint.py, make_gguf.py: numpy; gguf for
llama.cpp); gpt-oss-20b:4 is its first four layers. llama.cpp runs if llama-cpp-python is installed beside this Python,
ik_llama.cpp from the folder of programs that --ik-llama names, and mlx-lm, which is very slow on CPUs, with few tokens and
without context if it is installed; without them mlxserve is measured alone.
Each round runs one program after the other, so that what the machine does meanwhile hits both; medians of rounds are
compared. Figures of different machines, or of different runs, say nothing about each other.
"""

import argparse
import csv
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SYNTHETIC = HERE.parent / "synthetic"
# In the order in which they run and are drawn.
COLOURS = {"mlxserve": "#2563eb", "llama.cpp": "#9ca3af", "ik_llama.cpp": "#6b8e6b", "mlx-lm": "#d6b370"}
COLUMNS = ["model", "program", "phase", "depth", "sequences", "median", "least", "largest"]


def machine():
    try:
        info = pathlib.Path("/proc/cpuinfo").read_text()
        name = next(line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name"))
        flags = next(line for line in info.splitlines() if line.startswith("flags"))
        vector = next((words for flag, words in (("amx_int8", "AMX"), ("avx512_vnni", "AVX-512 VNNI"), (" avx2", "AVX2"))
                       if flag in flags), "no AVX2")
        return f"{name}, {os.cpu_count()} cores, {vector}"
    except (OSError, StopIteration):
        return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def commit():
    result = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def run_json(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def make(script, shape, work, suffix=""):
    name, _, layers = shape.partition(":")
    path = work / (shape.replace(":", "-") + suffix)
    if not path.exists():
        subprocess.run([sys.executable, SYNTHETIC / script, name, path, *(["--layers", layers] if layers else [])],
                       check=True, stdout=subprocess.DEVNULL)
    return path


def rival_commands(arguments, shape, folder, sizes):
    """The rivals that can run here: a function of the number of threads for each, which gives its command."""
    rivals = {}
    llama, ik = importlib.util.find_spec("llama_cpp") is not None, arguments.ik_llama
    if llama or ik:
        try:
            gguf = make("make_gguf.py", shape, arguments.work, ".gguf")
        except subprocess.CalledProcessError as error:
            # argparse's status of a word that it does not know.
            if error.returncode != 2:
                raise
            print(f"{shape}: make_gguf.py does not know this shape: llama.cpp and ik_llama.cpp are left out.", file=sys.stderr)
            llama = ik = None
    if llama:
        rivals["llama.cpp"] = lambda threads: [sys.executable, HERE / "measure_llama_cpp.py", gguf, "--threads", threads,
                                               *sizes]
    if ik:
        rivals["ik_llama.cpp"] = lambda threads: [sys.executable, HERE / "measure_ik_llama.py", ik, gguf, "--threads",
                                                  threads, *sizes]
    if importlib.util.find_spec("mlx_lm") is not None:
        rivals["mlx-lm"] = lambda threads: [sys.executable, HERE / "measure_mlx_lm.py", folder]
    return rivals


def measure(arguments, shape, samples, notes):
    folder = make("make_checkpoint.py", shape, arguments.work)
    sizes = ["--prompt-tokens", arguments.prompt_tokens, "--generate-tokens", arguments.generate_tokens,
             "--depth", arguments.depth, "--sequences", arguments.sequences, "--repetitions", 1]
    rivals = rival_commands(arguments, shape, folder, sizes)
    for number in range(arguments.rounds):
        print(f"{shape}, round {number + 1} of {arguments.rounds}", file=sys.stderr)
        own = run_json([arguments.binary, "bench", "--model", folder, "--json", *sizes, *arguments.flags.split()])
        notes["mlxserve"] = own["compute"]
        reports = [("mlxserve", own)]
        for name, command in rivals.items():
            report = run_json(command(own["threads"]))
            notes[name] = report["version"]
            reports.append((name, report))
        for program, report in reports:
            for m in report["measurements"]:
                key = (shape, program, m["phase"], m["depth"], m.get("sequences", 1))
                if m["tokens_per_second"] is not None:
                    samples.setdefault(key, []).append(m["tokens_per_second"])
        share = own["decode_share_of_read_loop"]["median"]
        notes.setdefault(f"share of read bandwidth, {shape}", []).append(share)
        beside = own["decode_share_beside_forward"]["median"]
        notes.setdefault(f"share of a decode step beside the forward pass, {shape}", []).append(beside)


def chart(rows, title):
    """Bars of tokens per second, mlxserve above its rivals, one group per measurement."""
    groups = {}
    for row in rows:
        groups.setdefault((row["model"], row["phase"], row["depth"], row["sequences"]), {})[row["program"]] = row
    height, left, width = sum(11 * len(group) + 8 for group in groups.values()) + 70, 250, 420
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="12" y="22" font-size="14" font-weight="bold">{title}</text>',
           '<text x="12" y="40" font-size="11" fill="#555">tokens per second, longer is better; each group of bars has its '
           'own scale</text>']
    y = 54
    for (model, phase, depth, sequences), programs in groups.items():
        name = f"{model} {phase}" + (f" at {depth}" if depth else "") + (f" x {sequences}" if sequences > 1 else "")
        out.append(f'<text x="{left - 8}" y="{y + 4 + 5.5 * len(programs):.0f}" font-size="11" text-anchor="end">{name}</text>')
        top = max(row["median"] for row in programs.values())
        for index, (program, row) in enumerate(programs.items()):
            length = max(1, width * row["median"] / top)
            out.append(f'<rect x="{left}" y="{y + 11 * index}" width="{length:.0f}" height="10" '
                       f'fill="{COLOURS[program]}"/>')
            out.append(f'<text x="{left + length + 4:.0f}" y="{y + 9 + 11 * index}" font-size="10">'
                       f'{row["median"]:.1f} {program}</text>')
        y += 11 * len(programs) + 8
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shapes", default="qwen3-0.6b")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(".build/bench"))
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generate-tokens", type=int, default=32)
    parser.add_argument("--depth", default="0,4096")
    parser.add_argument("--sequences", default="1,8")
    parser.add_argument("--ik-llama", type=pathlib.Path, metavar="BIN_DIR", help="where ik_llama.cpp's programs are")
    parser.add_argument("--flags", default="", help="more flags for mlxserve bench, such as '--isa avx2'")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)

    samples, notes = {}, {}
    for shape in arguments.shapes.split(","):
        measure(arguments, shape, samples, notes)
    rows = [dict(zip(COLUMNS, (*key, statistics.median(values), min(values), max(values))))
            for key, values in samples.items()]
    programs = list(COLOURS)
    rows.sort(key=lambda row: (row["model"], row["sequences"], row["depth"], row["phase"] != "prefill",
                               programs.index(row["program"])))
    facts = [f"machine: {machine()}", f"date: {datetime.date.today()}", f"commit: {commit()}",
             f"rounds: {arguments.rounds}, alternating; medians, least and largest in tokens per second",
             f"tokens: {arguments.prompt_tokens} of a prompt, {arguments.generate_tokens} of an answer"]
    for name, value in notes.items():
        text = ", ".join(f"{100 * share:.3g} %" for share in value) if isinstance(value, list) else value
        facts.append(f"{name}: {text}")
    with open(arguments.out / "latest.csv", "w", newline="") as file:
        for fact in facts:
            file.write(f"# {fact}\n")
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{value:.2f}" if isinstance(value, float) else value for name, value in row.items()})
    (arguments.out / "latest.svg").write_text(chart(rows, f"mlxserve on {machine()}"))
    for fact in facts:
        print(fact)
    medians = {tuple(row[name] for name in COLUMNS[:5]): row["median"] for row in rows}
    for (model, program, *rest), own in medians.items():
        if program == "mlxserve":
            rivals = {name: medians[key] for name in programs[1:] if (key := (model, name, *rest)) in medians}
            ratios = "".join(f"  {own / rival:.2f} x {name} ({rival:.1f})" for name, rival in rivals.items())
            phase, depth, sequences = rest
            print(f"{model:14} {phase:8} depth {depth:5} sequences {sequences:2} {own:9.1f}{ratios}")


if __name__ == "__main__":
    main()
