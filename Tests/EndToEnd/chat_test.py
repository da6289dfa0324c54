"""Black-box cases of the chat and completions endpoints: requests, formats, tools and streams.

Those for which a client needs the SDK are in sdk_test, those of bare sockets in wire_test. The silence of a long prefill and
a fault in a stream need a slow or broken engine: ServerTests/FailureTests.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Optional

import openai
from pydantic import BaseModel

from sdk_test import CAPITAL, WEATHER, YES, joined, refused, text
from server import Server, parse
from wire_test import CHAT, error_of, hello, read_response, request

PARIS = "What is the weather in Paris?"
STORY = "Tell me a story."
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def tool(name, parameters=None, **more):
    function = {"name": name, "description": name, **more}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def named(name):
    return {"type": "function", "function": {"name": name}}


def calls(completion):
    return completion.choices[0].message.tool_calls or []


def arguments(call):
    return json.loads(call.function.arguments)


def body(s, messages=CAPITAL, **options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return {"model": s.model, "messages": messages, "temperature": 0, "reasoning_effort": "none", **options}


def ask(s, **change):
    """The raw answer to a small request: status, error or whole body."""
    status, headers, data = s.post(CHAT, body(s, **change))
    return status, headers, json.loads(data)


def refuses(s, change, *params, code=None):
    status, headers, answer = ask(s, **change)
    assert status == 400, (change, status, answer)
    assert headers["content-type"] == "application/json"
    error = answer["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert any((error["param"] or "").startswith(p) for p in params), (change, error)
    assert code is None or error["code"] == code, error
    return error


# 5.1 HTTP


def test_a_lone_surrogate_does_no_harm(s):
    data = b'{"model":"%s","max_tokens":2,"messages":[{"role":"user","content":"a\\ud800b"}]}' % s.model.encode()
    assert s.post(CHAT, data)[0] in (200, 400)


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(s):
    with s.connect() as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {1 << 30}\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_chunked_body_beyond_the_limit_is_refused(s):
    with s.connect() as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        try:
            for _ in range(12):
                connection.sendall(chunk)
        except OSError:
            pass
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert s.get("/health")[0] == 200


def test_expect_continue_with_two_megabytes(s):
    data = json.dumps(body(s, "x" * (2 << 20))).encode()
    with s.connect() as connection:
        head = (f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\nExpect: 100-continue\r\n\r\n")
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(data)
        assert read_response(connection)[0] == 400


def test_no_content_type_is_json(s):
    data = json.dumps(body(s, max_tokens=2)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    assert parse(s.raw(head.encode() + data))[0] == 200


def test_header_names_in_any_case(s):
    data = json.dumps(body(s, max_tokens=2)).encode()
    head = (f"POST {CHAT} HTTP/1.1\r\nhOST: localhost\r\ncONNECTION: close\r\nCONTENT-type: application/json; charset=UTF-8\r\n"
            f"content-LENGTH: {len(data)}\r\n\r\n")
    assert parse(s.raw(head.encode() + data))[0] == 200


def test_of_two_equal_keys_the_last_counts(s):
    data = json.dumps(body(s, max_tokens=7)).encode()[:-1] + b',"max_tokens":2}'
    answer = json.loads(s.post(CHAT, data)[2])
    assert answer["usage"]["completion_tokens"] == 2


def test_two_pipelined_requests_are_answered_in_order(s):
    with s.connect() as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.index(b'"object":"list"') < answer.index(b'"status":"ok"')


def test_http_1_0_needs_no_host(s):
    answer = s.raw(b"GET /v1/models HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.") and b" 200 " in answer[:20]
    assert b"chunked" not in answer


def test_a_megabyte_of_headers(s):
    with s.connect() as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 150_000 + b"\r\n")
        except OSError:
            pass
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or answer.split()[1] in (b"431", b"400"), answer[:60]
    assert s.get("/health")[0] == 200


def test_a_slow_head_hinders_nobody(s):
    with s.connect() as slow:
        for byte in b"GET /health HT":
            slow.sendall(bytes([byte]))
            time.sleep(0.05)
        assert s.get("/health")[0] == 200
        slow.sendall(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_head_leaves_the_connection_in_step(s):
    with s.connect() as connection:
        connection.sendall(b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = connection.recv(65536)
        assert answer.split()[1] in (b"200", b"405") and answer.endswith(b"\r\n\r\n")
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_response(connection)[0] == 200


def test_a_model_id_with_a_slash(s):
    other = Server(s.process.args[0], "--model-id", "org/m")
    try:
        assert json.loads(other.get("/v1/models/org%2Fm")[2])["id"] == "org/m"
        assert other.client.models.retrieve("org/m").id == "org/m"
        completion = other.chat(CAPITAL)
        assert completion.model == "org/m" == other.client.models.list().data[0].id
    finally:
        other.stop()


def test_any_authorization_when_no_key_is_configured(s):
    for value in ("Bearer anything", "Basic eDp5", "nonsense"):
        assert s.post(CHAT, body(s, max_tokens=1), [f"Authorization: {value}"])[0] == 200


def test_paths_may_leave_out_v1(s):
    body = {"model": s.model, "messages": [{"role": "user", "content": CAPITAL}], "max_tokens": 1}
    for path in ("/chat/completions", "/chat/completions/", "/v1/chat/completions/"):
        assert s.post(path, body)[0] == 200, path
    assert s.get("/nothing/of/the/kind")[0] == 404


def test_small_answers_do_not_wait_for_the_network(s):
    times = []
    with s.connect() as connection:
        for _ in range(20):
            begin = time.monotonic()
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_response(connection)[0] == 200
            times.append(time.monotonic() - begin)
    # A delayed acknowledgement would cost 40 ms.
    assert sorted(times)[10] < 0.03, times


# 5.3 Chat


def test_the_shape_of_an_answer(s):
    status, headers, answer = ask(s)
    assert status == 200 and headers["content-type"] == "application/json"
    assert answer["id"].startswith("chatcmpl-") and answer["object"] == "chat.completion"
    assert isinstance(answer["created"], int) and answer["service_tier"] == "default"
    choice = answer["choices"][0]
    assert choice.keys() == {"index", "message", "logprobs", "finish_reason"}
    assert choice["message"].keys() == {"role", "content", "refusal", "annotations"}
    assert choice["logprobs"] is None and choice["message"]["refusal"] is None
    assert choice["message"]["annotations"] == [] and choice["finish_reason"] == "stop"


def test_bad_messages_name_their_place(s):
    for messages in (None, [], [123], [{}], [{"role": 123, "content": "x"}], [{"role": "user", "content": 123}],
                     [{"role": "robot", "content": "x"}], [{"role": "user"}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": "http://localhost:1/x.png"}]}],
                     [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}],
                     [{"role": "user", "content": [{"type": "file", "file": {"filename": "x"}}]}]):
        refuses(s, {"messages": messages}, "messages")
    assert error_of(s.post(CHAT, {"model": s.model, "messages": "string"}))[0] == 400
    without = body(s)
    del without["messages"]
    assert error_of(s.post(CHAT, without))[0] == 400


def test_an_assistant_without_content_is_an_empty_turn(s):
    messages = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": None},
                {"role": "user", "content": CAPITAL}]
    assert ask(s, messages=messages)[0] == 200


def test_a_model_that_is_not_served_is_refused(s):
    for model in ("", None):
        refuses(s, {"model": model}, "model")
    status, _, answer = ask(s, model="nope")
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (404, "model_not_found", "model")


def test_values_out_of_range_are_refused(s):
    cases = [({"max_tokens": v}, "max_tokens") for v in (0, -5, 2.5, "5")]
    cases += [({"temperature": v}, "temperature") for v in (-0.1, 2.1, "hot")]
    cases += [({"top_p": 1.5}, "top_p"), ({"presence_penalty": 3}, "presence_penalty"),
              ({"frequency_penalty": 3}, "frequency_penalty")]
    cases += [({"n": v}, "n") for v in (0, -1, 129, 10000)]
    cases += [({"top_logprobs": 3}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs")]
    cases += [({"logit_bias": v}, "logit_bias") for v in ({"abc": 1}, {"999999999": 1}, {"1": 101})]
    cases += [({"modalities": ["text", "audio"], "audio": {"voice": "x", "format": "wav"}}, "modalities"),
              ({"web_search_options": {}}, "web_search_options"), ({"functions": [{"name": "f"}]}, "functions"),
              ({"reasoning_effort": "banana"}, "reasoning_effort")]
    for change, param in cases:
        refuses(s, change, param)


def test_stops_of_one_two_and_six_texts(s):
    whole = text(s.chat("Count to 10."))
    assert ", 5" in whole, whole
    for stop in (",", [", 5", "10"], ["x1", "x2", "x3", "x4", "x5", ", 5"]):
        completion = s.chat("Count to 10.", stop=stop)
        first = min(whole.index(t) for t in ([stop] if isinstance(stop, str) else stop) if t in whole)
        assert text(completion) == whole[:first]
        assert completion.choices[0].finish_reason == "stop"


def test_many_choices_share_a_prompt(s):
    completion = s.chat(STORY, n=3, temperature=1, max_tokens=8)
    assert [c.index for c in completion.choices] == [0, 1, 2]
    assert completion.usage.prompt_tokens == s.chat(STORY, max_tokens=1).usage.prompt_tokens
    many = s.chat(STORY, n=128, temperature=1, max_tokens=2, seed=3)
    assert [c.index for c in many.choices] == list(range(128))
    assert many.usage.completion_tokens <= 256


def test_unknown_fields_are_named_and_ignore_eos_is_exact(s):
    status, headers, answer = ask(s, foo=1, ignore_eos=True, max_tokens=20)
    assert status == 200 and headers["x-mlxserve-ignored"] == "foo"
    assert answer["usage"]["completion_tokens"] == 20 and answer["choices"][0]["finish_reason"] == "length"


def test_unknown_fields_are_refused_with_strict_parameters(s):
    other = Server(s.process.args[0], "--strict-params")
    try:
        error = refuses(other, {"foo": 1}, "foo", code="unknown_parameter")
        assert "foo" in error["message"]
        assert error_of(other.post("/v1/completions", {"model": other.model, "prompt": "x", "foo": 1}))[1] == "unknown_parameter"
        assert other.chat(CAPITAL).choices[0].finish_reason == "stop"
    finally:
        other.stop()


def test_a_prediction_changes_nothing(s):
    whole = text(s.chat(STORY))
    for content in (whole, [{"type": "text", "text": whole}], "something else entirely"):
        assert text(s.chat(STORY, prediction={"type": "content", "content": content})) == whole


def test_an_overlong_prompt_is_refused(s):
    for stream in (False, True):
        error = refuses(s, {"messages": "word " * 5000, "stream": stream}, "messages", code="context_length_exceeded")
        numbers = [int(word) for word in error["message"].replace(",", " ").split() if word.isdigit()]
        assert 2048 in numbers and max(numbers) > 2048, error
    assert ask(s)[0] == 200


def test_a_json_object_is_an_object(s):
    for content in ("Reply with a JSON object with name and age.", CAPITAL, "Say hello"):
        completion = s.chat(content, response_format={"type": "json_object"}, max_tokens=400)
        if completion.choices[0].finish_reason == "stop":
            assert isinstance(json.loads(text(completion)), dict), text(completion)
    completion = s.chat(CAPITAL, response_format={"type": "json_object", "schema": PERSON}, max_tokens=400)
    assert json.loads(text(completion)).keys() == {"name", "age"}


class Colour(str, Enum):
    red = "red"
    blue = "blue"


class Address(BaseModel):
    city: str
    number: Optional[int]


class Person(BaseModel):
    name: str
    age: int
    colour: Colour
    address: Address
    tags: list[Colour]
    nickname: Optional[Colour] = None


def test_a_pydantic_model_twenty_times(s):
    lengths = 0
    for seed in range(20):
        try:
            completion = s.client.chat.completions.parse(
                model=s.model, messages=[{"role": "user", "content": "Alice is 30 years old. Write this as JSON."}],
                response_format=Person, temperature=1, seed=seed, max_tokens=600, reasoning_effort="none")
        except openai.LengthFinishReasonError:
            # A small model at temperature 1 may write on in a string.
            lengths += 1
            continue
        assert isinstance(completion.choices[0].message.parsed, Person)
    assert lengths < 10, f"{lengths} of 20 answers were cut off"
    return f"{20 - lengths} parsed, {lengths} cut off"


def test_a_limit_inside_the_json(s):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    completion = s.chat(CAPITAL, response_format=form, max_tokens=3)
    assert completion.choices[0].finish_reason == "length"
    try:
        s.client.chat.completions.parse(
            model=s.model, messages=[{"role": "user", "content": "x"}], response_format=Person, max_tokens=3,
            reasoning_effort="none")
    except openai.LengthFinishReasonError:
        return
    raise AssertionError("parsed an answer that was cut off")


def test_bad_response_formats_are_refused(s):
    def schema(value):
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}}

    refuses(s, {"response_format": {"type": "json_schema"}}, "response_format")
    refuses(s, {"response_format": {"type": "sound"}}, "response_format")
    refuses(s, {"response_format": "json"}, "response_format")
    refuses(s, schema({"type": 123}), "response_format")
    refuses(s, schema([]), "response_format")
    refuses(s, schema("x"), "response_format")
    error = refuses(s, schema({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}), "response_format")
    assert "/properties/a" in error["param"], error
    refuses(s, {"guided_regex": "("}, "guided_regex")
    refuses(s, {"guided_grammar": "root ::= missing"}, "guided_grammar")
    refuses(s, {**schema(PERSON), "ignore_eos": True}, "ignore_eos")


def test_text_is_the_default_format(s):
    assert text(s.chat(CAPITAL, response_format={"type": "text"})) == text(s.chat(CAPITAL))


def test_regex_choice_and_grammar(s):
    assert text(s.chat(YES, extra_body={"guided_choice": ["Maybe", "Perhaps"]})) in ("Maybe", "Perhaps")
    assert text(s.chat(YES, extra_body={"structured_outputs": {"choice": ["a\nb"]}})) == "a\nb"
    completion = s.chat(CAPITAL, extra_body={"guided_regex": "[0-9]{3}-[a-f]{2}"})
    value = text(completion)
    assert len(value) == 6 and value[:3].isdigit() and value[3] == "-", value
    assert completion.choices[0].finish_reason == "stop"
    grammar = 'root ::= "<" word ("," word)? ">"\nword ::= "Paris" | "Rome"'
    for field in ("guided_grammar", "grammar"):
        assert text(s.chat(CAPITAL, extra_body={field: grammar})) in (
            "<Paris>", "<Rome>", "<Paris,Paris>", "<Paris,Rome>", "<Rome,Paris>", "<Rome,Rome>")
    assert json.loads(text(s.chat(CAPITAL, extra_body={"guided_json": PERSON}, max_tokens=300))).keys() == PERSON["properties"].keys()


def test_quotes_stand_in_what_was_asked_about(s):
    story = 'Once upon a time a fox said:\n"Where is the café?" Nobody knew, and the fox went home to sleep.'
    messages = [{"role": "system", "content": story}, {"role": "user", "content": "What did the fox ask?"}]
    quote = {"type": "string", "x-quote-of": {"from": "messages"}, "minLength": 8, "maxLength": 40}
    answer = {"type": "object", "required": ["quotes"], "properties": {
        "quotes": {"type": "array", "items": quote, "minItems": 2, "maxItems": 2}}}
    completion = s.chat(messages, max_tokens=300, response_format={
        "type": "json_schema", "json_schema": {"name": "quotes", "schema": answer}})
    quotes = json.loads(text(completion))["quotes"]
    assert len(quotes) == 2 and all(8 <= len(quote) <= 40 for quote in quotes), quotes
    assert all(quote in story or quote in messages[1]["content"] for quote in quotes), quotes
    whole = text(s.chat(messages, max_tokens=300, response_format={"type": "quote", "source": [story]}))
    assert whole and whole in story, whole
    refuses(s, {"response_format": {"type": "quote", "source": 3}}, "response_format.source")
    refuses(s, {"response_format": {"type": "quote"}}, "response_format.source")
    refuses(s, {"response_format": {"type": "quote", "source": ""}}, "response_format.source")
    refused(lambda: s.complete("x", extra_body={"guided_json": {"x-quote-of": {"from": "messages"}}}), 400, "guided_json/x-quote-of")


def test_strange_characters_come_back_unchanged(s):
    strange = "👩‍👩‍👧‍👦 漢字 שלום \u0000 é e\u0301 🏳️‍🌈 ﷽"
    assert ask(s, messages=strange)[0] == 200
    completion = s.chat("x", extra_body={"guided_choice": [strange.replace("\u0000", "")]}, max_tokens=300)
    assert text(completion) == strange.replace("\u0000", "")


def test_a_conversation_of_a_thousand_turns(s):
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": "Hi"} for i in range(2001)]
    begin = time.monotonic()
    refuses(s, {"messages": messages}, "messages", code="context_length_exceeded")
    assert time.monotonic() - begin < 10


def test_a_long_prefix_is_computed_once(s):
    messages = [{"role": "system", "content": "You are a helpful assistant. " * 30}, {"role": "user", "content": CAPITAL}]
    first, second = s.chat(messages), s.chat(messages)
    assert second.usage.prompt_tokens_details.cached_tokens > 0
    assert text(first) == text(second)


def test_reasoning_in_the_history_under_both_names(s):
    for name in ("reasoning_content", "reasoning"):
        messages = [{"role": "user", "content": "My name is Alice."},
                    {"role": "assistant", "content": "Hello, Alice! Nice to meet you.", name: "A greeting."},
                    {"role": "user", "content": "What is my name?"}]
        status, _, answer = ask(s, messages=messages)
        assert status == 200 and "Alice" in answer["choices"][0]["message"]["content"]


def test_a_thought_has_a_budget(s):
    def think(**options):
        status, _, answer = ask(s, **{"messages": YES, "reasoning_effort": None, **options})
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        return message.get("reasoning_content"), message["content"], answer["usage"]["completion_tokens_details"]["reasoning_tokens"]

    thought, _, tokens = think()
    assert thought and tokens > 12
    for options in ({"thinking_budget": 5}, {"reasoning": {"max_tokens": 5}},
                    {"thinking": {"type": "enabled", "budget_tokens": 5}},
                    {"chat_template_kwargs": {"thinking_budget": 5}}):
        cut, content, tokens = think(**options)
        assert cut and thought.startswith(cut) and cut != thought, options
        # The marker that opens the thought, five tokens, and what closes it.
        assert tokens <= 12, (options, tokens)
        assert content and "think>" not in content
    assert think(thinking_budget=500)[0] == thought
    none, content, tokens = think(thinking_budget=0)
    assert none is None and tokens == 0 and content == "Yes"
    forced, content, _ = think(thinking_budget=0, thinking=True)
    assert forced is None and content and "think>" not in content
    assert think(reasoning_effort="high")[0] == thought


def test_the_reasoning_field_is_chosen_by_a_flag(s):
    for option in ("reasoning", "both"):
        other = Server(s.process.args[0], "--reasoning-field", option)
        try:
            message = ask(other, messages=YES, reasoning_effort=None)[2]["choices"][0]["message"]
            assert message["reasoning"] and ("reasoning_content" in message) == (option == "both")
        finally:
            other.stop()


def test_a_thought_before_constrained_content(s):
    status, _, answer = ask(s, messages=YES, reasoning_effort=None, guided_choice=["Affirmative", "Negative"])
    message = answer["choices"][0]["message"]
    assert message["content"] in ("Affirmative", "Negative")
    assert message["reasoning_content"] and answer["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
    status, _, answer = ask(s, messages=YES, reasoning_effort=None, thinking_budget=3, guided_choice=["Affirmative"])
    assert answer["choices"][0]["message"]["content"] == "Affirmative"


def test_a_prefilled_answer_goes_on_within_its_format(s):
    messages = [{"role": "user", "content": CAPITAL}, {"role": "assistant", "content": '{"name": "Al'}]
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    completion = s.chat(messages, response_format=form, max_tokens=300, extra_body={"continue_final_message": True})
    value = json.loads('{"name": "Al' + text(completion))
    assert value["name"].startswith("Al") and isinstance(value["age"], int)
    messages[1]["content"] = "No JSON"
    refuses(s, {"messages": messages, "response_format": form, "continue_final_message": True}, "continue_final_message")


# 5.4 Tools


def test_the_model_calls_a_tool(s):
    completion = s.chat(PARIS, tools=[WEATHER])
    call = calls(completion)[0]
    assert completion.choices[0].finish_reason == "tool_calls" and call.id.startswith("call_")
    assert arguments(call) == {"location": "Paris"}


def test_required_forces_a_call(s):
    for options in ({}, {"stream": False}, {"parallel_tool_calls": False}):
        completion = s.chat("Hello!", tools=[WEATHER], tool_choice="required", max_tokens=300, **options)
        found = calls(completion)
        assert found and completion.choices[0].finish_reason == "tool_calls", completion
        assert all(c.function.name == "get_weather" and isinstance(arguments(c)["location"], str) for c in found)
    thinking = s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": PARIS}], tools=[WEATHER], tool_choice="required",
        temperature=0, parallel_tool_calls=False)
    assert calls(thinking) and thinking.choices[0].finish_reason == "tool_calls"


def test_a_named_tool_is_called_and_no_other(s):
    other = tool("set_lamp", {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]})
    completion = s.chat(PARIS, tools=[WEATHER, other], tool_choice=named("set_lamp"), max_tokens=300)
    assert [c.function.name for c in calls(completion)] == ["set_lamp"]
    assert isinstance(arguments(calls(completion)[0])["on"], bool)


def test_choices_without_their_tools(s):
    refuses(s, {"tools": [WEATHER], "tool_choice": named("gone")}, "tool_choice")
    refuses(s, {"tool_choice": "required"}, "tool_choice")
    refuses(s, {"tool_choice": named("get_weather")}, "tool_choice")


def test_null_is_as_absent_and_an_empty_list_is_no_tools(s):
    for change in ({"tools": None, "tool_choice": None}, {"tools": []}, {"tools": [], "tool_choice": "auto"}):
        status, _, answer = ask(s, **change)
        assert status == 200 and "tool_calls" not in answer["choices"][0]["message"]
    status, _, answer = ask(s, messages=PARIS, tools=[WEATHER], tool_choice=None)
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_parallel_calls(s):
    question = "What is the weather in Paris and London?"
    assert len(calls(s.chat(question, tools=[WEATHER], parallel_tool_calls=False))) <= 1
    assert len(calls(s.chat(question, tools=[WEATHER], parallel_tool_calls=False, tool_choice="required"))) == 1
    # The end of the answer is made unlikely, so that a second call begins; which is all that this model can show.
    found = two_calls(s)
    assert len(found) >= 2 and len({c.id for c in found}) == len(found)


def two_calls(s, **options):
    """Calls of a tool whose arguments can only be short."""
    short = tool("pick", {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
                          "additionalProperties": False})
    ends = {str(token): -100 for token in json.loads((s.demo / "generation_config.json").read_text())["eos_token_id"]}
    completion = s.chat("Hello!", tools=[short], tool_choice="required", max_tokens=90, logit_bias=ends, **options)
    return completion if options.get("stream") else calls(completion)


def test_results_of_every_shape(s):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'}}
    for content in ([{"type": "text", "text": "sunny"}], "", '{"sky": "sunny"}'):
        messages = [{"role": "user", "content": PARIS}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": content}]
        assert ask(s, messages=messages, tools=[WEATHER], max_tokens=20)[0] == 200
    messages[2]["content"] = "x" * 100_000
    refuses(s, {"messages": messages, "tools": [WEATHER]}, "messages", code="context_length_exceeded")


def test_no_parameters_and_strict_ones(s):
    completion = s.chat("Hello!", tools=[tool("ping")], tool_choice="required", parallel_tool_calls=False)
    assert arguments(calls(completion)[0]) == {}
    schema = {"type": "object", "additionalProperties": False, "required": ["city", "unit", "days"],
              "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["c", "f"]},
                             "days": {"type": "integer", "minimum": 1, "maximum": 9}}}
    strict = tool("forecast", schema, strict=True)
    for seed in range(5):
        completion = s.chat(PARIS, tools=[strict], tool_choice=named("forecast"), temperature=1, seed=seed, max_tokens=300)
        value = arguments(calls(completion)[0])
        assert value.keys() == schema["properties"].keys() and value["unit"] in ("c", "f") and 1 <= value["days"] <= 9
        free = s.chat(PARIS, tools=[strict], temperature=1, seed=seed, max_tokens=300)
        for call in calls(free):
            assert arguments(call).keys() == schema["properties"].keys()
    bad = tool("bad", {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, strict=True)
    refuses(s, {"tools": [WEATHER, bad]}, "tools[1].function.parameters")
    # Without strict such a schema is no promise.
    bad["function"]["strict"] = False
    assert ask(s, messages=PARIS, tools=[bad], tool_choice="required", max_tokens=60)[0] == 200


def test_bad_names_of_tools_are_refused(s):
    for function in ({"name": "a b"}, {"name": "a" * 129}, {}, {"name": ""}):
        refuses(s, {"tools": [{"type": "function", "function": function}]}, "tools[0]")
    refuses(s, {"tools": [WEATHER, WEATHER]}, "tools[1]")


def test_only_allowed_tools_are_called(s):
    clock = tool("get_time", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})

    def allowed(mode):
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named("get_time")]}}

    for question in (PARIS, "What time is it in Tokyo?"):
        completion = s.chat(question, tools=[WEATHER, clock], tool_choice=allowed("auto"))
        assert {c.function.name for c in calls(completion)} <= {"get_time"}
    completion = s.chat(PARIS, tools=[WEATHER, clock], tool_choice=allowed("required"), parallel_tool_calls=False)
    assert [c.function.name for c in calls(completion)] == ["get_time"]


def test_a_custom_tool_takes_text_that_its_expression_allows(s):
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-c]{3}"}}
    tool_ = {"type": "custom", "custom": {"name": "letters", "format": grammar}}
    choice = {"type": "custom", "custom": {"name": "letters"}}
    completion = s.chat(PARIS, tools=[tool_], tool_choice=choice)
    call = completion.choices[0].message.tool_calls[0]
    assert call.type == "custom" and call.custom.name == "letters"
    assert len(call.custom.input) == 3 and set(call.custom.input) <= set("abc")


def test_arguments_of_every_kind(s):
    value = {"quote": 'a "b" \\ c', "lines": "x\ny\tz", "unicode": "é漢🏛️", "object": {"k": [1, {"m": None}]}, "number": -1.5,
             "big": 12345678901, "yes": True, "no": False, "nothing": None, "tag": "</tool_call>"}
    schema = {"type": "object", "properties": {k: {"const": v} for k, v in value.items()}, "required": list(value),
              "additionalProperties": False}
    strange = tool("strange", schema, strict=True)
    completion = s.chat("Hello!", tools=[strange], tool_choice=named("strange"), max_tokens=600)
    assert arguments(calls(completion)[0]) == value
    chunks = list(s.chat("Hello!", tools=[strange], tool_choice=named("strange"), max_tokens=600, stream=True))
    streamed = "".join(t.function.arguments or "" for c in chunks for t in c.choices[0].delta.tool_calls or [])
    assert json.loads(streamed) == value


def test_results_of_calls_that_are_not_there(s):
    refuses(s, {"messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "y"}]}, "messages[1].tool_call_id")
    # A history that was cut has results whose calls are gone: they are read as text of the user.
    status, _, answer = ask(s, messages=[
        {"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "z", "content": "y"}], max_tokens=2)
    assert status == 200 and answer["usage"]["completion_tokens"] == 2, answer


def test_a_thought_and_then_a_call(s):
    status, _, answer = ask(s, messages=PARIS, tools=[WEATHER], reasoning_effort=None)
    choice = answer["choices"][0]
    assert choice["message"]["reasoning_content"] and choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"location": "Paris"}


def test_many_tools_are_cached_and_any_can_be_named(s):
    tools = [tool(f"f{i}", {"type": "object", "properties": {"a": {"type": "string"}}}) for i in range(20)]
    first = s.chat("Hello!", tools=tools, max_tokens=5)
    second = s.chat("Hello!", tools=tools, max_tokens=5)
    assert second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens / 2
    completion = s.chat("Hello!", tools=tools, tool_choice=named("f17"), max_tokens=200)
    assert [c.function.name for c in calls(completion)] == ["f17"]


def test_tools_and_a_format_together(s):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    completion = s.chat("Reply with a JSON object with name and age.", tools=[WEATHER], response_format=form, max_tokens=400)
    message = completion.choices[0].message
    if not message.tool_calls and completion.choices[0].finish_reason == "stop":
        assert json.loads(message.content).keys() == PERSON["properties"].keys()
    found = calls(s.chat(PARIS, tools=[WEATHER], response_format=form, max_tokens=400))
    assert found and arguments(found[0]) == {"location": "Paris"}


# 5.5 Streams


def events(s, **change):
    status, headers, data = s.post(CHAT, body(s, stream=True, **change))
    assert status == 200, data
    blocks = data.decode().split("\n\n")
    assert blocks[-1] == "" and blocks[-2] == "data: [DONE]"
    return [json.loads(block[6:]) for block in blocks[:-2] if not block.startswith(":")]


def test_the_first_and_the_last_chunk(s):
    for change in ({}, {"tools": [WEATHER], "messages": PARIS}, {"n": 3, "temperature": 1, "max_tokens": 9}):
        chunks = events(s, **change)
        for index in range(change.get("n", 1)):
            mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
            assert mine[0]["delta"]["role"] == "assistant"
            assert all("role" not in c["delta"] for c in mine[1:])
            assert mine[-1]["delta"] == {} and mine[-1]["finish_reason"]
            assert all(c["finish_reason"] is None for c in mine[:-1])


def test_stream_options_need_a_stream(s):
    refuses(s, {"stream_options": {"include_usage": True}}, "stream_options")


def test_streamed_calls_are_the_whole_calls(s):
    chunks = list(two_calls(s, stream=True))
    deltas = [t for c in chunks for t in c.choices[0].delta.tool_calls or []]
    begun = [t for t in deltas if t.id]
    assert [t.index for t in begun] == list(range(len(begun))) and len(begun) >= 2
    assert len({t.id for t in begun}) == len(begun)
    assert all(t.type == "function" and t.function.name == "pick" and not t.function.arguments for t in begun)
    assert all(not t.function.name and not t.type for t in deltas if not t.id)
    for index in (0, 1):
        assert json.loads("".join(t.function.arguments or "" for t in deltas if t.index == index))["n"] in (1, 2)
    with s.client.chat.completions.stream(
            model=s.model, messages=[{"role": "user", "content": PARIS}], tools=[{**WEATHER, "function": {**WEATHER["function"], "strict": True}}],
            temperature=0, reasoning_effort="none") as stream:
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    assert json.loads(final.choices[0].message.tool_calls[0].function.arguments) == {"location": "Paris"}


def test_arguments_come_piece_by_piece(s):
    chunks = events(s, messages=PARIS, tools=[WEATHER])
    pieces = [t["function"]["arguments"] for c in chunks for t in c["choices"][0]["delta"].get("tool_calls", [])]
    assert json.loads("".join(pieces)) == {"location": "Paris"} and len([p for p in pieces if p]) > 2


def test_two_choices_begin_in_order(s):
    with s.client.chat.completions.stream(
            model=s.model, messages=[{"role": "user", "content": STORY}], temperature=1, seed=1, n=2,
            reasoning_effort="none") as stream:
        final = stream.get_final_completion()
    assert [c.index for c in final.choices] == [0, 1]


def test_every_delta_is_whole_text(s):
    strange = "👩‍👩‍👧‍👦漢字שלום🏳️‍🌈é"
    chunks = events(s, guided_choice=[strange], max_tokens=300)
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == strange
    assert "\ufffd" not in json.dumps(chunks, ensure_ascii=False)


def test_no_prefix_of_a_stop_leaks(s):
    whole = text(s.chat(CAPITAL))
    stop = whole[4:] + " and more"
    chunks = list(s.chat(CAPITAL, stream=True, stop=[whole[4:12]]))
    assert joined(chunks) == whole[:4]
    assert joined(s.chat(CAPITAL, stream=True, stop=[stop])) == whole


def test_streamed_json_is_the_whole_json(s):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    chunks = events(s, messages="Reply with a JSON object with name and age.", response_format=form, max_tokens=400)
    value = json.loads("".join(c["choices"][0]["delta"].get("content") or "" for c in chunks))
    assert value.keys() == PERSON["properties"].keys()
    whole = ask(s, messages="Reply with a JSON object with name and age.", response_format=form, max_tokens=400)[2]
    assert json.loads(whole["choices"][0]["message"]["content"]) == value


def test_a_client_that_leaves_frees_its_place(s):
    other = Server(s.process.args[0], "--max-sequences", "1", "--queue-limit", "4")
    try:
        long = hello(other, stream=True, max_tokens=1900, ignore_eos=True)
        for count in (3, 0):
            with other.connect() as connection:
                connection.sendall(request(other, long))
                if count:
                    data = b""
                    while data.count(b"data: ") < count:
                        data += connection.recv(65536)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            begin = time.monotonic()
            assert ask(other, max_tokens=3)[0] == 200
            assert time.monotonic() - begin < 3
    finally:
        assert other.stop() == 0


def test_thirty_two_streams_do_not_mix(s):
    async def one(client, number):
        stream = await client.chat.completions.create(
            model=s.model, messages=[{"role": "user", "content": STORY}], temperature=0, reasoning_effort="none",
            stream=True, extra_body={"guided_choice": [f"I am number {number}."]})
        return joined([chunk async for chunk in stream])

    async def everybody():
        async with s.make_async_client() as client:
            return await asyncio.gather(*(one(client, n) for n in range(32)))

    assert asyncio.run(everybody()) == [f"I am number {n}." for n in range(32)]


def test_a_slow_reader_hinders_nobody(s):
    with s.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(request(s, hello(s, stream=True, max_tokens=400, ignore_eos=True), "Connection: close\r\n"))
        data = slow.recv(256)
        begin = time.monotonic()
        assert ask(s)[0] == 200
        assert time.monotonic() - begin < 5
        time.sleep(1)
        while piece := slow.recv(4096):
            data += piece
            time.sleep(0.001)
    assert b"data: [DONE]\n\n" in data and b'"finish_reason":"length"' in data


def test_tokens_come_one_by_one(s):
    chunks = events(s, messages=STORY, max_tokens=100, ignore_eos=True, logprobs=True)
    counts = [len(c["choices"][0]["logprobs"]["content"]) for c in chunks if c["choices"][0]["logprobs"]]
    assert sum(counts) > 50
    # Guessed tokens that hold come together, each in a piece of its own unless they arrive at one moment.
    return f"{counts.count(1)} of {len(counts)} chunks hold one token"


def test_a_stream_of_one_token(s):
    chunks = events(s, max_tokens=1)
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert len(deltas) == 3 and deltas[0]["role"] and deltas[1]["content"] and deltas[2] == {}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_accept_headers_do_not_matter(s):
    for header in (["Accept: text/event-stream"], ["Accept: application/json"], [], ["Accept-Encoding: gzip, br"]):
        status, headers, data = s.post(CHAT, body(s, stream=True, max_tokens=2), header)
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in headers and data.endswith(b"data: [DONE]\n\n")


# 5.8 Completions


def test_choices_are_numbered_prompt_by_prompt(s):
    for prompts in ("The capital", ["The capital", "One"], [298, 328], [[298, 328], [298]]):
        completion = s.complete(prompts, max_tokens=2, n=2)
        count = 2 if isinstance(prompts, list) and not isinstance(prompts[0], int) else 1
        assert [c.index for c in completion.choices] == list(range(2 * count))


def test_stops_and_refusals(s):
    whole = s.complete("1, 2, 3, 4,", max_tokens=12).choices[0].text
    assert s.complete("1, 2, 3, 4,", max_tokens=12, stop=[whole[4:7]]).choices[0].text == whole[:4]
    chunks = list(s.complete("1, 2, 3, 4,", max_tokens=12, n=2, stream=True))
    for index in (0, 1):
        assert "".join(c.choices[0].text for c in chunks if c.choices[0].index == index) == whole
    refused(lambda: s.complete("x", suffix="y"), 400, "suffix")


def test_completions_can_be_constrained(s):
    assert s.complete("The capital of France is", extra_body={"guided_choice": [" Rome", " Oslo"]}).choices[0].text in (" Rome", " Oslo")
    value = s.complete("JSON:", max_tokens=200, extra_body={"guided_json": PERSON}).choices[0].text
    assert json.loads(value).keys() == PERSON["properties"].keys()
    refused(lambda: s.complete("x", extra_body={"guided_regex": "("}), 400, "guided_regex")


# 5.9 Load


def memory(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


def test_the_server_is_there_when_it_says_so(s):
    other = Server(s.process.args[0])
    try:
        assert other.get("/health")[0] == 200 and ask(other, max_tokens=1)[0] == 200
    finally:
        assert other.stop() == 0


def test_sixty_four_clients_of_all_kinds(s):
    kinds = [
        {"messages": CAPITAL}, {"messages": STORY, "max_tokens": 30, "temperature": 1}, {"messages": PARIS, "tools": [WEATHER]},
        {"messages": CAPITAL, "guided_json": PERSON, "max_tokens": 60}, {"messages": YES, "reasoning_effort": None, "max_tokens": 60},
        {"messages": CAPITAL, "n": 3, "max_tokens": 10}, {"messages": CAPITAL, "stream": True}, {"messages": 5},
    ]

    def one(number):
        return s.post(CHAT, body(s, **kinds[number % len(kinds)]))[0]

    def everybody():
        with ThreadPoolExecutor(64) as pool:
            return list(pool.map(one, range(256)))

    everybody()
    has_proc = os.path.exists(f"/proc/{s.process.pid}/fd")
    before = (memory(s.process), len(os.listdir(f"/proc/{s.process.pid}/fd"))) if has_proc else (0, 0)
    statuses = everybody()
    assert set(statuses) <= {200, 400, 429} and statuses.count(400) == 32, statuses
    if has_proc:
        time.sleep(3)
        after = (memory(s.process), len(os.listdir(f"/proc/{s.process.pid}/fd")))
        assert after[0] < before[0] + 64 and after[1] <= before[1] + 8, (before, after)


def test_answers_are_the_same_alone_and_in_company(s):
    form = {"guided_json": PERSON, "max_tokens": 120}
    alone = [text(s.chat(STORY, max_tokens=60)), text(s.chat(CAPITAL, extra_body=form))]
    with ThreadPoolExecutor(16) as pool:
        stories = [pool.submit(s.chat, STORY, max_tokens=60) for _ in range(8)]
        forms = [pool.submit(s.chat, CAPITAL, extra_body=form) for _ in range(8)]
        assert {text(f.result()) for f in stories} == {alone[0]}
        assert {text(f.result()) for f in forms} == {alone[1]}


def test_runs_of_a_fixed_length(s):
    def run(number):
        chunks = list(s.chat(STORY, max_tokens=40 + number, stream=True, stream_options={"include_usage": True},
                             extra_body={"ignore_eos": True}))
        return chunks[-1].usage.completion_tokens

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(16))) == [40 + n for n in range(16)]


LOCAL = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
OPENAI = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}


@contextlib.contextmanager
def demo_without_recommendations(s):
    """The demo model with a generation_config.json that says nothing of sampling."""
    with tempfile.TemporaryDirectory() as folder:
        model = shutil.copytree(s.demo, folder + "/demo")
        config = pathlib.Path(model, "generation_config.json")
        config.write_text(json.dumps({"eos_token_id": json.loads(config.read_text())["eos_token_id"]}))
        yield model


def test_a_model_that_recommends_nothing_samples_as_local_servers_do(s):
    with demo_without_recommendations(s) as model:
        check_usual_sampling(s, model)
        shown = subprocess.run([s.binary, "show", model], capture_output=True, text=True).stdout
        assert "temperature 0.8, top_p 0.95, top_k 40, min_p 0.05 (this server's defaults)" in shown, shown


def check_usual_sampling(s, model):
    for flags, usual, other, said in (
        ((), LOCAL, OPENAI, LOCAL), (("--sampling", "openai"), OPENAI, LOCAL, {})
    ):
        server = Server(s.binary, *flags, model=model)
        try:
            def texts(**settings):
                body = {"model": server.model, "prompt": "The", "max_tokens": 12, "ignore_eos": True} | settings
                answers = [json.loads(server.post("/v1/completions", body | {"seed": seed})[2]) for seed in range(6)]
                return [answer["choices"][0]["text"] for answer in answers]

            assert texts() == texts(**usual) != texts(**other)
            # Each field takes the place of its own default alone.
            assert texts(top_k=3) == texts(**usual | {"top_k": 3})
            parameters = json.loads(server.get("/props")[2])["default_generation_settings"]["params"]
            assert {name: parameters[name] for name in usual} == usual
            capabilities = json.loads(server.get("/v1/capabilities")[2])["data"][0]
            assert capabilities["sampling"] == {"source": "default"} | said
        finally:
            server.stop()


def test_what_a_model_recommends_is_all_that_holds(s):
    # The demo model says `do_sample: false`.
    capabilities = json.loads(s.get("/v1/capabilities")[2])["data"][0]
    assert capabilities["sampling"] == {"source": "model", "temperature": 0}
    shown = subprocess.run([s.binary, "show", str(s.demo)], capture_output=True, text=True).stdout
    assert "temperature 0.0 (the model's)" in shown, shown
