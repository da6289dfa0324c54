"""Parameters. Every field with every wrong value is in wire_test.test_the_corpus_of_bad_requests."""

import itertools
import json
import math
import socket
import threading
import time

from reliability.watch import CHAT, answered, body, code_of, text_of


def refusal(s, content, path=CHAT):
    status, headers, data = answered(s, path, content)
    assert status in (400, 404), (status, data[:300])
    error = json.loads(data)["error"]
    return error["code"], error["param"]


def test_counts_out_of_range_are_refused(s):
    for n in (0, -1, 129, 16_384, 1_000_000, 2**63, 2**64):
        begin = time.monotonic()
        assert refusal(s, body(s, n=n))[1] == "n"
        assert time.monotonic() - begin < 0.5
    # Beyond the context a limit is the context.
    assert answered(s, CHAT, body(s, max_tokens=2**63 - 1))[0] == 200
    assert refusal(s, body(s, max_tokens=2**63))[1] == "max_tokens"


def test_overlong_and_malformed_lists_are_refused(s):
    for bias in ({str(i): 1 for i in range(1025)}, {str(i): 0 for i in range(300_000)}, {"-1": 1}, {"\u0663": 1},
                 {"100000": 1}, {"1": 101}):
        assert refusal(s, body(s, logit_bias=bias))[1].startswith("logit_bias")
    data = json.dumps(body(s, logit_bias={"1": 12345})).replace("12345", "1e400").encode()
    assert refusal(s, data)[0] in ("invalid_json", "decimal_above_max_value", "invalid_value")
    for stop in (["x"] * 17, ["x"] * 10_000, ["x" * (1 << 20)], [1], {"a": 1}):
        assert refusal(s, body(s, stop=stop))[1].startswith("stop")
    assert answered(s, CHAT, body(s, stop=[""]))[0] in (200, 400)
    assert refusal(s, body(s, logprobs=True, top_logprobs=21))[1] == "top_logprobs"
    assert refusal(s, body(s, top_logprobs=2))[1] in ("top_logprobs", "logprobs")


def test_small_temperatures_and_seeds(s):
    expected = text_of(answered(s, CHAT, body(s)))
    for temperature in ("1e-400", "0", "-0.0", "1e-300", "0.0e5"):
        data = json.dumps({**body(s), "temperature": 5.5}).replace("5.5", temperature).encode()
        assert text_of(answered(s, CHAT, data)) == expected, temperature
    for seed in (-1, 0, 2**63 - 1):
        assert answered(s, CHAT, body(s, seed=seed, max_tokens=1))[0] == 200, seed
    assert refusal(s, body(s, seed=2**64))[1] == "seed"


def test_messages_of_nothing_and_of_too_much(s):
    for messages in ([], None, [None], [{"role": "user", "content": "x"}] * 100_000):
        begin = time.monotonic()
        assert refusal(s, {**body(s), "messages": messages})[1].startswith("messages")
        assert time.monotonic() - begin < 3
    for content in ("", "<|im_end|>", "<|im_start|><|im_end|>", "\u200b", " "):
        assert answered(s, CHAT, body(s, content, max_tokens=2))[0] in (200, 400)


def test_sampling_parameters_in_pairs(s):
    ends = {
        "temperature": (0.01, 2), "top_p": (0, 1), "top_k": (1, 1000), "min_p": (0, 1), "repetition_penalty": (0.01, 10),
        "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2), "seed": (0, 2**62), "min_tokens": (1, 3),
        "logit_bias": ({"5": -100}, {"5": 100}),
    }
    singles = [{name: value} for name, values in ends.items() for value in values]
    pairs = [{a: x, b: y} for a, b in itertools.combinations(ends, 2) for x, y in itertools.product(ends[a], ends[b])]
    # Every pair once; its four corners are spread over the pairs.
    chosen = singles + [pair for index, pair in enumerate(pairs) if index % 4 == index // 4 % 4]
    for options in chosen:
        content = body(s, max_tokens=3, logprobs=True, top_logprobs=2)
        status, _, data = answered(s, CHAT, {**content, **options})
        assert status == 200, (options, data[:200])
        for entry in json.loads(data)["choices"][0]["logprobs"]["content"]:
            assert math.isfinite(entry["logprob"]) and entry["logprob"] <= 0, (options, entry)
    return f"{len(chosen)} requests"


def test_unknown_fields_are_named_on_every_route(s):
    message = {"messages": [{"role": "user", "content": "a"}]}
    model, ollama = {"model": s.model}, {"model": s.model, "stream": False, "options": {"num_predict": 1}}
    routes = {
        CHAT: {**model, **message, "max_tokens": 1}, "/v1/completions": {**model, "prompt": "a", "max_tokens": 1},
        "/v1/responses": {**model, "input": "a", "max_output_tokens": 16},
        "/v1/responses/input_tokens": {**model, "input": "a"}, "/v1/conversations": {},
        "/v1/messages": {**model, **message, "max_tokens": 1}, "/v1/messages/count_tokens": {**model, **message},
        "/tokenize": {"content": "a"}, "/detokenize": {"tokens": [5]}, "/apply-template": message,
        "/completion": {"prompt": "a", "n_predict": 1}, "/api/chat": {**ollama, **message},
        "/api/generate": {**ollama, "prompt": "a"}, "/v1/vector_stores": {"name": "a"},
        "/v1/uploads": {"bytes": 1, "filename": "a", "mime_type": "text/plain", "purpose": "assistants"},
    }
    for route, request in routes.items():
        status, headers, data = answered(s, route, {**request, "nobody_knows": [{}]})
        assert status == 200, (route, data[:200])
        assert headers["x-mlxserve-ignored"] == "nobody_knows", (route, headers)
    return f"{len(routes)} routes"


def test_unknown_models_are_refused(s):
    for model in ("nope", "../../etc/passwd", "a\0b", "/" * 4000, s.model + "\0", s.model.upper()):
        assert code_of(answered(s, CHAT, {**body(s), "model": model})) == (404, "model_not_found"), model


def test_the_template_is_the_servers(s):
    assert refusal(s, body(s, chat_template="x"))[1] == "chat_template"
    for kwargs in ({"messages": []}, {"tokenize": True, "messages": []}, {"add_generation_prompt": False},
                   {"bos_token": "x"}, {"tools": []}, {"a": "x" * (1 << 20)}, [], "x"):
        assert refusal(s, body(s, chat_template_kwargs=kwargs))[1].startswith("chat_template_kwargs"), kwargs


def test_the_server_calls_nobody(s):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.3)
    heard = []

    def listen():
        try:
            heard.append(listener.accept())
        except TimeoutError:
            pass

    thread = threading.Thread(target=listen)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x.png"
    for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "image_url", "image_url": url},
                 {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
                 {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}},
                 {"type": "file", "file": {"file_url": url}}):
        assert refusal(s, body(s, [{"role": "user", "content": [part]}]))[1].startswith("messages")
    assert refusal(s, {"model": s.model, "prompt": "x", "prompt_embeds": "AA=="}, "/v1/completions")[1] == "prompt_embeds"
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": url}}}
    assert refusal(s, body(s, response_format=schema))[1].startswith("response_format")
    thread.join()
    listener.close()
    assert not heard


def test_ids_of_responses(s):
    for name in ("nope", "../../../etc/passwd", "resp_../x", "x" * (1 << 20), "a\0b"):
        content = {"model": s.model, "input": "x", "previous_response_id": name}
        assert code_of(answered(s, "/v1/responses", content))[0] in (400, 404)
    for path in ("/v1/responses/..%2f..%2fetc%2fpasswd", "/v1/responses/%00"):
        assert s.get(path)[0] in (400, 404)


def test_bad_tools_are_refused(s):
    def tools(*names):
        return [{"type": "function", "function": {"name": name}} for name in names]

    assert refusal(s, body(s, tools=tools("a"), tool_choice={"type": "function", "function": {"name": "b"}}))
    begin = time.monotonic()
    assert refusal(s, body(s, tools=tools(*(f"f{i}" for i in range(10_000)))))[1] == "tools"
    assert time.monotonic() - begin < 3
    for names in (("a", "a"), ("",), ("a b",), ("\u00e9",)):
        assert refusal(s, body(s, tools=tools(*names)))[1].startswith("tools")
    # A tool of a type that nobody here runs is left out and named (agents_test); one without a type, or a name, is bad.
    for more in ({"input": [{"type": "no_such_item"}]}, {"tools": [{"name": "f"}]}, {"tools": [{"type": "function"}]},
                 {"background": True, "store": False}):
        code, param = refusal(s, {"model": s.model, "input": "x", **more}, "/v1/responses")
        assert param, (more, code)
