"""/openapi.json: a valid document, and real requests and answers that follow it."""

import json
import re

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from messages_test import TOOLS
from sdk_test import CAPITAL, WEATHER
from server import ROOT, parse

DOCUMENT = {}


def document(s):
    if not DOCUMENT:
        status, headers, data = s.get("/openapi.json")
        assert status == 200 and headers["content-type"] == "application/json"
        DOCUMENT.update(json.loads(data))
    return DOCUMENT


def problems(s, schema, value):
    whole = {**schema, "components": document(s)["components"]}
    return [f"{e.json_path}: {e.message[:300]}" for e in Draft202012Validator(whole).iter_errors(value)]


def exchange(s, method, path, body=None):
    """Sends a request that follows the document; the answer, or each event of it, has to follow it too."""
    pattern = next(
        p for p in sorted(document(s)["paths"], key=lambda p: "{" in p) if re.fullmatch(re.sub(r"{\w+}", "[^/]+", p), path))
    operation = document(s)["paths"][pattern][method]
    if method == "get":
        status, headers, data = s.get(path)
    elif method == "delete":
        status, headers, data = parse(
            s.raw(f"DELETE {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()))
    else:
        if body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            assert not (found := problems(s, schema, body)), f"request to {path}: {found}"
        status, headers, data = s.post(path, body)
    content = operation["responses"]["200" if status == 200 else "default"]["content"]
    kind = headers["content-type"].split(";")[0]
    values = [json.loads(data)] if kind == "application/json" else [
        json.loads(line.removeprefix("data: ")) for line in data.decode().splitlines()
        if line.startswith("data: ") and line != "data: [DONE]"]
    assert values
    for value in values:
        assert not (found := problems(s, content[kind]["schema"], value)), f"{method} {path}: {found} in {value}"
    return status, values


def test_the_document_is_valid(s):
    validate(document(s))


def responses_and_conversations(s):
    """Exchanges about things that the server keeps; the operations that they reach."""
    reached = set()

    def call(method, pattern, body=None, **ids):
        status, values = exchange(s, method, pattern.format(**ids), body)
        assert status == 200, (method, pattern, values)
        reached.add((method, pattern))
        return values

    base = {"model": s.model, "temperature": 0, "max_output_tokens": 200, "input": CAPITAL}
    tool = {"type": "function", **WEATHER["function"]}
    custom = {"type": "custom", "name": "raw", "format": {"type": "grammar", "syntax": "regex", "definition": "[ab]{3}"}}
    for extra in ({}, {"reasoning": {"effort": "none"}}, {"tools": [custom], "tool_choice": "required"}, {"input": "What is the weather in Paris?", "tools": [tool]},
                  {"tools": [{"type": "tool_search", "execution": "client"}], "tool_choice": "required"},
                  {"include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "top_logprobs": 1}):
        call("post", "/v1/responses", {**base, **extra, "stream": True})
        response = call("post", "/v1/responses", {**base, **extra})[0]
    call("get", "/v1/responses/{id}", id=response["id"])
    call("get", "/v1/responses/{id}/input_items", id=response["id"])
    call("delete", "/v1/responses/{id}", id=response["id"])
    call("post", "/v1/responses/{id}/cancel", id=call("post", "/v1/responses", {**base, "background": True})[0]["id"])
    call("post", "/v1/responses/input_tokens", {"model": s.model, "input": CAPITAL})
    call("post", "/v1/responses/compact", {"model": s.model, "input": CAPITAL})
    item = {"role": "user", "content": "My name is Alice."}
    one = call("post", "/v1/conversations", {"metadata": {"a": "b"}, "items": [item]})[0]["id"]
    call("get", "/v1/conversations/{id}", id=one)
    call("post", "/v1/conversations/{id}", {"metadata": {}}, id=one)
    items = call("post", "/v1/conversations/{id}/items", {"items": [item]}, id=one)[0]["data"]
    call("get", "/v1/conversations/{id}/items", id=one)
    call("get", "/v1/conversations/{id}/items/{item}", id=one, item=items[0]["id"])
    call("delete", "/v1/conversations/{id}/items/{item}", id=one, item=items[0]["id"])
    call("delete", "/v1/conversations/{id}", id=one)
    kept = call("post", "/v1/chat/completions", {
        "model": s.model, "messages": [item], "max_tokens": 5, "store": True, "metadata": {"a": "b"}})[0]["id"]
    signed = call("post", "/v1/chat/completions", {"model": s.model, "messages": [item], "max_tokens": 5, "receipt": True})[0]
    call("post", "/v1/receipts/verify", {"receipt": signed["choices"][0]["receipt"]})
    call("get", "/v1/chat/completions")
    call("get", "/v1/chat/completions/{id}", id=kept)
    call("post", "/v1/chat/completions/{id}", {"metadata": {"c": "d"}}, id=kept)
    call("get", "/v1/chat/completions/{id}/messages", id=kept)
    call("delete", "/v1/chat/completions/{id}", id=kept)
    return reached


def test_real_requests_and_answers_follow_the_document(s):
    user = [{"role": "user", "content": CAPITAL}]
    weather = [{"role": "user", "content": "What is the weather in Paris?"}]
    chat = {"model": s.model, "messages": user, "temperature": 0, "max_tokens": 60}
    text = {"model": s.model, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 4}
    message = {"model": s.model, "messages": user, "temperature": 0, "max_tokens": 300}
    tools = {"messages": weather, "tools": [WEATHER], "max_tokens": 200}
    cases = [
        ("get", "/health"), ("get", "/ready"), ("get", "/readyz"), ("get", "/livez"), ("get", "/openapi.json"), ("get", "/v1/models"), ("get", f"/v1/models/{s.model}"),
        ("get", "/version"), ("get", "/tokenizer_info"), ("get", "/props"), ("get", "/slots"),
        ("get", "/models"), ("post", "/models/load", {"model": s.model}),
        ("get", "/v1/capabilities"), ("get", "/debug/prompts"),
        *[("post", "/v1/chat/completions", {**chat, **extra, **stream})
          for extra in ({}, {"logprobs": True, "top_logprobs": 2, "reasoning_effort": "none"}, {"n": 2, "seed": None}, tools,
                        {"return_token_ids": True, "tools": [{"type": "web_search"}]})
          for stream in ({}, {"stream": True, "stream_options": {"include_usage": True}})],
        *[("post", "/v1/completions", {**text, **extra, **stream})
          for extra in ({}, {"logprobs": 2, "echo": True}, {"prompt": [[1, 2], [3]]}, {"return_token_ids": True})
          for stream in ({}, {"stream": True, "stream_options": {"include_usage": True}})],
        *[("post", "/v1/messages", {**message, **extra, "stream": stream})
          for extra in ({}, {"thinking": {"type": "adaptive"}}, {"messages": weather, "tools": TOOLS},
                        {"stop_sequences": ["capital"]}, {"logprobs": True, "top_logprobs": 1})
          for stream in (False, True)],
        ("post", "/v1/chat/completions", {**chat, "prompt_logprobs": 2}),
        ("post", "/v1/completions", {**text, "prompt_logprobs": 2}),
        ("post", "/v1/messages/count_tokens", {"model": s.model, "messages": user}),
        ("post", "/v1/chat/completions/input_tokens", chat),
        ("post", "/tokenize", {"content": "héé", "with_pieces": True}),
        ("post", "/tokenize", {"prompt": "x", "return_token_strs": True}),
        ("post", "/tokenize", {"messages": user}),
        ("post", "/detokenize", {"tokens": [1, 2]}),
        ("post", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ("post", "/apply-template", {"messages": user}),
    ]
    reached = set()
    for case in cases:
        status, _ = exchange(s, *case)
        assert status == 200, case
        reached.add(case[:2])
    # Conversations in all their forms.
    call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'}}
    exchange(s, "post", "/v1/chat/completions", {**chat, "tools": [WEATHER], "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, *weather,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"}]})
    exchange(s, "post", "/v1/messages", {**message, "tools": TOOLS, "messages": [
        *weather, {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]}]})
    reached |= responses_and_conversations(s)
    every = {(method, path) for path, item in document(s)["paths"].items() for method in item}
    # An upgrade to a WebSocket has no JSON, and neither have metrics; models_test unloads models, follows them and has names
    # with a slash; embeddings_test has a model that makes vectors, transcriptions_test one that listens.
    elsewhere = {("get", "/v1/responses"), ("get", "/metrics"), ("get", "/models/sse"), ("post", "/models/unload"), ("post", "/models/pull"), ("post", "/v1/embeddings"), ("post", "/embeddings"),
                 ("get", "/v1/models/{owner}/{name}"), ("post", "/v1/audio/transcriptions"), ("post", "/v1/audio/translations")}
    # vector_stores_test has a model for them, and sends forms; batches_test has files and waits for answers; mcp_tools_test has
    # servers of tools.
    stores = ("/v1/mcp/servers", "/v1/files", "/v1/uploads", "/v1/vector_stores", "/v1/batches", "/v1/messages/batches")
    every = {(m, p) for m, p in every if not p.startswith(stores)}
    missing = {(m, p) for m, p in every if (m, p.replace("models/{id}", f"models/{s.model}")) not in reached}
    # rerank_test has models that score, and that make vectors.
    scores = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score", "/embed", "/predict", "/similarity", "/decode", "/info")
    missing = {(method, path) for method, path in missing if not path.startswith(scores)}
    # Ollama's API is asked in ollama_test, those of editors in editors_test.
    editors = ("/api/", "/infill", "/completion")
    missing = {(method, path) for method, path in missing if not path.startswith(editors)}
    assert missing <= elsewhere, missing
    return f"{len(cases)} exchanges"


def test_errors_follow_the_document(s):
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/detokenize"):
        body = {"model": "nope", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "max_tokens": 1, "tokens": []}
        status, _ = exchange(s, "post", path, body)
        assert status == 404, path


def rows(heading):
    """Name, treatment and example of each row of a table of docs/api.md."""
    section = (ROOT / "docs" / "api.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| `(.+?)` \|", section, re.MULTILINE)
    assert len(found) > 5, heading
    return found


def test_documented_examples_follow_the_document(s):
    user = [{"role": "user", "content": "x"}]
    needed = {
        "Chat completions": ("ChatRequest", {"model": "m", "messages": user}),
        "Completions": ("CompletionRequest", {"model": "m", "prompt": "x"}),
        "Messages": ("MessagesRequest", {"model": "m", "messages": user, "max_tokens": 5}),
        "Tokens and prompts": ("TokenizeRequest", {"messages": user}),
    }
    # Exactly one of these is given.
    texts = {"content", "prompt", "messages"}
    for heading, (name, body) in needed.items():
        schema = document(s)["components"]["schemas"][name]
        for field, treatment, example in rows(heading):
            base = {} if name == "TokenizeRequest" and field in texts else body
            if field == "top_logprobs" and name != "CompletionRequest":
                base = {**base, "logprobs": True}
            if field == "stream_options":
                base = {**base, "stream": True}
            found = problems(s, schema, {**base, field: json.loads(example)})
            assert bool(found) == (treatment == "refused"), f"{heading} {field}: {found}"


def test_examples_of_bodies_follow_their_schemas_and_are_taken(s):
    taken = 0
    for path, item in document(s)["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if not content:
                continue
            assert not (found := problems(s, content["schema"], content["example"])), (method, path, found)
            if path in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/tokenize", "/api/chat"):
                status, _, text = s.post(path, {**content["example"], **({"model": s.model} if path != "/tokenize" else {})})
                assert status == 200, (path, text)
                taken += 1
    assert taken == 6, taken


def test_what_the_server_refuses_does_not_follow_the_document(s):
    user = [{"role": "user", "content": "x"}]
    chat, message = {"model": s.model, "messages": user}, {"model": s.model, "messages": user, "max_tokens": 5}
    cases = [
        ("/v1/chat/completions", "ChatRequest", {**chat, "temperature": 3}),
        ("/v1/chat/completions", "ChatRequest", {**chat, "n": 999}),
        ("/v1/chat/completions", "ChatRequest", {**chat, "stop": [""]}),
        ("/v1/chat/completions", "ChatRequest", {**chat, "messages": []}),
        ("/v1/chat/completions", "ChatRequest", {**chat, "messages": [{"role": "robot", "content": "x"}]}),
        ("/v1/chat/completions", "ChatRequest", {"messages": user}),
        ("/v1/completions", "CompletionRequest", {"model": s.model, "prompt": [True]}),
        ("/v1/messages", "MessagesRequest", {"model": s.model, "messages": user}),
        ("/v1/messages", "MessagesRequest", {**message, "tools": [{"name": "f"}]}),
        ("/v1/messages", "MessagesRequest", {**message, "messages": [{"role": "user", "content": [{"type": "image"}]}]}),
        ("/detokenize", "DetokenizeRequest", {"tokens": ["x"]}),
    ]
    for path, name, body in cases:
        assert s.post(path, body)[0] == 400, body
        assert problems(s, document(s)["components"]["schemas"][name], body), body
