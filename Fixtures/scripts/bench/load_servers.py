#!/usr/bin/env python3
"""Loads one or more servers at rising request rates, with prompts and answers of mixed lengths, and tells what they keep up.

    python3 load_servers.py BINARY MODEL_DIR [--rival LLAMA_SERVER --gguf FILE] [--rates 1,2,4,max] [--requests 64]
    python3 load_servers.py --url NAME=http://127.0.0.1:8080 [--url NAME=...] ...

In the way of vLLM's serving benchmark: requests arrive at random (a Poisson process of the given rate; `max`: all at once,
by at most --clients at a time), do not wait for each other, and stream. For every rate: requests and tokens per second;
median and 99th percentile of the time to the first token, of the time per token after it, and of single gaps between
tokens; and the goodput, requests per second whose first token came within --first and whose mean gap was at most --gap.
A model's tokenizer is not needed: prompts are token ids, and each answer has exactly as many tokens as were asked for.
The same seed gives every server the same requests at the same times. The standard library only.
"""

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
import urllib.parse

from compare_servers import Server, model_name, stream


def lengths(numbers, text):
    """A length of `64`, or from a range such as `16-256`, in which all orders of size are equally likely."""
    first, _, last = text.partition("-")
    low, high = int(first), int(last or first)
    return round(low * (high / low) ** numbers.random())


def plan(arguments, rate):
    """What is sent: when after the beginning, a prompt, and how many tokens are asked for."""
    numbers = random.Random(arguments.seed)
    at, requests = 0.0, []
    for _ in range(arguments.requests):
        prompt = [numbers.randrange(10, arguments.vocabulary) for _ in range(lengths(numbers, arguments.prompt_tokens))]
        requests.append((at, prompt, lengths(numbers, arguments.tokens)))
        at += numbers.expovariate(rate) if rate else 0
    return requests


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def load(port, model, requests, clients):
    """Sends all requests at their times; (tokens asked for, time it was due, times of its tokens) of each, and the errors."""
    results, failures, lock = [], [], threading.Lock()
    room = threading.Semaphore(clients)
    begin = time.monotonic()

    def send(at, prompt, tokens):
        # A request that waits for a place of this script's waits for the server: its time runs from when it was due.
        with room:
            try:
                _, times = stream(port, model, prompt, tokens)
                with lock:
                    results.append((tokens, begin + at, times))
            except BaseException as error:
                with lock:
                    failures.append(error)

    threads = []
    for request in requests:
        time.sleep(max(0, begin + request[0] - time.monotonic()))
        threads.append(threading.Thread(target=send, args=request))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return results, failures, time.monotonic() - begin


def report(arguments, results, failures, seconds):
    firsts, means, gaps, good = [], [], [], 0
    for tokens, begin, times in results:
        if not times:
            continue
        first = times[0] - begin
        # Servers may send more than one token in an event.
        mean = (times[-1] - times[0]) / (tokens - 1) if tokens > 1 else 0.0
        firsts.append(first)
        means.append(mean)
        gaps.extend(later - earlier for earlier, later in zip(times, times[1:]))
        good += first <= arguments.first and mean <= arguments.gap
    return {
        "requests_per_second": len(results) / seconds, "tokens_per_second": sum(r[0] for r in results) / seconds,
        "goodput_per_second": good / seconds, "good_share": good / max(1, arguments.requests),
        "first_token_s": [statistics.median(firsts), percentile(firsts, 0.99)] if firsts else None,
        "per_token_s": [statistics.median(means), percentile(means, 0.99)] if means else None,
        "gap_s": [statistics.median(gaps), percentile(gaps, 0.99)] if gaps else None, "failed": len(failures),
    }


def targets(arguments):
    """Names of the servers, and for each a function that gives a port and what ends it."""
    found = {}
    for text in arguments.url:
        name, _, url = text.partition("=")
        port = urllib.parse.urlsplit(url).port
        found[name] = lambda port=port: (port, lambda: None)

    def started(command):
        server = Server(command)
        server.wait()
        return server.port, server.stop

    if arguments.binary:
        found["mlxserve"] = lambda: started(lambda port: [
            arguments.binary, "--model", arguments.model, "--port", port, "--max-sequences", arguments.clients, "--log-level",
            "error"])
    if arguments.rival:
        found["llama-server"] = lambda: started(lambda port: [
            arguments.rival, "-m", arguments.gguf, "--port", port, "-t", os.cpu_count(), "-tb", os.cpu_count(), "-np",
            arguments.clients, "-c", arguments.context * arguments.clients])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--url", action="append", default=[], help="NAME=URL of a server that runs already, on this machine")
    parser.add_argument("--rival", help="llama-server")
    parser.add_argument("--gguf")
    parser.add_argument("--rates", default="1,2,4,8,max", help="requests per second")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--clients", type=int, default=32, help="requests in flight, at most, and slots of the servers")
    parser.add_argument("--context", type=int, default=1024, help="tokens of each of the rival's slots")
    parser.add_argument("--prompt-tokens", default="16-256")
    parser.add_argument("--tokens", default="8-128")
    parser.add_argument("--vocabulary", type=int, default=400, help="prompts are of ids below this")
    parser.add_argument("--first", type=float, default=1.0, help="seconds to the first token that count as good")
    parser.add_argument("--gap", type=float, default=0.2, help="mean seconds per token that count as good")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object per rate and server")
    arguments = parser.parse_args()
    if not arguments.url and not (arguments.binary and arguments.model):
        parser.error("give BINARY and MODEL_DIR, or --url")

    for rate in arguments.rates.split(","):
        requests = plan(arguments, 0 if rate == "max" else float(rate))
        # In turns, so that a shared machine's slow moments fall on all.
        for name, start in targets(arguments).items():
            port, stop = start()
            try:
                model = model_name(port)
                stream(port, model, list(range(10, 18)), 1)
                result = report(arguments, *load(port, model, requests, arguments.clients))
            finally:
                stop()
            if arguments.json:
                print(json.dumps({"rate": rate, "server": name} | result), flush=True)
                continue
            text = ", ".join(
                f"{key} " + (" / ".join(f"{number:.3g}" for number in value) if isinstance(value, list) else f"{value or 0:.3g}")
                for key, value in result.items())
            print(f"rate {rate:>4}  {name:12}  {text}", flush=True)


if __name__ == "__main__":
    main()
