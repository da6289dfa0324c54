#!/usr/bin/env python3
"""Measures mlx-lm on the CPU with random token ids: prefill and decode of one sequence without context.

    python3 measure_mlx_lm.py MODEL_DIR [--prompt-tokens 4] [--generate-tokens 2] [--repetitions 1]

Prints one JSON object in the words of `mlxserve bench --json`. Few tokens by default: on CPUs mlx-lm takes six seconds for
each token of a 0.6B model in 4 bits.
"""

import argparse
import json
import pathlib
import random
import time

import mlx.core as mx
import mlx_lm
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from sizes import measurement


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompt-tokens", type=int, default=4)
    parser.add_argument("--generate-tokens", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=1)
    arguments = parser.parse_args()
    mx.set_default_device(mx.cpu)
    model, config = load_model(arguments.model)
    numbers = random.Random(1)

    def feed(cache, count):
        """Seconds for `count` tokens in one pass."""
        tokens = mx.array([[numbers.randrange(config["vocab_size"]) for _ in range(count)]])
        begin = time.perf_counter()
        mx.eval(model(tokens, cache=cache)[:, -1], [layer.state for layer in cache])
        return time.perf_counter() - begin

    feed(make_prompt_cache(model), 1)
    prefill, decode = [], []
    for _ in range(arguments.repetitions):
        cache = make_prompt_cache(model)
        prefill.append(arguments.prompt_tokens / feed(cache, arguments.prompt_tokens))
        cache = make_prompt_cache(model)
        feed(cache, 1)
        decode.append(arguments.generate_tokens / sum(feed(cache, 1) for _ in range(arguments.generate_tokens)))
    measurements = [
        measurement(phase, 0, 1, tokens, values)
        for phase, tokens, values in (("prefill", arguments.prompt_tokens, prefill),
                                      ("decode", arguments.generate_tokens, decode))]
    version = mlx_lm.__version__ + ", CPU, a prompt of 4 tokens and 2 more"
    print(json.dumps({"program": "mlx-lm", "version": version, "measurements": measurements}))


if __name__ == "__main__":
    main()
