"""Whether two builds answer alike: record.py OLD NEW [PATH-PART]. Sends a corpus of good and bad bodies for every operation
that /openapi.json of OLD describes to both, and compares what they answer; errors must be equal to the byte.

The corpus follows from the document: the example of each operation, and from it bodies with each field left out, null, and
of every other type or beyond its bounds, pairs of such faults, unknown fields, and bodies that are no objects."""

import itertools
import json
import random
import re
import sys

from server import DEMO, ROOT, Server

MODELS = ROOT / "Fixtures" / "models"
# Of each type, and values that are wrong for most fields of that type.
VALUES = [None, True, False, 0, 1, -1, 5, 2.5, -7.5, 10**12, 10**30, "", "x", "auto", [], ["x"], [1], [[1]], [{}], [None], {},
          {"a": 1}, {"type": "x"}, {"type": "auto"}]
# What a model generates takes time, and differs by the load of the machine; the same bodies find the same faults.
SKIPPED = ("/models/", "/api/pull", "/api/delete", "/metrics", "/debug", "/v1/batches", "/v1/messages/batches")


def neutral(text):
    """An answer without what is new in each: ids, times, and how long it took."""
    text = re.sub(rb'\b(chatcmpl|cmpl|resp|msg|rs|fc|call|conv|vs|vsfb|file|upload|part|batch|rerank|score|toolu|msgbatch|req)[-_]\w+', b"ID", text)
    text = re.sub(rb'"(created\w*|\w*_at|\w*duration|\w*_ms|\w*per_second\w*|system_fingerprint|timings|expires_\w+|last_active_at)":\s*("[^"]*"|[-\d.e+]+|{[^}]*})', rb'"\1":0', text)
    return re.sub(rb"-\d{4,}Z|\d{4}-\d\d-\d\dT[\d:.]+Z", b"TIME", text)


def names(schema, document):
    """All property names of a schema at its top."""
    if "$ref" in schema:
        return names(document["components"]["schemas"][schema["$ref"].split("/")[-1]], document)
    found = list(schema.get("properties", {}))
    for part in schema.get("anyOf", []) + schema.get("allOf", []):
        found += [name for name in names(part, document) if name not in found]
    return found


def corpus(example, fields):
    """Bodies around an example, shortest first."""
    yield example
    for value in (None, [], "x", 1, True, {}):
        yield value
    yield {**example, "foo": 1, "bar": None, "baz": []}
    for name in fields:
        yield {key: value for key, value in example.items() if key != name}
        for value in VALUES:
            yield {**example, name: value}
    # What is wrong in two places: the first in reading order is told.
    order = random.Random(1)
    pairs = list(itertools.combinations(fields, 2))
    for first, second in order.sample(pairs, min(len(pairs), 300)):
        yield {**example, first: order.choice(VALUES), second: order.choice(VALUES)}


def bodies(document, part):
    for path, item in document["paths"].items():
        if "post" not in item or path.startswith(SKIPPED) or part not in path:
            continue
        content = item["post"].get("requestBody", {}).get("content", {}).get("application/json")
        if not content:
            continue
        fields = names(content["schema"], document)
        example = {key: value for key, value in content["example"].items() if key != "model"}
        for name in ("max_tokens", "n_predict", "max_output_tokens"):
            if name in fields and name not in example:
                example[name] = 2
        if path.startswith("/api/") and "options" in fields:
            example["options"] = {"num_predict": 2}
        for body in corpus(example, fields):
            if isinstance(body, dict) and "model" in fields and "model" not in body and path not in ("/similarity",):
                # The encoder and the reranker are found by their routes.
                named = "demo" if not re.search("embed|rerank|score|predict|similar", path) else None
                if named and random.Random(json.dumps(body)).random() < 0.95:
                    body = {**body, "model": named}
            # Many tokens take long, and say nothing of a reader.
            if isinstance(body, dict) and any(body.get(key) in (10**12, 10**30, None, -1) and key in body and "token" in key + str(body.get(key))
                                              for key in ("max_tokens", "max_output_tokens", "max_completion_tokens")):
                body = {**body, "stop": ["e", " "]} if "stop" in fields and "stop" not in body else body
            yield re.sub("{[^}]*}", "none", path), body


def main(old, new, part=""):
    flags = [f"--model={MODELS / name}" for name in ("encoder-tiny", "reranker-tiny")] + ["--max-answer", "4"]
    differences, count, errors = [], 0, 0
    with Server(old, *flags) as first, Server(new, *flags) as second:
        document = json.loads(first.get("/openapi.json")[2])
        for path, body in bodies(document, part):
            answers = [server.post(path, body) for server in (first, second)]
            (status, headers, data), (status2, headers2, data2) = answers
            count += 1
            errors += status >= 400
            same = status == status2 and headers.get("x-mlxserve-ignored") == headers2.get("x-mlxserve-ignored")
            if same and status >= 400:
                same = data == data2 or neutral(data) == neutral(data2)
            elif same:
                same = neutral(data) == neutral(data2)
            if not same:
                differences.append((path, json.dumps(body)[:300], status, data[:300], status2, data2[:300],
                                    headers.get("x-mlxserve-ignored"), headers2.get("x-mlxserve-ignored")))
    for difference in differences[:40]:
        print(*difference, sep="\n  ")
    print(f"{count} bodies, {errors} errors, {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
