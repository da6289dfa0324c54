#!/usr/bin/env python3
"""Measures mlxserve and llama-server as servers, in turns: start, memory, and many clients at once.

    python3 compare_servers.py BINARY MODEL_DIR [--rival LLAMA_SERVER --gguf FILE] [--clients 1,8,32] [--rounds 2]

The standard library only. Prompts are token ids, streamed through /v1/completions; each client sends its requests one
after the other. MODEL_DIR needs a tokenizer (a checkpoint of make_checkpoint.py with the demo model's tokenizer beside
it does). llama-server gets as many slots as there are clients and a thread per core. Every server is started anew for
each number of clients, with its file in the page cache.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

CONTEXT = 512


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; `command` is given the port."""

    def __init__(self, command):
        self.port = free_port()
        self.begin = time.monotonic()
        self.process = subprocess.Popen([str(part) for part in command(self.port)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def wait(self):
        while time.monotonic() - self.begin < 120:
            if self.process.poll() is not None:
                sys.exit(f"{self.process.args[0]} ended with {self.process.returncode}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.005)
        sys.exit(f"{self.process.args[0]} is not ready after two minutes")

    def peak_memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def model_name(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/v1/models")
    return json.loads(connection.getresponse().read())["data"][0]["id"]


def stream(port, model, prompt, tokens):
    """One completion of exactly `tokens` tokens; the times of its events."""
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    begin = time.monotonic()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"status {response.status}: {response.read()[:500]}")
    times = []
    for line in response:
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    connection.close()
    return begin, times


def load(port, model, clients, requests, prompt_tokens, tokens, vocabulary):
    """All clients together: tokens per second, and seconds to the first token of each request."""
    first, failures = [], []

    def client(number):
        numbers = random.Random(number)
        try:
            for _ in range(requests):
                prompt = [numbers.randrange(10, vocabulary) for _ in range(prompt_tokens)]
                begin, times = stream(port, model, prompt, tokens)
                first.append(times[0] - begin)
        except BaseException as error:  # a thread's own exit would go unnoticed
            failures.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(f"a client failed: {failures[0]}")
    return clients * requests * tokens / (time.monotonic() - begin), first


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--rival")
    parser.add_argument("--gguf")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--requests", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=400, help="prompts are of ids below this")
    arguments = parser.parse_args()

    def own(clients):
        return lambda port: [arguments.binary, "--model", arguments.model, "--port", port,
                             "--max-sequences", max(8, clients), "--log-level", "error"]

    def rival(clients):
        return lambda port: [arguments.rival, "-m", arguments.gguf, "--port", port, "-t", os.cpu_count(), "-tb",
                             os.cpu_count(), "-np", clients, "-c", CONTEXT * clients]

    programs = {"mlxserve": own} | ({"llama-server": rival} if arguments.rival else {})
    results = {}
    for number in range(arguments.rounds):
        for clients in map(int, arguments.clients.split(",")):
            for name, command in programs.items():
                print(f"round {number + 1}, {clients} clients, {name}", file=sys.stderr)
                server = Server(command(clients))
                server.wait()
                model = model_name(server.port)
                _, times = stream(server.port, model, list(range(10, 18)), 1)
                started = times[0] - server.begin
                speed, first = load(server.port, model, clients, arguments.requests, arguments.prompt_tokens,
                                    arguments.tokens, arguments.vocabulary)
                result = results.setdefault((clients, name), {})
                for key, value in (("start_to_first_token_s", started), ("tokens_per_second", speed),
                                   ("time_to_first_token_s", statistics.median(first)),
                                   ("peak_memory_mb", server.peak_memory() / 1e6)):
                    result.setdefault(key, []).append(value)
                server.stop()
    for (clients, name), result in sorted(results.items()):
        text = ", ".join(f"{key} {statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"
                         for key, values in result.items())
        print(f"{clients:3} clients  {name:12}  {text}")


if __name__ == "__main__":
    main()
