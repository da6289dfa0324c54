"""Ollama's API, with the ollama package as its client and by raw requests."""

import base64
import json
import re
import time
import urllib.error
import urllib.request

import ollama

import hub_test
from server import ROOT, Server

QUESTION = [{"role": "user", "content": "Is Paris in France? Answer Yes or No."}]
GREEDY = {"temperature": 0, "num_predict": 8}


def client(server):
    return ollama.Client(host=f"http://127.0.0.1:{server.port}")


def send(server, method, path, body=None):
    """Status, headers and text of a raw request."""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def chat(server, **more):
    return send(server, "POST", "/api/chat", {"model": "demo", "messages": QUESTION, "options": GREEDY, **more})


def test_version_tags_and_ps(server):
    status, _, text = send(server, "GET", "/api/version")
    assert status == 200 and all(part.isdigit() for part in json.loads(text)["version"].split("."))
    model = client(server).list().models[0]
    assert model.model == "demo:latest" and model.size > 0 and len(model.digest) == 64 and model.modified_at
    for part in ("parent_model", "format", "family", "families", "parameter_size", "quantization_level"):
        assert getattr(model.details, part) is not None, part
    running = client(server).ps().models[0]
    assert running.model == "demo:latest" and running.expires_at and running.context_length > 0
    for path in ("/api/version", "/api/tags"):
        assert send(server, "HEAD", path)[::2] == (200, "")


def test_show(server):
    for body in ({"model": "demo"}, {"name": "demo"}, {"model": "demo:latest"}, {"model": "Demo"}):
        status, _, text = send(server, "POST", "/api/show", body)
        assert status == 200, text
        shown = json.loads(text)
        assert shown["model_info"][shown["model_info"]["general.architecture"] + ".context_length"] > 0
        assert all(re.match(r'^\S+\s+(".*"|\S+)$', line) for line in shown["parameters"].splitlines())
        assert set(shown["capabilities"]) <= {"completion", "tools", "insert", "vision", "embedding", "thinking", "audio"}
    assert client(server).show("demo").modelinfo
    assert send(server, "POST", "/api/show", {"model": "nobody"})[0] == 404
    assert send(server, "POST", "/api/show", {})[0] == 400


def test_a_stream_is_lines_that_make_the_whole(server):
    status, headers, text = chat(server, think=False)
    assert status == 200 and headers["content-type"] == "application/x-ndjson"
    lines = text.split("\n")
    assert lines.pop() == "" and all(lines)
    parts = [json.loads(line) for line in lines]
    assert all(part["message"]["role"] == "assistant" and "content" in part["message"] for part in parts)
    last = parts[-1]
    assert last["done"] and last["message"]["content"] == "" and last["done_reason"] in ("stop", "length")
    counts = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration")
    assert all(isinstance(last[name], int) and last[name] > 0 for name in counts), last
    assert last["eval_duration"] <= last["total_duration"]
    whole = json.loads(chat(server, think=False, stream=False)[2])
    assert whole["done"] and whole["message"]["content"] == "".join(part["message"]["content"] for part in parts)
    openai = server.client.chat.completions.create(
        model="demo", messages=QUESTION, temperature=0, max_tokens=8, extra_body={"thinking": False})
    assert openai.choices[0].message.content == whole["message"]["content"]


def test_names_and_bodies(server):
    for name, expected in (("demo", 200), ("DEMO", 200), ("demo:latest", 200), ("demo:other", 404), ("x", 404)):
        status, _, text = send(server, "POST", "/api/chat", {"model": name, "messages": [], "stream": False})
        assert status == expected and ("error" in json.loads(text)) == (expected != 200), (name, text)
    for body in (b"", b"{", b"[]", b"[" * 100_000, {"messages": QUESTION}, {"model": ""}):
        status, _, text = send(server, "POST", "/api/chat", body)
        assert status == 400 and isinstance(json.loads(text)["error"], str), (body[:20], text)


def test_loading_and_keep_alive(server):
    for value in (1800, "30m", "1h30m", -1, "-1s", 5):
        status, _, text = send(server, "POST", "/api/generate", {"model": "demo", "keep_alive": value})
        assert status == 200 and json.loads(text)["done_reason"] == "load", text
    for value in ("5", {}, "soon"):
        assert send(server, "POST", "/api/generate", {"model": "demo", "keep_alive": value})[0] == 400
    answer = json.loads(send(server, "POST", "/api/chat", {"model": "demo", "messages": [], "keep_alive": 0})[2])
    assert answer["done_reason"] == "unload" and answer["message"] == {"role": "assistant", "content": ""}
    # It comes back for the next one.
    assert chat(server, stream=False, keep_alive=-1)[0] == 200


def test_thinking(server):
    for think, expected in ((None, 200), (True, 200), (False, 200), ("low", 200), ("huge", 400)):
        body = {} if think is None else {"think": think}
        status, _, text = chat(server, stream=False, options={"temperature": 0, "num_predict": 60}, **body)
        assert status == expected, text
        if status == 200:
            message = json.loads(text)["message"]
            assert "<think>" not in json.dumps(message)
            assert ("thinking" in message) <= (think is not False)


def test_options(server):
    assert json.loads(chat(server, stream=False, options={"num_predict": 1})[2])["eval_count"] == 1
    nothing = json.loads(chat(server, stream=False, options={"num_predict": 0})[2])
    assert nothing["message"]["content"] == "" and nothing["done_reason"] == "length"
    status, _, text = chat(server, options={"top_k": "many"})
    assert status == 400 and json.loads(text)["error"] == 'option "top_k" must be of type integer'
    status, headers, _ = chat(server, stream=False, options={"top_k": 40.0, "num_gpu": 1, "mirostat": 2, "colour": 1, "seed": None, "num_predict": 2})
    assert status == 200 and headers["x-mlxserve-ignored"] == "options.mirostat, options.colour", headers
    texts = {chat(server, stream=False, options={"seed": 7, "temperature": 1, "num_predict": 12})[2].split('"message"')[1].split('"done"')[0]
             for _ in range(3)}
    assert len(texts) == 1, texts


def test_old_messages_give_way(server):
    history = [{"role": "system", "content": "Be brief."}]
    for turn in range(30):
        history += [{"role": "user", "content": f"Question {turn}: why is the sky blue?"},
                    {"role": "assistant", "content": "Because of scattering."}]
    history += QUESTION
    options = {"num_ctx": 200, "num_predict": 2}
    status, headers, text = chat(server, messages=history, options=options, stream=False, think=False)
    assert status == 200 and re.match(r"messages=\d+$", headers["x-mlxserve-truncated"]), text
    assert json.loads(text)["prompt_eval_count"] < 200
    status, _, text = chat(server, messages=history, options=options, truncate=False)
    assert status == 400 and "context length" in text
    status, _, text = chat(server, messages=[{"role": "user", "content": "word " * 3000}], options=options)
    assert status == 400 and "context length" in text


def test_formats(server):
    for format in ("json", {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}):
        answer = json.loads(chat(server, stream=False, think=False, format=format, options={"temperature": 0})[2])
        value = json.loads(answer["message"]["content"])
        assert isinstance(value, dict) and (format == "json" or isinstance(value["yes"], bool))
    assert chat(server, format="", stream=False)[0] == 200
    assert chat(server, format="xml")[0] == 400
    assert chat(server, format={"type": "nonsense"})[0] == 400


def test_tools(server):
    tools = [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
    turns = QUESTION + [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
        {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]}]
    counts = set()
    for first, second in (({}, {}), ({"tool_name": "weather"}, {"tool_name": "weather"}), ({"tool_call_id": "call_1"}, {"tool_call_id": "call_2"})):
        results = [{"role": "tool", "content": "sunny", **first}, {"role": "tool", "content": "rain", **second}]
        status, _, text = chat(server, messages=turns + results, tools=tools, stream=False, think=False)
        assert status == 200, text
        counts.add(json.loads(text)["prompt_eval_count"])
    assert len(counts) == 1, counts
    assert chat(server, tools=[], stream=False)[0] == 200
    assert chat(server, messages=[{"role": "tool", "content": "x"}])[0] == 400


def test_generate(server):
    for body in ({}, {"system": "Be brief."}, {"raw": True}):
        status, _, text = send(server, "POST", "/api/generate", {
            "model": "demo", "prompt": "Is Paris in France?", "stream": False, "options": GREEDY, **body})
        assert status == 200 and "response" in json.loads(text), text
    for body in ({"raw": True, "system": "x"}, {"template": "{{ .Prompt }}"}, {"context": [1, 2]}, {"suffix": "x"}):
        assert send(server, "POST", "/api/generate", {"model": "demo", "prompt": "x", **body})[0] == 400, body


def test_images_and_logprobs(server):
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
    for image in (picture, "data:image/png;base64," + picture, "!!!"):
        message = {"role": "user", "content": "What is it?", "images": [image]}
        assert chat(server, messages=[message])[0] == 400
    answer = json.loads(chat(server, stream=False, think=False, logprobs=True, top_logprobs=3, options={"num_predict": 3})[2])
    assert answer["logprobs"] and len(answer["logprobs"][0]["top_logprobs"]) == 3
    assert chat(server, top_logprobs=21)[0] == 400


def test_what_is_not_there(server):
    status, _, text = send(server, "POST", "/api/pull", {"model": "x"})
    assert status == 403 and "mlxserve pull" in text
    for name in ("create", "copy", "push"):
        assert send(server, "POST", f"/api/{name}", {"model": "x"})[0] == 400
    assert send(server, "GET", "/api/me")[0] == 404


def test_the_python_client(server):
    python = client(server)
    whole = python.chat("demo", messages=QUESTION, options=GREEDY, think=False)
    parts = list(python.chat("demo", messages=QUESTION, options=GREEDY, think=False, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content and parts[-1].done
    assert python.generate("demo", "Hello", options=GREEDY).done
    try:
        python.chat("nobody", messages=QUESTION)
        raise AssertionError("it answered")
    except ollama.ResponseError as error:
        assert error.status_code == 404 and "not found" in error.error


def test_O29_O30_vectors(server):
    folder = ROOT / "Fixtures" / "models" / "encoder-tiny"
    own = Server(server.binary, model=folder)
    try:
        python = client(own)
        one = python.embed("encoder-tiny", "Hello there")
        assert len(one.embeddings) == 1 and one.prompt_eval_count > 0 and one.total_duration > 0
        assert abs(sum(x * x for x in one.embeddings[0]) - 1) < 1e-5
        two = python.embed("encoder-tiny:latest", ["Hello there", "Good day"])
        assert len(two.embeddings) == 2 and list(two.embeddings[0]) == list(one.embeddings[0])
        assert python.embed("encoder-tiny", "").embeddings == [] and python.embed("encoder-tiny", []).embeddings == []
        old = python.embeddings("encoder-tiny", "Hello there").embedding
        length = sum(x * x for x in old) ** 0.5
        assert all(abs(x / length - y) < 1e-5 for x, y in zip(old, one.embeddings[0]))
        assert list(python.embeddings("encoder-tiny", "").embedding) == []
        for body in ({"input": [1]}, {"input": ["a", 2]}, {"input": 3}):
            status, _, text = send(own, "POST", "/api/embed", {"model": "encoder-tiny", **body})
            assert status == 400 and "invalid input type" in text, text
        long = "word " * 5000
        assert send(own, "POST", "/api/embed", {"model": "encoder-tiny", "input": long})[0] == 200
        assert send(own, "POST", "/api/embed", {"model": "encoder-tiny", "input": long, "truncate": False})[0] == 400
        assert "embedding" in python.show("encoder-tiny").capabilities
    finally:
        own.stop()
    assert send(server, "POST", "/api/embed", {"model": "demo", "input": "x"})[0] == 400


def test_O31_to_O34_models_come_and_go_where_that_is_allowed(server):
    repository = hub_test.demo()
    repository.trouble[hub_test.STORE] = hub_test.slowly(hub_test.WEIGHTS, 50_000, 0.01)
    with hub_test.world(repository) as hub:
        own = Server(server.binary, "--allow-pull", env=hub_test.environment(hub))
        try:
            python = client(own)
            lines = list(python.pull("owner/demo", stream=True))
            assert lines[0].status == "pulling manifest" and lines[-1].status == "success", lines
            told = {}
            for line in lines:
                if line.digest:
                    assert told.get(line.digest, 0) <= line.completed <= line.total, line
                    told[line.digest] = line.completed
            assert len(told) > 3 and len({line.completed for line in lines if line.total == len(hub_test.WEIGHTS)}) > 1
            assert "owner/demo:latest" in [model.model for model in python.list().models]
            assert python.pull("owner/demo").status == "success"
            assert python.chat("owner/demo:latest", messages=QUESTION, options=GREEDY, think=False).done
            for name in ("owner/none", "owner/none:latest"):
                status, _, text = send(own, "POST", "/api/pull", {"model": name})
                assert status == 200 and "check the spelling" in json.loads(text.splitlines()[-1])["error"], text
            assert send(own, "POST", "/api/pull", {"model": "owner/none", "stream": False})[0] == 404
            # It is loaded, and goes when nobody uses it; then it is not there.
            assert python.delete("owner/demo").status == "success"
            assert "owner/demo:latest" not in [model.model for model in python.list().models]
            assert send(own, "DELETE", "/api/delete", {"model": "owner/demo"})[0] == 404
            # What was named at the start is no model of the cache.
            assert send(own, "DELETE", "/api/delete", {"model": "demo"})[0] == 404
        finally:
            own.stop()


def test_O33_who_leaves_a_pull_finds_its_part_again(server):
    repository = hub_test.demo()
    repository.trouble[hub_test.STORE] = hub_test.slowly(hub_test.WEIGHTS, 20_000, 0.05, times=1)
    with hub_test.world(repository) as hub:
        own = Server(server.binary, "--allow-pull", env=hub_test.environment(hub))
        try:
            body = json.dumps({"model": "owner/demo"}).encode()
            with own.connect() as connection:
                connection.sendall(b"POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                answer = b""
                while not re.search(rb'"total":%d,"completed":[1-9]' % len(hub_test.WEIGHTS), answer):
                    answer += connection.recv(4096)
            deadline = time.monotonic() + 20
            partial = []
            while not partial and time.monotonic() < deadline:
                partial = list(hub.cache.glob("models--owner--demo/blobs/*.incomplete"))
                time.sleep(0.05)
            assert partial
            time.sleep(0.5)
            hub.seen.clear()
            assert client(own).pull("owner/demo").status == "success"
            assert any(seen.range for seen in hub.seen), hub.paths()
        finally:
            own.stop()
