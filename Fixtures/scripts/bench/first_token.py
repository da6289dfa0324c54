"""Time to the first token with a schema and without: first_token.py BINARY MODEL [--pairs 60] [--tokens 512].

Every request has a prompt of its own, so that nothing of it is cached, and every schema is new to the server: those of
the project's corpus. Requests come alone, in turns: a schema, none, none, a schema.
Schemas that are refused do not count.
"""

import argparse
import http.client
import json
import pathlib
import random
import re
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def schemas():
    lines = (ROOT / "Fixtures" / "schemas" / "corpus.jsonl").read_text().splitlines()
    return [json.loads(line)["schema"] for line in lines]


def first_token(port, body):
    """Milliseconds; None where the request is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        start = time.perf_counter()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            answer.read()
            return None
        while not (line := answer.readline()).startswith(b"data: "):
            if not line:
                return None
        return (time.perf_counter() - start) * 1000
    finally:
        connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    server = subprocess.Popen(
        [arguments.binary, "serve", "--model", "m=" + arguments.model, "--port", "0", "--log-level", "error"],
        stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])

        def ask(schema):
            prompt = [chance.randrange(1000, 30000) for _ in range(arguments.tokens)]
            body = {"model": "m", "prompt": prompt, "stream": True, "max_tokens": 400, "temperature": 0}
            return first_token(port, body if schema is None else {**body, "guided_json": schema})

        for _ in range(3):
            ask(None)
        pairs, refused = [], 0
        for number, schema in enumerate(chance.sample(schemas(), arguments.pairs)):
            if number % 2:
                plain, constrained = ask(None), ask(schema)
            else:
                constrained, plain = ask(schema), ask(None)
            if constrained is None or plain is None:
                refused += 1
                continue
            pairs.append((constrained, plain))
    finally:
        server.terminate()
        server.wait(timeout=60)
    growth = sorted(constrained / plain - 1 for constrained, plain in pairs)
    at = lambda part: growth[min(len(growth) - 1, int(len(growth) * part))]
    print(f"{len(pairs)} pairs, {refused} refused, prompts of {arguments.tokens} tokens")
    for title, place in (("with a schema", 0), ("without", 1)):
        times = [pair[place] for pair in pairs]
        print(f"{title:14} median {statistics.median(times):8.1f} ms, {min(times):.1f} to {max(times):.1f}")
    print(f"growth of a pair: median {at(.5):+.1%}, p10 {at(.1):+.1%}, p90 {at(.9):+.1%}, most {growth[-1]:+.1%}")


if __name__ == "__main__":
    main()
