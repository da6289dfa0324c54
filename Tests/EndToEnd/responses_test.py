"""The Responses API, with the strict SDK and with raw requests."""

import functools
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
from pydantic import BaseModel

from responses_events import PATH, check_response, stream
from sdk_test import CAPITAL, YES, refused
from server import Server

WEATHER = {
    "type": "function", "name": "get_weather", "description": "Get the current weather",
    "parameters": {
        "type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"],
        "additionalProperties": False},
}
ASK_WEATHER = "What is the weather in Paris?"
PNG = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
       "rkJggg==")


def create(s, content=None, **options):
    """A greedy response without thinking, unless told otherwise."""
    options.setdefault("temperature", 0)
    options.setdefault("reasoning", {"effort": "none"})
    if content is not None:
        options["input"] = content
    response = s.client.responses.create(model=s.model, **options)
    if not options.get("stream"):
        check_response(raw_of(response))
    return response


def raw_of(response):
    """The JSON that the SDK was sent."""
    body = response.model_dump(exclude_unset=True)
    for name in ("created_at", "completed_at"):
        assert body[name] is None or body[name] == int(body[name])
        body[name] = body[name] and int(body[name])
    return body


def raw(s, **body):
    status, headers, answer = s.post(PATH, {"model": s.model, "temperature": 0, **body})
    return status, headers, json.loads(answer)


def user(text, **more):
    return {"role": "user", "content": text, **more}


def constrained(param):
    """For tests that need constrained output: until the server has it, the refusal must name `param`."""

    def decorate(test):
        @functools.wraps(test)
        def run(s):
            try:
                return test(s)
            except openai.BadRequestError as error:
                if error.code != "unsupported_value" or error.param != param:
                    raise
                return f"output is not constrained yet: {param} is refused"

        return run

    return decorate


def call_item(response):
    calls = [item for item in response.output if item.type == "function_call"]
    assert calls, response.output
    return calls[0]


# Answers


def test_a_plain_answer(s):
    response = create(s, CAPITAL)
    assert response.status == "completed" and response.output_text == "The capital of France is Paris."
    assert response.id.startswith("resp_") and response.output[0].id.startswith("msg_")


def test_every_required_member_is_there(s):
    status, _, body = raw(s, input=CAPITAL)
    assert status == 200
    check_response(body)
    assert [item["type"] for item in body["output"]] == ["reasoning", "message"]


def test_forms_of_a_message(s):
    forms = [CAPITAL, [user(CAPITAL)], [user(CAPITAL, type="message")],
             [user([{"type": "input_text", "text": CAPITAL}])],
             [user([{"type": "input_text", "text": CAPITAL[:5]}, {"type": "input_text", "text": CAPITAL[5:]}])]]
    answers = [create(s, form) for form in forms]
    assert len({answer.usage.input_tokens for answer in answers}) == 1
    assert len({answer.output_text for answer in answers}) == 1


def test_instructions_are_shown_and_not_inherited(s):
    words = "You are a helpful assistant."
    plain, instructed = create(s, CAPITAL), create(s, CAPITAL, instructions=words)
    assert instructed.instructions == words
    as_item = create(s, [{"role": "system", "content": words}, user(CAPITAL)])
    assert instructed.usage.input_tokens == as_item.usage.input_tokens > plain.usage.input_tokens
    after_plain = create(s, "And of Italy?", previous_response_id=plain.id)
    after_instructed = create(s, "And of Italy?", previous_response_id=instructed.id)
    assert after_instructed.instructions is None
    assert after_instructed.usage.input_tokens == after_plain.usage.input_tokens


def test_system_and_developer(s):
    for role in ("system", "developer"):
        answer = create(s, [{"role": role, "content": "You are a helpful assistant."}, user(CAPITAL)])
        assert "Paris" in answer.output_text
    create(s, [{"role": "system", "content": "Be brief."}, user(CAPITAL)], instructions="You are a helpful assistant.")


def test_several_turns(s):
    answer = create(s, [
        user("My name is Alice."), {"role": "assistant", "content": "Hello, Alice! Nice to meet you."},
        user("What is my name?")])
    assert "Alice" in answer.output_text


def test_history_in_all_its_forms(s):
    text = {"type": "output_text", "text": "Hello, Alice! Nice to meet you."}
    thought = {"type": "reasoning", "summary": []}
    content = [{"type": "reasoning_text", "text": "A greeting."}]
    histories = [
        [{"role": "assistant", "content": [text]}],
        [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
          "content": [{**text, "annotations": [], "logprobs": []}]}],
        [{**thought, "id": "rs_1", "content": content, "status": "completed"},
         {"role": "assistant", "content": [text]}],
        [{**thought, "content": None, "encrypted_content": None}, {"role": "assistant", "content": [text]}],
        [{**thought, "encrypted_content": "gAAAAABforeign=="}, {"role": "assistant", "content": [text]}],
        [{"role": "assistant", "content": "Hello, Alice!"}, {"role": "assistant", "content": "Nice to meet you."}],
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot do that."}]}],
    ]
    for history in histories:
        status, _, body = raw(s, input=[user("My name is Alice."), *history, user("What is my name?")])
        assert status == 200, (history, body)
        check_response(body)
    trailing = [user(CAPITAL), {**thought, "content": content}]
    assert raw(s, input=trailing)[0] == 200


def test_phases_are_kept(s):
    for phase in ("commentary", "final_answer", None):
        answer = create(s, [user("Hi"), {"role": "assistant", "content": "Hello!", "phase": phase}, user(CAPITAL)])
        kept = s.client.responses.input_items.list(answer.id, order="asc").data[1]
        assert kept.phase == phase
    assert raw(s, input=[{"role": "assistant", "content": "x", "phase": "other"}])[0] == 400


def test_inputs_that_are_none(s):
    cases = [
        ({}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": [5]}, "input[0]"),
        ({"input": [{"content": "x"}]}, "input[0].type"), ({"input": [user("x"), {"type": "nope"}]}, "input[1].type"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [user(5)]}, "input[0].content"),
        ({"input": [user([{"type": "text", "text": "x"}])]}, "input[0].content[0].type"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "computer_call", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "compaction"}]}, "input[0].encrypted_content"),
        ({"input": [{"type": "compaction", "encrypted_content": "AAAA"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_nope"}]}, "input[0]"),
    ]
    for members, param in cases:
        status, _, body = raw(s, **members)
        assert (status, body["error"]["param"]) == (400, param), (members, status, body)
        assert body["error"].keys() == {"message", "type", "param", "code"}


def test_a_model_that_is_not_served_is_refused(s):
    assert json.loads(s.post(PATH, {"input": "x"})[2])["error"]["param"] == "model"
    refused(lambda: s.client.responses.create(model="nope", input="x"), 404, "model", "model_not_found")


def test_the_token_limit(s):
    response = create(s, "Tell me a story.", max_output_tokens=8)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
    assert response.output[-1].status == "incomplete" and response.usage.output_tokens == 8
    assert response.max_output_tokens == 8


def test_limits_that_are_none(s):
    for value in (0, -1, 1.5, "8"):
        status, _, body = raw(s, input="x", max_output_tokens=value)
        assert (status, body["error"]["param"]) == (400, "max_output_tokens"), body


def test_settings_are_echoed(s):
    response = create(
        s, CAPITAL, temperature=0.25, top_p=0.5, metadata={"a": "b"}, truncation="auto", parallel_tool_calls=False,
        service_tier="auto", max_tool_calls=3, safety_identifier="who", prompt_cache_key="key", user="u",
        text={"verbosity": "low"}, reasoning={"effort": "low", "summary": "auto"})
    assert (response.temperature, response.top_p) == (0.25, 0.5)
    assert response.metadata == {"a": "b"} and response.truncation == "auto"
    assert response.parallel_tool_calls is False and response.max_tool_calls == 3
    assert response.service_tier == "default"
    assert (response.safety_identifier, response.prompt_cache_key, response.user) == ("who", "key", "u")
    assert response.text.verbosity == "low" and response.text.format.type == "text"
    assert (response.reasoning.effort, response.reasoning.summary) == ("low", "auto")
    for effort in ("minimal", "max"):
        assert create(s, CAPITAL, reasoning={"effort": effort}).reasoning.effort is None
    status, _, body = raw(s, input=CAPITAL, temperature=None)
    assert status == 200 and body["temperature"] is not None and body["top_p"] is not None


def test_metadata_has_limits(s):
    cases = [{str(n): "x" for n in range(17)}, {"k" * 65: "x"}, {"k": "v" * 513}, {"k": 1}, "x"]
    for metadata in cases:
        status, _, body = raw(s, input="x", metadata=metadata)
        assert status == 400 and body["error"]["param"].startswith("metadata"), body
    assert raw(s, input="Hello!", metadata={"k" * 64: "v" * 512})[0] == 200


class Capital(BaseModel):
    country: str
    capital: str


@constrained("text.format")
def test_a_parsed_answer(s):
    response = s.client.responses.parse(
        model=s.model, input="Give the capital of France as JSON.", text_format=Capital, temperature=0,
        reasoning={"effort": "none"})
    assert response.status == "completed" and isinstance(response.output_parsed, Capital)
    assert response.text.format.type == "json_schema"
    assert response.text.format.schema_["properties"].keys() == {"country", "capital"}


@constrained("text.format")
def test_a_json_object(s):
    response = create(s, "Give the capital of France as JSON.", text={"format": {"type": "json_object"}})
    assert isinstance(json.loads(response.output_text), dict) and response.text.format.type == "json_object"


def test_formats_that_are_none(s):
    cases = [
        ({"type": "json_schema", "name": "x"}, "text.format.schema"),
        ({"type": "json_schema", "schema": {}}, "text.format.name"),
        ({"type": "json_schema", "name": "x", "schema": 5}, "text.format.schema"),
        ({"type": "nope"}, "text.format.type"), ({}, "text.format.type"), ("json", "text.format"),
    ]
    for format, param in cases:
        status, _, body = raw(s, input="x", text={"format": format})
        assert (status, body["error"]["param"]) == (400, param), (format, body)


# Tools


def test_a_tool_is_called(s):
    response = create(s, ASK_WEATHER, tools=[WEATHER])
    call = call_item(response)
    assert response.status == "completed" and call.name == "get_weather" and call.status == "completed"
    assert json.loads(call.arguments) == {"location": "Paris"}
    assert call.id.startswith("fc_") and call.call_id.startswith("call_")
    assert raw_of(response)["tools"] == [{**WEATHER, "strict": None}]
    assert raw(s, input="Hello!", tools=[{"type": "function", "name": "f"}])[2]["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}]


def test_no_call_and_allowed_tools(s):
    response = create(s, ASK_WEATHER, tools=[WEATHER], tool_choice="none")
    assert response.tool_choice == "none" and all(item.type == "message" for item in response.output)
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}
    allowed = create(s, ASK_WEATHER, tools=[WEATHER, {**WEATHER, "name": "other"}], tool_choice=choice)
    assert raw_of(allowed)["tool_choice"] == choice and call_item(allowed).name == "get_weather"
    assert len(allowed.tools) == 2
    for bad, param in [({"type": "function", "name": "nope"}, "tool_choice.name"), ("sometimes", "tool_choice"),
                       ({"type": "web_search"}, "tool_choice.type"), ("required", "tool_choice")]:
        tools = [] if bad == "required" else [WEATHER]
        status, _, body = raw(s, input="x", tools=tools, tool_choice=bad)
        assert (status, body["error"]["param"]) == (400, param), body


@constrained("tool_choice")
def test_a_forced_call(s):
    for choice in ("required", {"type": "function", "name": "get_weather"}):
        response = create(s, CAPITAL, tools=[WEATHER], tool_choice=choice)
        assert raw_of(response)["tool_choice"] == choice
        assert call_item(response).name == "get_weather"


@constrained("tools[0].strict")
def test_a_strict_tool(s):
    response = create(s, ASK_WEATHER, tools=[{**WEATHER, "strict": True}])
    assert json.loads(call_item(response).arguments).keys() == {"location"}
    assert raw_of(response)["tools"][0]["strict"] is True


def test_chat_tools_are_refused(s):
    status, _, body = raw(s, input="x", tools=[{"type": "function", "function": {"name": "f"}}])
    assert (status, body["error"]["param"]) == (400, "tools[0].function")


def test_names_of_tools_are_checked(s):
    for name in ("get weather", "", "x" * 129):
        status, _, body = raw(s, input="x", tools=[WEATHER, {**WEATHER, "name": name}])
        assert (status, body["error"]["param"]) == (400, "tools[1].name"), body
        assert "tools[1].name" in body["error"]["message"]


def test_tools_of_a_provider_are_left_out_unless_they_are_to_be_refused(s):
    tools = [{"type": "web_search"}, WEATHER, {"type": "shell", "environment": {"type": "container_auto"}}]
    status, headers, body = raw(s, input=ASK_WEATHER, tools=tools, reasoning={"effort": "none"})
    assert status == 200 and [tool["name"] for tool in body["tools"]] == ["get_weather"]
    assert headers["x-mlxserve-ignored"] == "tools[0].type=web_search, tools[2].type=shell"
    assert body["output"][0]["type"] == "function_call"
    bad = raw(s, input="x", tools=[{"type": "web_search"}, {**WEATHER, "name": ""}])[2]
    assert bad["error"]["param"] == "tools[1].name"
    strict = Server(s.binary, "--refuse-hosted-tools")
    try:
        for kind in ("web_search", "code_interpreter", "image_generation"):
            status, _, body = raw(strict, input="x", tools=[WEATHER, {"type": kind, "name": "x"}])
            assert (status, body["error"]["param"]) == (400, "tools[1].type"), body
    finally:
        assert strict.stop() == 0


def test_a_round_trip_by_items(s):
    call = call_item(create(s, ASK_WEATHER, tools=[WEATHER]))
    result = '{"temperature": 21, "sky": "sunny"}'
    answers = []
    for output in (result, [{"type": "input_text", "text": result}]):
        answer = create(s, [
            user(ASK_WEATHER), call.model_dump(exclude_unset=True),
            {"type": "function_call_output", "call_id": call.call_id, "output": output}], tools=[WEATHER])
        assert answer.status == "completed" and ("21" in answer.output_text or "sunny" in answer.output_text)
        answers.append(answer)
    assert answers[0].usage.input_tokens == answers[1].usage.input_tokens
    chat = s.chat([
        {"role": "user", "content": ASK_WEATHER},
        {"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}]},
        {"role": "tool", "tool_call_id": "c", "content": result}],
        tools=[{"type": "function", "function": {k: v for k, v in WEATHER.items() if k != "type"}}])
    assert chat.usage.prompt_tokens == answers[0].usage.input_tokens
    assert chat.choices[0].message.content == answers[0].output_text


def test_a_result_without_a_call(s):
    status, _, body = raw(s, input=[{"type": "function_call_output", "call_id": "call_x", "output": "1"}])
    assert status == 200
    text = "Result of a call (call_x):\n<tool_response>\n1\n</tool_response>"
    assert body["usage"]["input_tokens"] == raw(s, input=text)[2]["usage"]["input_tokens"]


# Chains


def test_a_chain_remembers(s):
    first = create(s, "My name is Alice.")
    second = create(s, "What is my name?", previous_response_id=first.id)
    assert "Alice" in second.output_text and second.previous_response_id == first.id
    by_hand = create(s, [
        user("My name is Alice."), {"role": "assistant", "content": first.output_text}, user("What is my name?")])
    assert by_hand.usage.input_tokens == second.usage.input_tokens
    assert by_hand.output_text == second.output_text


def test_long_chains_and_branches(s):
    chain = [create(s, "My name is Alice.")]
    for _ in range(4):
        chain.append(create(s, CAPITAL, previous_response_id=chain[-1].id))
    tokens = [link.usage.input_tokens for link in chain]
    steps = [b - a for a, b in zip(tokens[1:], tokens[2:])]
    assert len(set(steps)) == 1 and steps[0] > 0, tokens
    left = create(s, "What is my name?", previous_response_id=chain[0].id)
    right = create(s, "What is 2+2?", previous_response_id=chain[0].id)
    texts = [[part.text for item in s.client.responses.input_items.list(branch.id, order="asc")
              if item.role == "user" for part in item.content] for branch in (left, right)]
    assert texts == [["My name is Alice.", "What is my name?"], ["My name is Alice.", "What is 2+2?"]]
    s.client.responses.delete(chain[2].id)
    assert create(s, "Hello!", previous_response_id=chain[4].id).status == "completed"


def test_a_round_trip_by_chain_without_tools(s):
    first = create(s, ASK_WEATHER, tools=[WEATHER])
    output = {"type": "function_call_output", "call_id": call_item(first).call_id, "output": '{"temperature": 21}'}
    second = create(s, [output], previous_response_id=first.id)
    assert second.status == "completed" and second.output and second.tools == []
    with_tools = create(s, [output], previous_response_id=first.id, tools=[WEATHER])
    assert "21" in with_tools.output_text


def test_nothing_to_go_on_from(s):
    gone = create(s, "Hello!")
    s.client.responses.delete(gone.id)
    unstored = create(s, "Hello!", store=False)
    for id in ("resp_unknown", gone.id, unstored.id):
        error = refused(
            lambda: create(s, "x", previous_response_id=id), 400, "previous_response_id", "previous_response_not_found")
        assert error.body["message"] == f"Previous response with id '{id}' not found."


def test_chain_and_conversation_together(s):
    status, _, body = raw(s, input="x", previous_response_id="resp_x", conversation="conv_x")
    assert status == 400 and body["error"]["param"] == "previous_response_id"


# The store


def test_stored_and_not_stored(s):
    for options in ({}, {"tools": [WEATHER]}, {"reasoning": {}}):
        stored = create(s, ASK_WEATHER, **options)
        assert s.client.responses.retrieve(stored.id) == stored
    unstored = create(s, "Hello!", store=False)
    assert unstored.store is False
    error = refused(lambda: s.client.responses.retrieve(unstored.id), 404)
    assert error.body["message"] == f"Response with id '{unstored.id}' not found."


def test_a_deleted_response_is_gone(s):
    response = create(s, "Hello!")
    status, _, body = s.delete(f"{PATH}/{response.id}")
    assert (status, json.loads(body)) == (200, {"id": response.id, "object": "response", "deleted": True})
    refused(lambda: s.client.responses.retrieve(response.id), 404)
    refused(lambda: s.client.responses.delete(response.id), 404)
    refused(lambda: s.client.responses.input_items.list(response.id), 404)


def test_input_items_are_listed_in_pages(s):
    first = create(s, "My name is Alice.")
    items = s.client.responses.input_items.list(first.id).data
    assert [item.content[0].text for item in items] == ["My name is Alice."] and items[0].id.startswith("msg_")
    listed = create(s, [user("a", id="msg_mine"), {"role": "assistant", "content": "b"}, user("c")])
    items = s.client.responses.input_items.list(listed.id, order="asc").data
    assert [item.content[0].text for item in items] == ["a", "b", "c"] and items[0].id == "msg_mine"
    assert s.client.responses.input_items.list(listed.id).data == items[::-1]
    assert list(s.client.responses.input_items.list(listed.id, limit=1, order="asc")) == items
    assert list(s.client.responses.input_items.list(listed.id, limit=2)) == items[::-1]
    page = json.loads(s.get(f"{PATH}/{listed.id}/input_items?limit=2&order=asc")[2])
    assert page["first_id"] == items[0].id and page["last_id"] == items[1].id and page["has_more"] is True
    assert page["object"] == "list"
    second = create(s, "What is my name?", previous_response_id=first.id)
    chained = s.client.responses.input_items.list(second.id, order="asc").data
    assert [item.id for item in chained[:-1]] == [
        s.client.responses.input_items.list(first.id).data[0].id, first.output[0].id]
    for query in ("limit=0", "limit=101", "limit=x", "order=up", "after=nope"):
        assert s.get(f"{PATH}/{listed.id}/input_items?{query}")[0] == 400, query
    repeated = create(s, [user("a", id="same"), user("b", id="same"), user("c", id="same")])
    assert len(list(s.client.responses.input_items.list(repeated.id, limit=1))) >= 1


def test_references_to_items(s):
    first = create(s, "My name is Alice.")
    given = s.client.responses.input_items.list(first.id).data[0]
    answer = create(s, [
        {"type": "item_reference", "id": given.id}, {"id": first.output[0].id}, user("What is my name?")])
    assert "Alice" in answer.output_text


def test_counting_tokens(s):
    for options in ({}, {"instructions": "Be brief."}, {"tools": [WEATHER]}):
        response = create(s, ASK_WEATHER, **options)
        count = s.client.responses.input_tokens.count(
            model=s.model, input=ASK_WEATHER, reasoning={"effort": "none"}, **options)
        assert count.input_tokens == response.usage.input_tokens and count.object == "response.input_tokens"
    first = create(s, "Hello!")
    second = create(s, "What is 2+2?", previous_response_id=first.id)
    assert s.client.responses.input_tokens.count(
        model=s.model, input="What is 2+2?", previous_response_id=first.id, reasoning={"effort": "none"}
    ).input_tokens == second.usage.input_tokens
    assert s.client.responses.input_tokens.count(model=s.model, input="word " * 5000).input_tokens > 2048


def test_a_foreground_response_cannot_be_cancelled(s):
    error = refused(lambda: s.client.responses.cancel(create(s, "Hello!").id), 400)
    assert error.body["message"] == "Cannot cancel a synchronous response."
    refused(lambda: s.client.responses.cancel("resp_nope"), 404)


def poll(s, id, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        response = s.client.responses.retrieve(id)
        check_response(raw_of(response))
        if response.status not in ("queued", "in_progress"):
            return response
        time.sleep(0.05)
    raise AssertionError(f"{id} is {response.status}")


def test_a_background_response_is_queued_and_completes(s):
    queued = create(s, CAPITAL, background=True)
    assert queued.status == "queued" and queued.background is True and queued.output == []
    done = poll(s, queued.id)
    assert done.status == "completed" and "Paris" in done.output_text
    assert s.client.responses.cancel(done.id) == done
    status, _, body = raw(s, input="x", background=True, store=False)
    assert status == 400 and body["error"]["param"] == "background"
    assert body["error"]["message"].endswith("background can only be used when `store` is true.")
    assert raw(s, input=[], background=True)[0] == 400
    assert raw(s, input="word " * 5000, background=True)[2]["error"]["code"] == "context_length_exceeded"


def endless(s, **options):
    return create(s, "Tell me a story.", max_output_tokens=1900, extra_body={"ignore_eos": True}, **options)


def test_a_background_response_can_be_cancelled(s):
    running = endless(s, background=True)
    refused(lambda: create(s, "x", previous_response_id=running.id), 400, "previous_response_id")
    cancelled = s.client.responses.cancel(running.id)
    check_response(raw_of(cancelled))
    assert cancelled.status == "cancelled"
    assert all(item.status == "incomplete" for item in cancelled.output[-1:])
    assert s.client.responses.retrieve(running.id) == cancelled == s.client.responses.cancel(running.id)
    deleted = endless(s, background=True)
    s.client.responses.delete(deleted.id)
    refused(lambda: poll(s, deleted.id), 404)


# Include, truncation, reasoning


def test_log_probabilities_are_included_on_request(s):
    assert create(s, CAPITAL, include=[]).output[0].content[0].logprobs == []
    response = create(s, CAPITAL, include=["message.output_text.logprobs"], top_logprobs=3)
    entries = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries) == response.output_text
    for entry in entries:
        assert entry.logprob <= 0 and bytes(entry.bytes).decode() == entry.token
        assert len(entry.top_logprobs) == 3 and entry.top_logprobs[0].logprob == entry.logprob
    assert response.top_logprobs == 3 and s.client.responses.retrieve(response.id) == response
    bare = create(s, CAPITAL, include=["message.output_text.logprobs"]).output[0].content[0]
    assert bare.logprobs[0].top_logprobs == []
    for include, param in [(["nope"], "include[0]"), ([5], "include[0]"), ("x", "include")]:
        status, _, body = raw(s, input="x", include=include)
        assert (status, body["error"]["param"]) == (400, param)
    assert raw(s, input="x", top_logprobs=21)[2]["error"]["param"] == "top_logprobs"


def test_overlong_inputs_are_refused_or_truncated(s):
    turns = []
    for number in range(200):
        turns += [user(f"What is {number}+1?"), {"role": "assistant", "content": f"It is {number + 1}."}]
    long = [{"role": "system", "content": "You are a helpful assistant."}, *turns, user(CAPITAL)]
    for options in ({}, {"truncation": "disabled"}, {"stream": True}):
        status, _, body = raw(s, input=long, **options)
        error = body["error"]
        assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "input"), error
    response = create(s, long, truncation="auto")
    assert "Paris" in response.output_text and 1000 < response.usage.input_tokens < 2048
    short = create(s, [long[0], *long[-21:]], truncation="auto")
    assert short.usage.input_tokens == create(s, [long[0], *long[-21:]]).usage.input_tokens
    kept = s.client.responses.input_items.list(response.id, order="asc", limit=1).data[0]
    assert kept.role == "system"
    status, _, body = raw(s, input="word " * 5000, truncation="auto")
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


def test_truncation_keeps_calls_with_their_results(s):
    loop = [user(ASK_WEATHER)]
    for number in range(120):
        loop += [
            {"type": "function_call", "call_id": f"c{number}", "name": "get_weather",
             "arguments": '{"location": "Paris"}'},
            {"type": "function_call_output", "call_id": f"c{number}", "output": '{"temperature": 21}'}]
    assert raw(s, input=loop, tools=[WEATHER])[0] == 400
    assert create(s, loop, tools=[WEATHER], truncation="auto").status == "completed"


def test_reasoning_is_an_item_of_its_own(s):
    response = create(s, YES, reasoning={"effort": "low"})
    assert [item.type for item in response.output] == ["reasoning", "message"] and response.output_text == "Yes"
    assert response.output[0].content[0].text and response.output[0].summary == []
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    summary = create(s, YES, reasoning={"effort": "low", "summary": "auto"})
    assert summary.output[0].summary[0].text == response.output[0].content[0].text
    assert summary.output[0].content is None
    silent = create(s, YES)
    assert [item.type for item in silent.output] == ["message"]
    assert silent.usage.output_tokens_details.reasoning_tokens == 0
    assert raw(s, input="x", reasoning={"effort": "banana"})[2]["error"]["param"] == "reasoning.effort"
    assert raw(s, input="x", reasoning={"summary": "banana"})[2]["error"]["param"] == "reasoning.summary"


def test_output_is_input(s):
    for first in (create(s, YES, reasoning={}), create(s, ASK_WEATHER, tools=[WEATHER], reasoning={})):
        items = [item.model_dump() for item in first.output]
        for item in first.output:
            if item.type == "function_call":
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": "sunny"})
        assert create(s, [user("x"), *items, user(CAPITAL)]).status == "completed"


def test_sealed_reasoning(s):
    include = ["reasoning.encrypted_content"]
    first = create(s, ASK_WEATHER, tools=[WEATHER], reasoning={"effort": "low"}, include=include, store=False)
    thought, call = first.output[0], call_item(first)
    assert thought.type == "reasoning" and thought.encrypted_content
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}

    def tokens(*thoughts):
        return s.client.responses.input_tokens.count(
            model=s.model, input=[user(ASK_WEATHER), *thoughts, call.model_dump(exclude_unset=True), result],
            tools=[WEATHER]).input_tokens

    part = {"type": "reasoning_text", "text": thought.content[0].text}
    open_item = {"type": "reasoning", "summary": [], "content": [part]}
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": thought.encrypted_content}
    assert tokens(sealed) == tokens(open_item) > tokens()
    assert tokens({**sealed, "encrypted_content": "gAAAAAforeign"}) == tokens()
    damaged = thought.encrypted_content[:-8]
    assert tokens({**sealed, "encrypted_content": damaged}) == tokens()
    stored = create(s, YES, reasoning={"effort": "low"})
    assert stored.output[0].encrypted_content is None
    again = s.client.responses.retrieve(stored.id, include=include)
    assert again.output[0].encrypted_content and again.output_text == stored.output_text


def test_images_are_refused_by_a_model_of_text(s):
    for detail in ({}, {"detail": "auto"}):
        parts = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PNG, **detail}]
        status, _, body = raw(s, input=[user("x"), user(parts)])
        assert (status, body["error"]["param"]) == (400, "input[1].content[1].type"), body
    parts = [{"type": "input_image", "file_id": "file_1"}]
    assert raw(s, input=[user(parts)])[2]["error"]["param"] == "input[0].content[0].file_id"


def test_text_files_are_read_and_other_files_refused(s):
    data = "data:text/plain;base64,V2hhdCBpcyB0aGUgY2FwaXRhbCBvZiBGcmFuY2U/"
    answer = create(s, [user([{"type": "input_file", "file_data": data}])])
    assert answer.output_text == create(s, CAPITAL).output_text
    named = create(s, [user([{"type": "input_file", "filename": "q.md", "file_data": data}])])
    assert named.usage.input_tokens > answer.usage.input_tokens
    refusals = [
        ({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}, "file_data"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="}, "file_data"),
        ({"type": "input_file", "file_data": "data:text/plain;base64,%%%"}, "file_data"),
        ({"type": "input_file", "file_data": "data:text/plain;base64,/w=="}, "file_data"),
        ({"type": "input_file", "file_url": "http://127.0.0.1/x"}, "file_url"),
        ({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}, "type"),
    ]
    for part, member in refusals:
        status, _, body = raw(s, input=[user([part])])
        assert (status, body["error"]["param"]) == (400, f"input[0].content[0].{member}"), (part, body)


def test_what_is_not_there(s):
    for name, value in [("prompt", {"id": "p"}), ("moderation", {"model": "m"}),
                        ("access_programs", {"cyber": "standard"})]:
        status, _, body = raw(s, input="x", **{name: value})
        assert (status, body["error"]["code"], body["error"]["param"]) == (400, "unsupported_parameter", name)
        assert raw(s, input="Hello!", **{name: None})[0] == 200
    assert raw(s, input="Hello!", image={"context_compression": "auto"})[0] == 200
    refused(lambda: create(s, "x", conversation="conv_nope"), 404)


def test_times_and_nulls(s):
    body = raw(s, input=CAPITAL)[2]
    assert body["error"] is None and body["incomplete_details"] is None
    assert type(body["created_at"]) is int and type(body["completed_at"]) is int
    assert body["completed_at"] >= body["created_at"]


def test_fields_of_other_servers_work_and_unknown_ones_are_named(s):
    status, headers, body = raw(
        s, input=CAPITAL, top_k=5, seed=1, repetition_penalty=1.0, ignore_eos=True, stop=None, max_output_tokens=12,
        presence_penalty=0.5, frequency_penalty=0.25, nonsense=1)
    assert status == 200 and body["usage"]["output_tokens"] == 12
    assert (body["presence_penalty"], body["frequency_penalty"]) == (0.5, 0.25)
    assert headers["x-mlxserve-ignored"] == "nonsense"
    stopped = raw(s, input=CAPITAL, stop=["capital"], reasoning={"effort": "none"})[2]
    assert stopped["output"][0]["content"][0]["text"] == "The " and stopped["status"] == "completed"
    unused = [user("Hi"), {"type": "web_search_call", "id": "ws_1", "status": "completed"}, user(CAPITAL)]
    status, headers, _ = raw(s, input=unused)
    assert status == 200 and headers["x-mlxserve-ignored"] == "input[1].type=web_search_call"


def test_ids_that_are_paths(s):
    assert s.get(f"{PATH}/%00")[0] == 400
    for id in ("..%2f..%2fetc%2fpasswd", "..%2f", "resp_%C3%A9", "lock"):
        assert s.get(f"{PATH}/{id}")[0] == 404
        assert s.delete(f"{PATH}/{id}")[0] == 404
        assert s.post(f"{PATH}/{id}/cancel", b"")[0] == 404
        assert s.get(f"{PATH}/{id}/input_items")[0] == 404


def test_the_store_is_bounded(s):
    small = Server(s.binary, "--store-responses", "20")
    try:
        ids = [create(small, "Hello!", max_output_tokens=1).id for _ in range(30)]
        kept = [small.get(f"{PATH}/{id}")[0] for id in ids]
        assert kept == [404] * 10 + [200] * 20, kept
    finally:
        assert small.stop() == 0


def test_a_restart(s):
    folder = tempfile.mkdtemp()
    try:
        first = Server(s.binary, "--state-dir", folder)
        response = create(first, "My name is Alice.")
        conversation = first.client.conversations.create(items=[user("My name is Alice.")], metadata={"a": "b"})
        assert first.stop() == 0
        second = Server(s.binary, "--state-dir", folder)
        assert second.client.responses.retrieve(response.id) == response
        assert "Alice" in create(second, "What is my name?", previous_response_id=response.id).output_text
        assert second.client.conversations.retrieve(conversation.id) == conversation
        assert len(second.client.conversations.items.list(conversation.id).data) == 1
        second.client.responses.delete(response.id)
        try:
            third = Server(s.binary, "--state-dir", folder)
            third.stop()
            raise AssertionError("two servers share a folder")
        except RuntimeError:
            pass
        assert second.stop() == 0
        last = Server(s.binary, "--state-dir", folder)
        refused(lambda: last.client.responses.retrieve(response.id), 404)
        assert last.stop() == 0
    finally:
        shutil.rmtree(folder)


def test_nothing_acknowledged_is_lost_by_a_kill(s):
    folder = tempfile.mkdtemp()
    known, conversation = [], None
    try:
        for round in range(4):
            server = Server(s.binary, "--state-dir", folder)
            if conversation is None:
                conversation = server.client.conversations.create().id
            appended = []

            def work():
                while True:
                    try:
                        known.append(create(server, "Hello!", max_output_tokens=3))
                        # A fast machine fills the context before the kill.
                        create(server, "Hi", max_output_tokens=1, conversation=conversation, truncation="auto")
                        appended.append(1)
                    except openai.APIConnectionError:
                        return

            before = len(list(server.client.conversations.items.list(conversation, limit=100)))
            running = endless(server, background=True)
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.4 + 0.1 * round)
            os.kill(server.process.pid, signal.SIGKILL)
            for thread in threads:
                thread.join()
            server.process.wait()
            again = Server(s.binary, "--state-dir", folder)
            for response in known:
                assert again.client.responses.retrieve(response.id) == response
            interrupted = again.client.responses.retrieve(running.id)
            # A fast machine may have filled the context before the kill.
            if interrupted.status != "incomplete":
                assert interrupted.status == "failed" and interrupted.error.code == "server_error"
            check_response(raw_of(interrupted))
            after = len(list(again.client.conversations.items.list(conversation, limit=100)))
            assert after - before >= 2 * len(appended), (before, after, len(appended))
            assert not any("damaged" in line for line in again.log)
            assert again.stop() == 0
        assert len(known) > 4
        return f"{len(known)} responses survived 4 kills"
    finally:
        shutil.rmtree(folder)


def test_a_compacted_conversation_can_go_on(s):
    items = [user("My name is Alice."), {"role": "assistant", "content": "Hello, Alice! Nice to meet you."}]
    compacted = s.client.responses.compact(model=s.model, input=items)
    assert compacted.object == "response.compaction" and [item.type for item in compacted.output] == ["compaction"]
    assert compacted.usage.input_tokens > 0 and compacted.usage.output_tokens == 0
    carried = [item.model_dump(exclude_unset=True) for item in compacted.output]
    question = user("What is my name?")
    answer = create(s, [*carried, question])
    assert "Alice" in answer.output_text
    assert answer.usage.input_tokens == create(s, [*items, question]).usage.input_tokens
    first = create(s, "My name is Alice.")
    chained = s.client.responses.compact(model=s.model, previous_response_id=first.id)
    assert "Alice" in create(s, [chained.output[0].model_dump(exclude_unset=True), question]).output_text
    status, _, body = s.post(f"{PATH}/compact", {"input": items})
    assert (status, json.loads(body)["error"]["param"]) == (400, "model")


# Conversations


def test_conversations(s):
    client = s.client.conversations
    made = client.create(metadata={"a": "b"}, items=[user("My name is Alice.")])
    assert made.id.startswith("conv_") and made.metadata == {"a": "b"}
    assert client.retrieve(made.id) == made
    assert client.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
    added = client.items.create(made.id, items=[{"role": "assistant", "content": "Hello, Alice!"}, user("Hi")])
    assert [item.role for item in added.data] == ["assistant", "user"] and added.has_more is False
    assert added.first_id == added.data[0].id and added.last_id == added.data[1].id
    items = client.items.list(made.id, order="asc").data
    assert [item.role for item in items] == ["user", "assistant", "user"]
    assert list(client.items.list(made.id, limit=1)) == items[::-1]
    assert client.items.retrieve(items[1].id, conversation_id=made.id) == items[1]
    assert client.items.delete(items[2].id, conversation_id=made.id).id == made.id
    refused(lambda: client.items.retrieve(items[2].id, conversation_id=made.id), 404)
    refused(lambda: client.items.delete(items[2].id, conversation_id=made.id), 404)
    refused(lambda: client.items.create(made.id, items=[user("x")] * 21), 400, "items")
    refused(lambda: client.items.create(made.id, items=[{"type": "nope"}]), 400, "items[0].type")
    assert client.delete(made.id).deleted is True
    for call in (lambda: client.retrieve(made.id), lambda: client.items.list(made.id), lambda: client.delete(made.id),
                 lambda: client.update(made.id, metadata={})):
        refused(call, 404)
    empty = client.create()
    assert client.items.list(empty.id).data == [] and empty.metadata == {}


def test_a_conversation_grows_by_its_responses(s):
    conversation = s.client.conversations.create()
    first = create(s, "My name is Alice.", conversation=conversation.id)
    assert first.conversation.id == conversation.id
    second = create(s, "What is my name?", conversation={"id": conversation.id})
    assert "Alice" in second.output_text
    items = s.client.conversations.items.list(conversation.id, order="asc").data
    assert [item.role for item in items] == ["user", "assistant", "user", "assistant"]
    assert [items[1].id, items[3].id] == [first.output[0].id, second.output[0].id]
    s.client.conversations.items.delete(items[0].id, conversation_id=conversation.id)
    assert create(s, "x", conversation=conversation.id, store=False).status == "completed"
    assert len(s.client.conversations.items.list(conversation.id).data) == 5
    streamed = stream(s, input="Hello!", conversation=conversation.id, reasoning={"effort": "none"})
    last = s.client.conversations.items.list(conversation.id).data[0]
    assert last.id == streamed[-1]["response"]["output"][0]["id"]


def test_many_requests_at_once(s):
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: create(s, CAPITAL), range(24)))
    assert len({answer.output_text for answer in answers}) == 1 and len({answer.id for answer in answers}) == 24
