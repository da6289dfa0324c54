#!/usr/bin/env python3
"""Measures llama.cpp (llama-cpp-python) on random token ids: prefill, decode at depths, and batched decode.

    python3 measure_llama_cpp.py MODEL.gguf [--threads 2] [--prompt-tokens 512] [--generate-tokens 32] [--depth 0,4096]
                         [--sequences 1,8] [--repetitions 1]

Prints one JSON object in the words of `mlxserve bench --json`. Uses llama.cpp's own defaults: batches of 512, f16
keys and values, flash attention as it chooses.
"""

import json
import time

import llama_cpp as lib

from sizes import measurement, parsed


class Runner:
    def __init__(self, path, threads, context, sequences):
        lib.llama_backend_init()
        self.log = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.log, None)
        model_parameters = lib.llama_model_default_params()
        self.model = lib.llama_model_load_from_file(path.encode(), model_parameters)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        parameters = lib.llama_context_default_params()
        parameters.n_ctx = context * sequences
        parameters.n_seq_max = sequences
        parameters.n_batch = 2048
        parameters.n_ubatch = 512
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, parameters)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context")
        self.memory = lib.llama_get_memory(self.context)
        self.batch = lib.llama_batch_init(2048, 0, 1)
        self.state = 1

    def token(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % self.vocabulary

    def clear(self):
        lib.llama_memory_clear(self.memory, True)

    def feed(self, rows):
        """rows: (position, sequence, wants logits)."""
        for index, (position, sequence, wants) in enumerate(rows):
            self.batch.token[index] = self.token()
            self.batch.pos[index] = position
            self.batch.n_seq_id[index] = 1
            self.batch.seq_id[index][0] = sequence
            self.batch.logits[index] = wants
        self.batch.n_tokens = len(rows)
        if lib.llama_decode(self.context, self.batch) != 0:
            raise SystemExit("llama_decode failed")

    def prefill(self, start, count, sequence=0):
        begin = time.perf_counter()
        for first in range(start, start + count, 2048):
            last = min(first + 2048, start + count)
            self.feed([(p, sequence, p + 1 == start + count) for p in range(first, last)])
        lib.llama_synchronize(self.context)
        return count / (time.perf_counter() - begin)

    def decode(self, start, count, sequences=1):
        begin = time.perf_counter()
        for step in range(count):
            self.feed([(start + step, sequence, True) for sequence in range(sequences)])
            lib.llama_synchronize(self.context)
        return count * sequences / (time.perf_counter() - begin)


def main():
    arguments = parsed(__doc__, model=str)
    depths = arguments.depth
    longest = max(depths) + arguments.prompt_tokens + arguments.generate_tokens + 8

    measurements = []

    runner = Runner(arguments.model, arguments.threads, longest, 1)
    # The first run touches weights and buffers for the first time: it is not counted.
    runner.prefill(0, max(8, arguments.prompt_tokens))
    for depth in depths:
        prefill, decode = [], []
        for _ in range(arguments.repetitions):
            runner.clear()
            # One context for both: states of recurrent layers cannot be cut back.
            runner.prefill(0, max(1, depth))
            decode.append(runner.decode(max(1, depth), arguments.generate_tokens))
            start = depth + arguments.generate_tokens if depth else 0
            if not depth:
                runner.clear()
            prefill.append(runner.prefill(start, arguments.prompt_tokens))
        measurements.append(measurement("prefill", depth, 1, arguments.prompt_tokens, prefill))
        measurements.append(measurement("decode", depth, 1, arguments.generate_tokens, decode))
    for count in arguments.sequences:
        if count > 1:
            runner = Runner(arguments.model, arguments.threads, arguments.generate_tokens + 64, count)
            values = []
            for _ in range(arguments.repetitions):
                runner.clear()
                for sequence in range(count):
                    runner.prefill(0, 1, sequence)
                values.append(runner.decode(1, arguments.generate_tokens, count))
            measurements.append(measurement("decode", 0, count, arguments.generate_tokens, values))
    print(json.dumps({
        "program": "llama.cpp", "version": "llama-cpp-python " + lib.__version__, "threads": arguments.threads,
        "system": lib.llama_print_system_info().decode(), "measurements": measurements}))


if __name__ == "__main__":
    main()
