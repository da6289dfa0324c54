"""Ollama's API, with the ollama package as its client and by raw requests."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import ollama

import hub_test
from sdk_test import WEATHER
from server import DEMO, ROOT, Server

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


def test_parameters_are_those_of_the_checkpoint(server):
    """Packed or not, tied or not, loaded or not, whatever config.json says of quantization: the shapes say it."""
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder) / "bare"
        shutil.copytree(DEMO, bare)
        config = json.loads((bare / "config.json").read_text())
        del config["quantization"]
        config.pop("quantization_config", None)
        (bare / "config.json").write_text(json.dumps(config))
        tiny = DEMO.parent / "smollm3-tiny"
        other = Server(server.binary, "--model", str(bare), "--model", str(tiny))
        try:
            for name, count, level in (("demo", 3_476_864, "4bit"), ("bare", 3_476_864, "4bit"), ("smollm3-tiny", 111_888, "unquantized")):
                shown = json.loads(send(other, "POST", "/api/show", {"model": name})[2])
                assert shown["model_info"]["general.parameter_count"] == count, (name, shown)
                assert shown["details"]["quantization_level"] == level, (name, shown)
                said = subprocess.run([server.binary, "show", str(DEMO.parent / name if name != "bare" else bare), "--json"],
                                      capture_output=True, text=True)
                assert json.loads(said.stdout)["parameter_count"] == count
            tags = {model["model"]: model["details"] for model in json.loads(send(other, "GET", "/api/tags")[2])["models"]}
            assert tags["bare:latest"]["parameter_size"] == "3.48M", tags
            assert tags["smollm3-tiny:latest"]["parameter_size"] == "112K", tags
        finally:
            assert other.stop() == 0
        verified = subprocess.run([server.binary, "verify", "--model", str(bare)], capture_output=True, text=True)
        words = " ".join(verified.stdout.split())
        assert verified.returncode == 0 and "3.5 M parameters" in words, words
        assert "affine, 4 bits in groups of 64, as the tensors say: config.json does not" in words, words


def test_show(server):
    for body in ({"model": "demo"}, {"name": "demo"}, {"model": "demo:latest"}, {"model": "Demo"}):
        status, _, text = send(server, "POST", "/api/show", body)
        assert status == 200, text
        shown = json.loads(text)
        assert shown["model_info"][shown["model_info"]["general.architecture"] + ".context_length"] > 0
        assert all(re.match(r'^\S+\s+(".*"|\S+)$', line) for line in shown["parameters"].splitlines())
        assert set(shown["capabilities"]) <= {"completion", "tools", "insert", "vision", "embedding", "thinking", "audio"}
    assert client(server).show("demo").modelinfo
    assert shown["model_info"]["general.parameter_count"] == 3_476_864 and shown["details"]["parameter_size"] == "3.48M"
    assert send(server, "POST", "/api/show", {"model": "nobody"})[0] == 404
    assert send(server, "POST", "/api/show", {})[0] == 400


def test_models_in_the_words_of_LM_Studio(server):
    listed = json.loads(server.get("/api/v0/models")[2])
    assert listed["object"] == "list" and len(listed["data"]) == 1
    one = json.loads(server.get("/api/v0/models/demo")[2])
    assert one == listed["data"][0]
    assert one == {
        "id": "demo", "object": "model", "type": "llm", "publisher": "local", "arch": "qwen3", "compatibility_type": "mlx",
        "quantization": "4bit", "state": "loaded", "max_context_length": one["loaded_context_length"],
        "loaded_context_length": one["max_context_length"], "capabilities": ["tool_use"]}
    assert one["max_context_length"] > 100
    status, _, text = server.get("/api/v0/models/owner/nobody")
    assert status == 404 and json.loads(text)["error"]["code"] == "model_not_found"


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
    assert status == 200 and headers["x-mlxserve-ignored"] == "options.colour", headers
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
    for first, second in (({}, {}), ({"tool_name": "weather"}, {"tool_name": "weather"}), ({"tool_call_id": "call_1"}, {"tool_call_id": "call_2"}),
                          # litellm sends ids for results alone.
                          ({"tool_call_id": "call_9f0a"}, {"tool_call_id": "call_77be"})):
        results = [{"role": "tool", "content": "sunny", **first}, {"role": "tool", "content": "rain", **second}]
        status, _, text = chat(server, messages=turns + results, tools=tools, stream=False, think=False)
        assert status == 200, text
        counts.add(json.loads(text)["prompt_eval_count"])
    assert len(counts) == 1, counts
    assert chat(server, tools=[], stream=False)[0] == 200
    for result in ({"role": "tool", "content": "x"}, {"role": "tool", "content": "x", "tool_call_id": "y", "tool_name": "z"}):
        assert chat(server, messages=[result], stream=False, options=GREEDY)[0] == 200


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


def get_weather(location: str) -> str:
    """
    Get the current weather

    Args:
      location: A city
    """
    return f"Sunny in {location}."


def test_a_call_is_one_whole_piece_and_the_python_client_does_it_all(server):
    python = client(server)
    asked = [{"role": "user", "content": "What is the weather in Paris?"}]
    options = {"temperature": 0, "num_predict": 60}
    parts = list(python.chat("demo", messages=asked, tools=[get_weather], think=False, stream=True, options=options))
    calls = [part for part in parts if part.message.tool_calls]
    assert len(calls) == 1 and not calls[0].done and len(calls[0].message.tool_calls) == 1, parts
    call = calls[0].message.tool_calls[0].function
    assert call.name == "get_weather" and set(call.arguments) == {"location"}, call
    assert parts[-1].done and parts[-1].done_reason == "stop" and parts[-1].message.content == "", parts[-1]
    ids = set()
    for _ in range(2):
        _, _, text = send(server, "POST", "/api/chat", {
            "model": "demo", "messages": asked, "tools": [WEATHER], "think": False, "stream": False, "options": options})
        ids |= {call["id"] for call in json.loads(text)["message"]["tool_calls"]}
    assert len(ids) == 2, ids
    whole = python.chat("demo", messages=asked, tools=[get_weather], think=False, options=options).message
    assert whole.tool_calls[0].function.arguments == call.arguments
    told = [*asked, whole, {"role": "tool", "tool_name": "get_weather", "content": get_weather(**call.arguments)}]
    assert python.chat("demo", messages=told, tools=[get_weather], think=False, options=options).message.content
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
    answer = python.chat("demo", messages=QUESTION, format=schema, think=False, options={"temperature": 0}).message.content
    assert 0 <= json.loads(answer)["n"] <= 9
    assert python.show("demo").capabilities and python.list().models and python.ps().models
    pieces = list(python.generate("demo", "Hello", options=GREEDY, stream=True))
    assert pieces[-1].done and all(isinstance(piece.response, str) for piece in pieces)


def test_vectors(server):
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


def test_models_come_and_go_where_that_is_allowed(server):
    repository = hub_test.demo()
    repository.trouble[hub_test.STORE] = hub_test.slowly(hub_test.WEIGHTS, 50_000, 0.03)
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


def test_who_leaves_a_pull_finds_its_part_again(server):
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


def state_of(own):
    return json.loads(own.get("/debug/state")[2])


def until_idle(own, seconds=20):
    """Waits until nothing runs and nothing waits; how long that took."""
    begin = time.monotonic()
    while (state := state_of(own))["slots_busy"] or state["queue_len"]:
        assert time.monotonic() < begin + seconds, state
        time.sleep(0.02)
    return time.monotonic() - begin


def begun(own, **more):
    """A connection whose chat has begun to answer."""
    body = json.dumps({"model": "demo", "messages": QUESTION, **more}).encode()
    connection = own.connect()
    connection.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert b"200" in connection.recv(1000)
    return connection


def test_thoughts_come_before_the_answer_and_without_tags(server):
    _, _, text = chat(server, think=True, options={"temperature": 0, "num_predict": 60})
    messages = [json.loads(line)["message"] for line in text.splitlines()]
    kinds = ["thinking" if message.get("thinking") else "content" for message in messages if message.get("thinking") or message["content"]]
    assert "thinking" in kinds and kinds == sorted(kinds, reverse=True), kinds
    assert not any(tag in json.dumps(messages) for tag in ("<think>", "</think>", "<|im_"))
    assert all(message["content"] == "" for message in messages if message.get("thinking"))


def test_a_seed_gives_the_same_text_beside_others(server):
    options = {"temperature": 1, "seed": 11, "num_predict": 16}

    def text(_=None):
        return json.loads(chat(server, stream=False, think=False, options=options)[2])["message"]["content"]

    alone = text()
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(chat, server, options={"temperature": 1, "num_predict": 40}) for _ in range(3)]
        assert set(pool.map(text, range(3))) == {alone}
        assert all(other.result()[0] == 200 for other in others)


def test_an_error_after_the_first_token_is_the_last_line(server):
    """A server that is told to end, and has waited for its answers as long as it may."""
    endless = {"think": False, "options": {"num_predict": 3000, "temperature": 1}, "format": {"type": "string", "minLength": 9000}}
    own = Server(server.binary, "--test-hooks", "--step-delay-ms", "50", "--drain-seconds", "1")
    seen = []
    try:
        for part in client(own).chat("demo", QUESTION, stream=True, **endless):
            if not seen:
                own.process.terminate()
            seen.append(part.message.content)
        raise AssertionError("the client has seen no error")
    except ollama.ResponseError as error:
        assert seen and isinstance(error.error, str) and error.status_code == -1, error
    finally:
        own.stop()


def test_who_leaves_ends_the_work(server):
    own = Server(server.binary, "--test-hooks", "--step-delay-ms", "20")
    try:
        endless = {"think": False, "options": {"num_predict": 3000, "temperature": 1}, "format": {"type": "string", "minLength": 9000}}
        begun(own, **endless).close()
        until_idle(own)
        assert state_of(own)["decode_steps_total"] < 2000
        # In the prompt.
        body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "word " * 1500}], "think": False}).encode()
        with own.connect() as connection:
            connection.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.02)
        until_idle(own)
    finally:
        assert own.stop() == 0


def test_a_full_queue_says_when_to_come_again(server):
    own = Server(server.binary, "--test-hooks", "--max-sequences", "1", "--queue-limit", "1")
    try:
        endless = {"think": False, "options": {"num_predict": 3000, "temperature": 1}, "format": {"type": "string", "minLength": 9000}}
        running = begun(own, **endless)
        body = json.dumps({"model": "demo", "messages": QUESTION}).encode()
        waiting = own.connect()
        waiting.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        deadline = time.monotonic() + 20
        while not state_of(own)["queue_len"] and time.monotonic() < deadline:
            time.sleep(0.02)
        status, headers, text = chat(own, stream=False)
        assert status == 503 and int(headers["retry-after"]) > 0 and isinstance(json.loads(text)["error"], str), (status, text)
        running.close()
        waiting.close()
        until_idle(own)
    finally:
        own.stop()


def test_a_key_is_needed_for_all_but_the_sign_of_life(server):
    own = Server(server.binary, env={**os.environ, "MLXSERVE_API_KEY": "sk-ollama-test"})
    try:
        for method, path in (("GET", "/api/version"), ("GET", "/api/tags"), ("GET", "/api/ps"), ("POST", "/api/show"), ("POST", "/api/chat"),
                             ("POST", "/api/generate"), ("POST", "/api/embed"), ("DELETE", "/api/delete")):
            status, _, text = send(own, method, path, None if method == "GET" else {"model": "demo"})
            assert status == 401 and isinstance(json.loads(text)["error"], str), (path, status, text)
        assert own.get("/")[2] == b"Ollama is running"
        known = ollama.Client(host=f"http://127.0.0.1:{own.port}", headers={"Authorization": "Bearer sk-ollama-test"})
        assert known.list().models and known.chat("demo", QUESTION, options=GREEDY).message.content is not None
    finally:
        own.stop()


def test_bodies_that_are_none(server):
    deep = b'{"model":"demo","messages":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    for body in (b"{", b"", b"[]", b"null", b'"x"', b"\xff\xfe", deep):
        status, _, text = send(server, "POST", "/api/chat", body)
        assert status == 400 and isinstance(json.loads(text)["error"], str), (body[:20], status, text[:200])
    assert "missing request body" in json.loads(send(server, "POST", "/api/chat", b"")[2])["error"]


def test_the_root_is_a_page_for_browsers_only(server):
    for accept in ([], ["Accept: */*"], ["Accept: application/json"]):
        status, headers, body = server.get("/", accept)
        assert (status, body) == (200, b"Ollama is running") and headers["content-type"].startswith("text/plain"), (accept, headers)
    _, headers, body = server.get("/", ["Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"])
    assert headers["content-type"].startswith("text/html") and body.startswith(b"<!doctype html>")
    for path in ("/", "/api/version", "/api/tags"):
        assert server.get(path, method="HEAD")[::2] == (200, b""), path


def test_only_origins_that_are_allowed_get_in(server):
    assert server.get("/api/tags", ["Origin: https://evil.example"])[0] == 403
    assert server.get("/api/tags", ["Origin: app://obsidian.md"])[0] == 403
    own = Server(server.binary, "--allow-origin", "app://obsidian.md")
    try:
        status, headers, _ = own.get("/api/tags", ["Origin: app://obsidian.md"])
        assert status == 200 and headers["access-control-allow-origin"] == "app://obsidian.md"
        status, headers, _ = own.get("/api/chat", ["Origin: app://obsidian.md", "Access-Control-Request-Method: POST",
                                                   "Access-Control-Request-Headers: content-type"], method="OPTIONS")
        assert status in (200, 204) and "POST" in headers["access-control-allow-methods"]
        assert own.get("/api/tags", ["Origin: https://evil.example"])[0] == 403
    finally:
        own.stop()


def test_every_line_is_whole_text(server):
    schema = {"type": "string", "enum": ["日本語と😀👩‍👩‍👧‍👦, naïve, Ω≈ç√∫"]}
    _, _, text = chat(server, think=False, format=schema, options={"temperature": 0})
    lines = [json.loads(line) for line in text.splitlines()]
    assert json.loads("".join(line["message"]["content"] for line in lines)) == schema["enum"][0]
    assert len(lines) > 5 and "\ufffd" not in text and not re.search(r"[\ud800-\udfff]", text)


def test_a_long_prompt_sends_signs_of_life(server):
    body = {"model": "demo", "messages": [{"role": "user", "content": "word " * 300}], "think": False, "options": {"num_predict": 1}}

    def signs(own):
        lines = [json.loads(line) for line in send(own, "POST", "/api/chat", body)[2].splitlines()]
        assert lines[-1]["done"], lines
        return [line for line in lines if not line["done"] and line["message"] == {"role": "assistant", "content": ""}]

    # With steps that take longer, the prompt takes longer than clients are left without a word.
    own = Server(server.binary, "--test-hooks", "--step-delay-ms", "500")
    try:
        assert signs(own)
        assert list(client(own).chat("demo", [{"role": "user", "content": "more " * 300}], stream=True, think=False, options={"num_predict": 1}))[-1].done
    finally:
        own.stop()


# What clients send first, as their sources had it in 2026; each has a decoder as strict as its own.

def required(value, *names):
    """Members that a typed decoder needs, none of them null."""
    assert all(value.get(name) is not None for name in names), value
    return value


def listed(server, headers=()):
    status, _, data = server.get("/api/tags", headers)
    assert status == 200
    return [required(model, "name", "model", "modified_at", "size", "digest", "details") for model in json.loads(data)["models"]]


def streamed(server, body, headers=()):
    status, head, data = server.post("/api/chat", body, headers)
    assert status == 200 and head["content-type"] == "application/x-ndjson", data
    parts = [json.loads(line) for line in data.decode().splitlines()]
    for part in parts:
        required(part, "model", "created_at", "message", "done")
        required(part["message"], "role", "content")
        for call in part["message"].get("tool_calls", ()):
            assert isinstance(required(call["function"], "name", "arguments")["arguments"], dict)
    required(parts[-1], "done_reason", "prompt_eval_count", "eval_count")
    return parts


TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def test_the_same_prompt_by_two_wires_gives_the_same_tokens(server):
    for question in ("Is Paris in France? Answer Yes or No.", "Tell me a story of the sea.", "List three colours."):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
        for think, effort in ((False, "none"), (True, None)):
            status, _, text = send(server, "POST", "/api/chat", {
                "model": "demo", "messages": messages, "think": think, "stream": False, "logprobs": True,
                "options": {"temperature": 0, "num_predict": 40, "repeat_penalty": 1, "top_k": 0, "top_p": 1}})
            assert status == 200, text
            here = json.loads(text)
            body = {"model": "demo", "messages": messages, "temperature": 0, "max_tokens": 40, "logprobs": True}
            if effort:
                body["reasoning_effort"] = effort
            status, _, text = server.post("/v1/chat/completions", body)
            assert status == 200, text
            there = json.loads(text)
            choice = there["choices"][0]
            assert here["message"]["content"] == choice["message"]["content"], (here, there)
            assert here["prompt_eval_count"] == there["usage"]["prompt_tokens"], (here, there)
            assert here["eval_count"] == there["usage"]["completion_tokens"], (here, there)
            assert here["done_reason"] == choice["finish_reason"], (here, there)
            tokens = [entry["token"] for entry in here["logprobs"]]
            assert tokens and tokens == [entry["token"] for entry in choice["logprobs"]["content"]], (here, there)


def test_open_webui(server):
    own = ["X-OpenWebUI-User-Name: a", "X-OpenWebUI-User-Role: admin"]
    version = json.loads(server.get("/api/version", own)[2])["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]
    names = [model["name"] for model in listed(server, own)]
    running = {model["name"]: model["expires_at"] for model in json.loads(server.get("/api/ps", own)[2])["models"]}
    assert set(running) <= set(names) and all(":" in name for name in names)
    name = "demo:latest"
    assert name in names
    streamed(server, {"model": name, "messages": QUESTION, "stream": True, "options": {"temperature": 0, "num_predict": 8}, "keep_alive": "5m"}, own)
    # Its other way: an OpenAI connection, with what it sends beside the chat.
    ids = [model["id"] for model in json.loads(server.get("/v1/models", [*own, "Authorization: Bearer "])[2])["data"]]
    status, head, data = server.post("/v1/chat/completions", {
        "stream": True, "model": ids[0], "messages": QUESTION, "temperature": 0, "max_tokens": 8, "stream_options": {"include_usage": True}},
        [*own, "Authorization: Bearer "])
    assert status == 200 and head["content-type"].startswith("text/event-stream") and data.endswith(b"data: [DONE]\n\n"), data
    # Titles, tags and follow-up questions are asked without a stream.
    status, _, data = server.post("/api/chat", {"model": name, "messages": [{"role": "user", "content": "### Task: a title as JSON"}],
                                                "stream": False, "options": {"num_predict": 8}}, own)
    assert status == 200 and required(json.loads(data), "message", "done_reason")


def test_home_assistant(server):
    name = listed(server)[0]["model"]
    for turn in (QUESTION, [*QUESTION, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}]},
                            {"role": "tool", "content": '{"sun": true}'}]):
        streamed(server, {"model": name, "messages": [{"role": "system", "content": "You control a house."}, *turn], "tools": [TOOL], "stream": True,
                          "think": False, "keep_alive": "-1s", "options": {"num_ctx": 8192, "num_predict": 8, "temperature": 0}})
    streamed(server, {"model": name, "messages": QUESTION, "stream": True, "keep_alive": -1, "options": {"num_predict": 40, "temperature": 0},
                      "format": {"type": "object", "properties": {"answer": {"type": "string", "maxLength": 4}}, "required": ["answer"]}, "think": False})


def test_zed(server):
    models = listed(server)
    for model in models:
        required(model["details"], "format", "family", "parameter_size", "quantization_level")
        status, _, data = server.post("/api/show", {"model": model["name"]})
        assert status == 200 and isinstance(required(json.loads(data), "capabilities", "model_info")["capabilities"], list)
    streamed(server, {"model": models[0]["name"], "messages": QUESTION, "stream": True, "keep_alive": -1, "tools": [],
                      "options": {"num_ctx": 4096, "stop": [], "temperature": 0, "num_predict": 8}, "think": None})


def test_continue(server):
    status, _, data = server.post("/api/show", {"name": "demo"}, ["Authorization: Bearer undefined"])
    shown = json.loads(data)
    assert status == 200 and all(re.match(r'^(\S+)\s+(".*"|\S+)$', line) for line in shown["parameters"].split("\n") if line)
    assert ".Suffix" not in shown["template"], "the demo fills in nothing"
    streamed(server, {"model": "demo", "messages": QUESTION, "stream": True, "keep_alive": 1800,
                      "options": {"num_predict": 8, "num_ctx": 4096, "temperature": 0, "stop": []}}, ["Authorization: Bearer undefined"])
    status, _, data = server.post("/api/generate", {"model": "demo", "prompt": "def f(", "raw": True, "stream": True, "keep_alive": 1800,
                                                    "options": {"num_predict": 8, "temperature": 0, "stop": ["\n\n"]}}, ["Authorization: Bearer undefined"])
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert status == 200 and all("response" in required(line, "model", "done") or line["done"] for line in lines) and lines[-1]["done"]


def test_copilot(server):
    server.get("/api/version")
    names = [model["model"] for model in listed(server)]
    with_tools = [name for name in names if "tools" in json.loads(server.post("/api/show", {"model": name})[2])["capabilities"]]
    assert with_tools, "the demo calls tools"
    status, _, data = server.post("/v1/chat/completions", {"model": with_tools[0], "messages": QUESTION, "tools": [TOOL], "max_tokens": 8, "stream": True})
    assert status == 200 and data.endswith(b"data: [DONE]\n\n")


def test_jetbrains_and_obsidian(server):
    assert server.get("/")[:1] == (200,) and listed(server)
    status, _, data = server.post("/api/generate", {"model": "demo", "prompt": "Hi", "system": "Be brief.", "stream": False, "options": {"num_predict": 4}})
    assert status == 200 and "response" in json.loads(data)
    status, _, data = server.post("/api/embed", {"model": "demo", "input": "x"})
    assert status == 400 and isinstance(json.loads(data)["error"], str), "the demo makes no vectors"
