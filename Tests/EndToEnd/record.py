"""Whether two builds answer alike: record.py OLD NEW [PATH-PART] [--answers]. Sends a corpus of good and bad bodies for every
operation that /openapi.json of OLD describes to both, and compares what they answer; errors must be equal to the byte.

The corpus follows from the document: the example of each operation, and from it bodies with each field left out, null, and
of every other type or beyond its bounds, pairs of such faults, unknown fields, and bodies that are no objects. Before it come
answers of every wire that generates, whole and streamed, event by event; with --answers these alone."""

import contextlib
import itertools
import json
import random
import re
import sys
import tempfile
import time

from editors_test import coder_model
from server import DEMO, ROOT, Server, expected

MODELS = ROOT / "Fixtures" / "models"
# Of each type, and values that are wrong for most fields of that type.
VALUES = [None, True, False, 0, 1, -1, 5, 2.5, -7.5, 10**12, 10**30, "", "x", "auto", [], ["x"], [1], [[1]], [{}], [None], {},
          {"a": 1}, {"type": "x"}, {"type": "auto"}]
# What a model generates takes time, and differs by the load of the machine; the same bodies find the same faults.
SKIPPED = ("/models/", "/api/pull", "/api/delete", "/metrics", "/debug", "/v1/batches", "/v1/messages/batches")


def neutral(text):
    """An answer without what is new in each: ids, times, and how long it took."""
    text = re.sub(rb"\b([a-z]+[-_])(?=[0-9A-Za-z]*[0-9A-Z])[0-9A-Za-z]{8,}\b", rb"\1ID", text)
    # The sealed items of a compaction hold ids.
    text = re.sub(rb'bWx4c2VydmU6Y29tcGFjdGlvb\w+[+/=\w]*', b"SEALED", text)
    # How many had come when an event was sent.
    text = re.sub(rb'("stop":false,"id_slot":0,"tokens_predicted":)\d+', rb"\g<1>0", text)
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


def answers(part):
    """Requests of every wire that generates, with what makes their answers differ, whole and streamed: path, body."""
    tools = expected("weather_call")["tools"]
    function = tools[0]["function"]
    weather, hello = expected("weather_call")["messages"], expected("hello")["messages"]
    yes, count = expected("yes")["messages"], expected("count")["messages"]
    custom = {"type": "custom", "custom": {"name": "run", "format": {"type": "grammar", "grammar": {
        "syntax": "regex", "definition": "[a-z]{3,9}"}}}}
    search = {"type": "file_search", "vector_store_ids": ["$STORE"]}
    chat = [
        {"messages": hello}, {"messages": yes, "max_tokens": 6}, {"messages": count, "reasoning_effort": "none", "stop": ["7"]},
        {"messages": yes, "logprobs": True, "top_logprobs": 2, "stream_options": {"include_usage": True}},
        {"messages": yes, "n": 3, "temperature": 1, "seed": 4, "return_token_ids": True, "prompt_logprobs": 1},
        {"messages": weather, "tools": tools}, {"messages": weather, "tools": tools, "max_tokens": 22, "foo": 1},
        {"messages": hello, "tools": tools, "tool_choice": "required", "n": 2, "max_tokens": 90},
        {"messages": hello, "tools": [custom], "tool_choice": "required", "store": True, "metadata": {"a": "b"}},
        {"messages": hello, "tools": [custom], "tool_choice": "required", "max_tokens": 12},
        {"messages": yes, "include_reasoning": False}, {"messages": hello, "response_format": {"type": "json_object"}},
        {"messages": [*hello, {"role": "assistant", "content": "Hel"}], "continue_final_message": True,
         "add_generation_prompt": False, "echo": True, "reasoning_effort": "none"},
        {"messages": hello, "tools": [search], "tool_choice": {"type": "file_search"}, "max_tokens": 120, "store": True},
    ]
    prompt = expected("completion")["prompt"]
    completions = [
        {"prompt": prompt}, {"prompt": [prompt, "1, 2,"], "n": 2, "seed": 3, "temperature": 1}, {"prompt": prompt, "max_tokens": 0},
        {"prompt": prompt, "echo": True, "logprobs": 2, "stream_options": {"include_usage": True}}, {"prompt": prompt, "stop": "Nor"},
        {"prompt": [2, 3, 4], "return_token_ids": True, "prompt_logprobs": 1, "echo": True},
        {"prompt": "a", "suffix": "b"}, {"prompt": "a", "suffix": "b", "model": "demo-coder"}, {"prompt": prompt, "foo": {}},
    ]
    blocks = [{"name": function["name"], "input_schema": function["parameters"]}]
    messages = [
        {"messages": hello}, {"messages": yes, "thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
        {"messages": yes, "thinking": {"type": "disabled"}}, {"messages": weather, "tools": blocks, "bar": 1},
        {"messages": hello, "tools": blocks, "tool_choice": {"type": "any"}}, {"messages": yes, "max_tokens": 4},
        {"messages": count, "stop_sequences": ["7"], "logprobs": True, "top_logprobs": 1},
        {"messages": weather, "tools": blocks, "max_tokens": 24},
    ]
    flat = [{"type": "function", **function}]
    text = weather[0]["content"]
    responses = [
        {"input": "Hello!"}, {"input": text, "tools": flat}, {"input": text, "tools": flat, "max_output_tokens": 22},
        {"input": yes, "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"], "store": False, "foo": 1},
        {"input": yes, "include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"input": yes, "max_output_tokens": 20},
        {"input": "Hello!", "tools": [{"type": "custom", **custom["custom"], "format": {
            "type": "grammar", "syntax": "regex", "definition": "[a-z]{3,9}"}}], "tool_choice": "required"},
        {"input": "Hello!", "tools": flat, "tool_choice": "required", "background": True, "stream": True},
        {"input": "What do I bring?", "tools": [search], "tool_choice": {"type": "file_search"}, "max_output_tokens": 150,
         "include": ["file_search_call.results"]},
        {"input": "Hello!", "tools": [{"type": "local_shell"}], "tool_choice": "required", "max_output_tokens": 60},
    ]
    short = {"num_predict": 60, "temperature": 0}
    ollama = [
        {"messages": hello}, {"messages": yes, "think": True, "options": short}, {"messages": yes, "think": False, "foo": 2},
        {"messages": weather, "tools": tools}, {"messages": yes, "options": {**short, "num_predict": 5}},
        {"messages": count, "think": False, "options": {**short, "stop": ["7"]}}, {"messages": hello, "format": "json"},
        {"messages": hello, "logprobs": True, "top_logprobs": 1}, {"messages": []}, {"messages": hello, "keep_alive": 0},
        {"messages": weather, "tools": tools, "options": {**short, "num_predict": 22}},
    ]
    generate = [
        {"prompt": "Hello!"}, {"prompt": prompt, "raw": True, "options": short}, {"prompt": "Hello!", "system": "x", "logprobs": True},
        {"prompt": "a", "suffix": "b"}, {"prompt": "a", "suffix": "b", "model": "demo-coder", "options": short}, {"prompt": ""},
        {"prompt": prompt, "raw": True, "options": {"num_predict": 0}},
    ]
    llama = [
        {"prompt": prompt}, {"prompt": [prompt, "1, 2,"], "n_predict": 5}, {"prompt": prompt, "n_probs": 2, "return_tokens": True},
        {"prompt": prompt, "stop": ["Nor"], "timings_per_token": True}, {"prompt": prompt, "n_predict": 0}, {"prompt": [2, "a"]},
        {"prompt": prompt, "response_fields": ["content", "stop_type"]}, {"prompt": prompt, "json_schema": {"type": "integer"}},
    ]
    infill = [
        {"input_prefix": "def f():\n", "input_suffix": "\n"}, {"input_prefix": "a", "input_suffix": "b", "prompt": "c", "n_indent": 1},
        {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "x.py", "text": "y"}], "n_predict": 8, "n_probs": 1},
        {"input_prefix": "a", "input_suffix": "b", "model": "demo"},
    ]
    for path, list_, more in [
        ("/v1/chat/completions", chat, {"max_tokens": 60, "temperature": 0}),
        ("/v1/completions", completions, {"max_tokens": 20, "temperature": 0}),
        ("/v1/messages", messages, {"max_tokens": 60, "temperature": 0}),
        ("/v1/responses", responses, {"max_output_tokens": 60, "temperature": 0}),
        ("/api/chat", ollama, {"options": short}), ("/api/generate", generate, {"options": short}),
        ("/completion", llama, {"n_predict": 20, "temperature": 0}),
        ("/infill", infill, {"n_predict": 20, "temperature": 0, "model": "demo-coder"}),
    ]:
        for body in list_ if part in path else ():
            for stream in ({"stream": False}, {"stream": True}):
                yield path, {"model": "demo", **more, **stream, **body}
    if part in "/v1/vector_stores":
        for body in [{"query": "goggles"}, {"query": ["tea", "snow"], "max_num_results": 1, "rewrite_query": True},
                     {"query": "tea", "filters": {"type": "eq", "key": "a", "value": "b"}}, {"query": "x", "foo": 1},
                     {"query": "tea", "ranking_options": {"ranker": "none", "score_threshold": 0.4}}, {}]:
            yield "/v1/vector_stores/$STORE/search", body
        for path, body in [
            ("", {"name": "x", "metadata": {"a": "b"}, "expires_after": {"anchor": "last_active_at", "days": 3}}),
            ("", {"expires_after": None}), ("/files/$FILE", {"attributes": {"a": "b", "c": 1, "d": True}}),
            ("/files/$FILE", {"attributes": {"a": []}}), ("/files", {"file_id": "$FILE"}), ("/files", {"file_id": "file-0"}),
            ("/file_batches", {"file_ids": ["$FILE"], "files": []}), ("/files", {"file_id": "$FILE", "chunking_strategy": {
                "type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 60}}}),
        ]:
            yield "/v1/vector_stores/$STORE" + path, body


def prepared(server):
    """Names of a file and of a vector store that has it."""
    form = ('--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--x\r\nContent-Disposition: form-data; '
            'name="file"; filename="alps.md"\r\n\r\nBring goggles and wax to the snow.\r\n--x--\r\n').encode()
    file = json.loads(server.post("/v1/files", form, ["Content-Type: multipart/form-data; boundary=x"])[2])["id"]
    store = json.loads(server.post("/v1/vector_stores", {"file_ids": [file]})[2])["id"]
    for _ in range(300):
        if json.loads(server.get("/v1/vector_stores/" + store)[2])["file_counts"]["completed"]:
            return {"$FILE": file, "$STORE": store}
        time.sleep(0.1)
    raise RuntimeError("the file is not indexed")


def ask(server, names, path, body):
    """Status, headers and neutral body, as events or lines where it is a stream; those of several choices in any order."""
    text = json.dumps(body)
    for name, value in names.items():
        path, text = path.replace(name, value), text.replace(name, value)
    status, headers, data = server.post(path, text.encode())
    for name in ("date", "x-request-id", "request-id", "content-length", "server-timing"):
        headers.pop(name, None)
    for name, value in names.items():
        data = data.replace(value.encode(), name.encode())
    data = neutral(data)
    kind = headers.get("content-type", "")
    parts = data.split(b"\n\n" if kind.startswith("text/event-stream") else b"\n" if "ndjson" in kind else b"\0")
    parts = [part for part in parts if not part.startswith(b": keep-alive")]
    several = isinstance(body, dict) and (body.get("n", 1) != 1 or isinstance(body.get("prompt"), list))
    return status, headers, sorted(parts) if several else parts


def main(old, new, part="", *options):
    flags = [f"--model={MODELS / name}" for name in ("encoder-tiny", "reranker-tiny")] + ["--max-answer", "4"]
    differences, count, errors = [], 0, 0
    with contextlib.ExitStack() as stack:
        flags.append(f"--model={coder_model(stack.enter_context(tempfile.TemporaryDirectory()))}")
        servers = [stack.enter_context(Server(binary, *flags)) for binary in (old, new)]
        names = [prepared(server) for server in servers]
        document = json.loads(servers[0].get("/openapi.json")[2])
        rest = [] if "--answers" in options else bodies(document, part)
        for path, body in itertools.chain(answers(part), rest):
            told = [ask(server, own, path, body) for server, own in zip(servers, names)]
            count += 1
            errors += told[0][0] >= 400
            if told[0] != told[1]:
                first = [pair for pair in itertools.zip_longest(told[0][2], told[1][2]) if pair[0] != pair[1]][:1]
                differences.append((path, json.dumps(body)[:300], *told[0][:2], *told[1][:2], *(first[0] if first else ())))
    for difference in differences[:40]:
        print(*difference, sep="\n  ")
    print(f"{count} bodies, {errors} errors, {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
