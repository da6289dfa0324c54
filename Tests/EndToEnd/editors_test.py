"""Completion in editors: the very requests of llama.vim, llama.vscode, Continue, Tabby and Zed, against a model whose
vocabulary has marks for filling in the middle.

The model is the demo with six of its tokens
renamed, so what it writes means nothing; what is tested is what comes back."""

import contextlib
import json
import pathlib
import shutil
import tempfile
import time

from reliability.watch import wait_for
from server import DEMO, Server

MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"]
CODE = "".join(f"def function_{line}(value):\n    return value + {line}\n\n" for line in range(30))


def coder_model(folder):
    """A copy of the demo model that knows the marks of code to fill in."""
    place = pathlib.Path(folder) / "demo-coder"
    shutil.copytree(DEMO, place)
    path = place / "tokenizer.json"
    data = json.loads(path.read_text())
    # The last of the vocabulary, which no merge of another needs, become added tokens.
    names = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)[-len(MARKS):]
    data["model"]["merges"] = data["model"]["merges"][: -len(MARKS)]
    for mark, name in zip(MARKS, names):
        number = data["model"]["vocab"].pop(name)
        data["model"]["vocab"][mark] = number
        data["added_tokens"].append({"id": number, "content": mark, "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": False, "special": False})
    data["added_tokens"].sort(key=lambda token: token["id"])
    path.write_text(json.dumps(data))
    return place


@contextlib.contextmanager
def coder(server, *flags):
    with tempfile.TemporaryDirectory() as folder:
        own = Server(server.binary, *flags, model=coder_model(folder))
        try:
            yield own
        finally:
            assert own.stop() == 0


def ask(own, path, body, headers=()):
    status, head, data = own.post(path, body, headers)
    return status, head, json.loads(data)


def vim(prefix, line, suffix, **more):
    """What llama.vim sends while one types."""
    return {
        "id_slot": 0, "input_prefix": prefix, "input_suffix": suffix, "prompt": line,
        "input_extra": [{"filename": "other.py", "text": CODE[:300], "time": [1, 2]}],
        "n_predict": 16, "stop": [], "n_indent": 0, "top_k": 40, "top_p": 0.99, "stream": False,
        "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "t_max_prompt_ms": 500,
        "t_max_predict_ms": 1500,
        "response_fields": ["content", "timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms",
                            "timings/prompt_per_second", "timings/predicted_n", "timings/predicted_ms",
                            "timings/predicted_per_token_ms", "timings/predicted_per_second", "truncated",
                            "tokens_cached"], **more}


def test_marks_come_from_the_vocabulary_and_not_from_code(server):
    with coder(server) as own:
        code = "x = '<|fim_middle|>'"
        status, _, answer = ask(own, "/infill", {"input_prefix": code, "input_suffix": "\n", "n_predict": 4})
        assert status == 200, answer
        assert answer["prompt"] == f"<|fim_prefix|>{code}<|fim_suffix|>\n<|fim_middle|>", answer["prompt"]
        ids = ask(own, "/tokenize", {"content": answer["prompt"]})[2]["tokens"]
        assert answer["tokens_evaluated"] > len(ids), "the mark in the code was one token"
        answer = ask(own, "/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 200, "seed": 1})[2]
        assert not any(mark in answer["content"] for mark in MARKS), answer["content"]


def test_llama_vim_and_vscode(server):
    with coder(server) as own:
        warm = {**vim("", "", "", n_predict=0, t_max_prompt_ms=1, response_fields=[""])}
        status, headers, answer = ask(own, "/infill", warm)
        assert (status, answer) == (200, {}) and "x-mlxserve-ignored" not in headers
        # Somebody types: each prompt goes on from the one before.
        typed, cached = "    return va", []
        for count in range(5, len(typed) + 1):
            status, headers, answer = ask(own, "/infill", vim(CODE[:600] + "def g(value):\n", typed[:count], "\n\nprint(g(1))\n"))
            assert status == 200 and "x-mlxserve-ignored" not in headers, answer
            assert set(answer) == set(vim("", "", "")["response_fields"]), answer
            assert isinstance(answer["content"], str) and answer["truncated"] is False
            cached.append((answer["timings/prompt_n"], answer["tokens_cached"]))
        # At most the line, the text after it and the marks are computed again.
        assert all(computed <= 40 < whole for computed, whole in cached[1:]), cached
        body = vim(CODE[:300], "x", "\n", response_fields=None)
        body.pop("response_fields")
        answer = ask(own, "/infill", {**body, "model": "demo-coder", "lora": []})[2]
        assert answer["stop"] is True and answer["generation_settings"]["top_k"] == 40


def test_limits_of_time_and_context(server):
    with coder(server) as own:
        answer = ask(own, "/infill", {"input_prefix": CODE * 40, "input_suffix": CODE, "n_predict": 4,
                                      "input_extra": [{"text": CODE}]})[2]
        assert answer["truncated"] is True and answer["prompt"].startswith("<|fim_prefix|>"), answer["prompt"][:60]
        assert CODE[-30:] + "<|fim_suffix|>def function_0" in answer["prompt"]
        answer = ask(own, "/infill", {"input_prefix": "a\n", "input_suffix": "", "n_predict": 300, "seed": 3,
                                      "t_max_predict_ms": 1, "temperature": 1})[2]
        assert answer["content"].count("\n") <= 1


def test_a_stream_ends_with_all_of_it(server):
    with coder(server) as own:
        status, headers, data = own.post("/completion", {"prompt": "Hello", "n_predict": 4, "stream": True, "seed": 1})
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]
        assert events[-1]["stop"] is True and events[-1]["timings"]["predicted_n"] >= 1
        assert all(event["stop"] is False and isinstance(event["content"], str) for event in events[:-1])


def test_continue_tabby_and_zed(server):
    with coder(server) as own:
        prompt = "<|fim_prefix|>def f():\n    <|fim_suffix|>\n<|fim_middle|>"
        # Continue, with its header where no key is set; then Tabby.
        status, _, data = own.post(
            "/completion", {"prompt": prompt, "stream": True, "n_predict": 8, "stop": ["\n\n", "<|endoftext|>"],
                            "temperature": 0.01}, headers=["Authorization: Bearer undefined"])
        assert status == 200 and b'"stop":true' in data
        status, _, answer = ask(own, "/completions", {"prompt": prompt, "n_predict": 8, "temperature": 0.1})
        assert status == 200 and answer["tokens_evaluated"] < 20, answer
        # Zed writes the marks into the prompt of completions, and stops at all of them.
        stops = MARKS + ["<|endoftext|>", "<|file_separator|>", "<|im_end|>", "<fim_pad>", "<EOT>", "[PREFIX]", "\n\n\n", "<s>"]
        status, headers, answer = ask(own, "/v1/completions", {
            "model": "demo-coder", "prompt": prompt, "max_tokens": 64, "temperature": 0.2, "stop": stops, "stream": False})
        assert status == 200 and answer["usage"]["prompt_tokens"] < 20, answer
        # Continue by way of Ollama asks what the model can, then for what is missing.
        shown = ask(own, "/api/show", {"name": "demo-coder"})[2]
        assert ".Suffix" in shown["template"] and "insert" in shown["capabilities"]


def test_three_wires_one_prompt(server):
    with coder(server) as own:
        options = {"temperature": 0}
        texts = {
            ask(own, "/infill", {"input_prefix": "def f(", "input_suffix": "):\n", "n_predict": 12, **options})[2]["content"],
            ask(own, "/v1/completions", {"model": "demo-coder", "prompt": "def f(", "suffix": "):\n", "max_tokens": 12,
                                         **options})[2]["choices"][0]["text"],
            ask(own, "/api/generate", {"model": "demo-coder", "prompt": "def f(", "suffix": "):\n", "stream": False,
                                       "options": {"num_predict": 12, **options}})[2]["response"],
        }
        assert len(texts) == 1, texts
    assert server.post("/infill", {"input_prefix": "a", "input_suffix": "b"})[0] == 501
    assert server.post("/v1/completions", {"model": server.model, "prompt": "a", "suffix": "b"})[0] == 400


def test_what_a_server_says_of_itself(server):
    with coder(server, "--max-sequences", "2", "--test-hooks", "--step-delay-ms", "20") as own:
        properties = json.loads(own.get("/props")[2])
        assert properties["total_slots"] == 2 and properties["model_path"] == "demo-coder", properties
        assert own.get("/props?model=demo-coder")[0] == 200 and own.get("/props?model=nobody")[0] == 404
        slots = json.loads(own.get("/slots?fail_on_no_slot=1")[2])
        assert [slot["is_processing"] for slot in slots] == [False, False], slots
        body = json.dumps({"prompt": "secretword " * 20, "n_predict": 400, "ignore_eos": True, "stream": True}).encode()
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                connection = stack.enter_context(own.connect())
                connection.sendall(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
                assert b"200" in connection.recv(1000)
            wait_for(lambda: all(slot["is_processing"] for slot in json.loads(own.get("/slots")[2])), 10, "two busy places")
            status, _, text = own.get("/slots")
            assert status == 200, text
            assert b"secretword" not in text
            status, headers, text = own.get("/slots?fail_on_no_slot=1")
            assert status == 503 and headers["retry-after"] == "1", (status, headers)
            assert json.loads(text)["error"]["code"] == "no_slot_available", text


def test_who_leaves_frees_the_engine_within_a_step(server):
    with coder(server, "--test-hooks") as own:
        body = json.dumps({"input_prefix": CODE, "input_suffix": "\n", "n_predict": 1000, "ignore_eos": True,
                           "stream": True}).encode()
        for _ in range(20):
            with own.connect() as connection:
                connection.sendall(b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(body) + body)
                assert b"200" in connection.recv(1000)
        deadline = time.monotonic() + 20
        while (state := json.loads(own.get("/debug/state")[2])) and time.monotonic() < deadline:
            if state["slots_busy"] == state["queue_len"] == 0:
                break
            time.sleep(0.05)
        assert state["slots_busy"] == state["queue_len"] == 0, state
        # 20 answers of 1,000 tokens were not computed.
        assert state["decode_steps_total"] < 4_000, state


def test_constraints_and_strange_code(server):
    with coder(server) as own:
        answer = ask(own, "/completion", {"prompt": "x", "grammar": 'root ::= "yes" | "no"', "n_predict": 9})[2]
        assert answer["content"] in ("yes", "no") and answer["stop_type"] == "eos", answer
        answer = ask(own, "/completion", {"prompt": "x", "json_schema": {"type": "boolean"}, "n_predict": 9})[2]
        assert answer["content"] in ("true", "false"), answer
        answer = ask(own, "/completion", {"prompt": "x", "n_predict": 3, "n_probs": 2, "seed": 5})[2]
        assert len(answer["completion_probabilities"]) == answer["tokens_predicted"]
        assert len(answer["completion_probabilities"][0]["top_logprobs"]) == 2
        assert ask(own, "/infill", {"input_prefix": "a\r\n\tb", "input_suffix": "\r\n\x0c", "n_predict": 2})[0] == 200
        assert own.post("/infill", b'{"input_prefix":"\\ud800","input_suffix":""}')[0] in (200, 400)
