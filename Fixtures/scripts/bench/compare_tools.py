#!/usr/bin/env python3
"""How often the servers at some URLs call the right tools with the right arguments: compare_tools.py FILE URL [URL...]

FILE has a case on each line, as `mlxserve eval --tools` reads them (docs/convert.md). For the comparison to be fair the servers
serve one GGUF file, such as llama-server and mlxserve; `gguf-new-metadata --chat-template-file` gives a file a template with
tools. Every case is asked twice: with the model's free choice, and with a call required, which servers constrain.
"""

import json
import pathlib
import sys
import urllib.error
import urllib.request


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def ask(url, model, case, choice):
    tools = [tool if "function" in tool else {"type": "function", "function": tool} for tool in case["tools"]]
    body = {"model": model, "messages": [{"role": "user", "content": case["question"]}], "tools": tools, "tool_choice": choice,
            "temperature": 0, "max_tokens": 256, "chat_template_kwargs": {"enable_thinking": False}}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["choices"][0]["message"].get("tool_calls") or []


def is_same(a, b):
    if isinstance(a, str) and isinstance(b, str):
        return a.strip().rstrip(".").lower() == b.strip().rstrip(".").lower()
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[name], b[name]) for name in a)
    return a == b


def is_met(wanted, call):
    if call["function"]["name"] != wanted["name"]:
        return False
    try:
        given = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        return False
    return given.keys() <= wanted["arguments"].keys() and all(
        any(is_same(value, given.get(name)) for value in values) for name, values in wanted["arguments"].items())


def score(case, calls):
    """Whether these are the right tools, and whether their arguments are right, too."""
    names = sorted(call["function"]["name"] for call in calls)
    if names != sorted(call["name"] for call in case["calls"]):
        return False, False
    left = list(calls)
    for wanted in case["calls"]:
        place = next((index for index, call in enumerate(left) if is_met(wanted, call)), None)
        if place is None:
            return True, False
        del left[place]
    return True, True


def main(file, *urls):
    cases = [json.loads(line) for line in pathlib.Path(file).read_text().splitlines() if line]
    print(f"{'server':32} {'choice':9} right tool  and arguments  refused")
    for url in urls:
        model = get(url + "/v1/models")["data"][0]["id"]
        for choice in ("auto", "required"):
            asked = [case for case in cases if case["calls"] or choice == "auto"]
            right, refused = [0, 0], 0
            for case in asked:
                try:
                    found = score(case, ask(url, model, case, choice))
                except urllib.error.HTTPError:
                    refused += 1
                    continue
                right = [count + is_right for count, is_right in zip(right, found)]
            print(f"{url:32} {choice:9} {right[0]:3} of {len(asked):3}  {right[1]:3} of {len(asked):3}  {refused:7}", flush=True)


main(*sys.argv[1:])
