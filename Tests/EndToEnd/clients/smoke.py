"""What the scripts of the clients share: the server under test, what it can do, and how tests are counted."""

import asyncio
import inspect
import json
import os
import sys
import time
import traceback
import urllib.request

from serving import MODELS, serving

URL = os.environ["MLXSERVE_URL"]
"""The base URL, with /v1 at its end."""

with urllib.request.urlopen(URL + "/capabilities", timeout=60) as answer:
    CAPABILITIES = json.load(answer)["data"][0]
MODEL = CAPABILITIES["id"]

FEATURES = {
    "strict tools": CAPABILITIES["tools"]["strict"],
    "forced tools": "function" in CAPABILITIES["tools"]["choices"],
    "json_schema": CAPABILITIES["structured_output"]["json_schema"],
    "responses": "POST /v1/responses" in CAPABILITIES["endpoints"],
}

CAPITAL = "What is the capital of France?"
WEATHER = "What is the weather in Paris?"
PERSON = "Reply with a JSON object with name and age."
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}
"""A tool that the demo model was trained with."""

SUNNY = "sunny, 21 degrees"

TEXTS = ["the cat sat on a mat", "who stole the tarts"]


def served(name):
    """A server of its own with another model of the fixtures."""
    return serving(os.environ["MLXSERVE_BINARY"], "--model", MODELS / name)


def vectors(url):
    """Those of TEXTS, without a client."""
    body = json.dumps({"input": TEXTS}).encode()
    request = urllib.request.Request(url + "/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [entry["embedding"] for entry in json.load(answer)["data"]]


def same(found, expected):
    return len(found) == len(expected) and all(
        len(a) == len(b) and all(abs(x - y) < 1e-6 for x, y in zip(a, b)) for a, b in zip(found, expected))


_tests = []


def test(*needs):
    """Counts a function as a test. It waits while the server lacks a feature that it needs."""

    def add(function):
        _tests.append((function, [need for need in needs if not FEATURES[need]]))
        return function

    return add


def check(condition, *found):
    if not condition:
        raise AssertionError(f"found {found!r}")


def main(client):
    """Runs all tests of the script; exits with 1 unless all that could run have passed."""
    failed = 0
    # One for all tests: some clients keep connections between them.
    loop = asyncio.new_event_loop()
    for function, missing in _tests:
        name = f"{client}.{function.__name__}"
        if missing:
            print(f"WAITS {name}: the server has no {', '.join(missing)} yet", flush=True)
            continue
        begin = time.monotonic()
        try:
            result = function()
            if inspect.isawaitable(result):
                loop.run_until_complete(result)
            print(f"ok    {name} ({time.monotonic() - begin:.2f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    sys.exit(1 if failed or not _tests else 0)
