"""What the scripts that measure one rival take and print, in the words of `mlxserve bench --json`."""

import argparse
import statistics


def parsed(description, **files):
    """The arguments: a file or folder for each name, of the type that is given, and the sizes of `mlxserve bench`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    for name, kind in files.items():
        parser.add_argument(name, type=kind)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--generate-tokens", type=int, default=32)
    parser.add_argument("--depth", type=numbers, default=[0])
    parser.add_argument("--sequences", type=numbers, default=[1])
    parser.add_argument("--repetitions", type=int, default=1)
    return parser.parse_args()


def numbers(text):
    return [int(word) for word in text.split(",")]


def measurement(phase, depth, sequences, tokens, values):
    """Tokens per second of some repetitions."""
    return {"phase": phase, "depth": depth, "sequences": sequences, "tokens": tokens,
            "tokens_per_second": statistics.median(values), "least": min(values), "largest": max(values)}
