"""The Messages API with the Anthropic SDK under strict validation, and the routes for tokens, prompts and capabilities."""

import json

import anthropic

from sdk_test import CAPITAL, WEATHER, YES
from server import expected

TOOLS = [{
    "name": "get_weather", "description": WEATHER["function"]["description"],
    "input_schema": WEATHER["function"]["parameters"]}]
THINK = {"type": "enabled", "budget_tokens": 400}


def client(s):
    return anthropic.Anthropic(
        base_url=s.base_url.removesuffix("/v1"), api_key="none", max_retries=0, timeout=120,
        _strict_response_validation=True)


def body(s, messages, **options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return {"model": s.model, "max_tokens": 500, "messages": messages, "extra_body": {"temperature": 0}, **options}


def create(s, messages, **options):
    return client(s).messages.create(**body(s, messages, **options))


def refused(call, status, *words):
    try:
        call()
    except anthropic.APIStatusError as error:
        assert error.status_code == status, f"{error.status_code}: {error.message}"
        assert error.body.keys() == {"type", "error", "request_id"}, error.body
        assert error.body["type"] == "error" and error.body["error"].keys() == {"type", "message"}, error.body
        assert error.request_id == error.body["request_id"]
        for word in words:
            assert word in error.body["error"]["message"], f"{word!r} is not in {error.body}"
        return error.body["error"]["type"]
    raise AssertionError(f"accepted, expected {status}")


# Messages


def test_a_message(s):
    message = create(s, CAPITAL)
    assert message.id.startswith("msg_") and message.role == "assistant" and message.model == s.model
    assert [block.type for block in message.content] == ["text"]
    assert "Paris" in message.content[0].text
    assert message.stop_reason == "end_turn" and message.stop_sequence is None
    assert message.usage.output_tokens > 0 and message._request_id


def test_a_message_equals_the_chat_answer(s):
    chat = s.chat([{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": CAPITAL}])
    message = create(s, CAPITAL, system="You are a helpful assistant.")
    assert message.content[0].text == chat.choices[0].message.content
    usage = message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == chat.usage.prompt_tokens
    assert usage.output_tokens == chat.usage.completion_tokens


def test_a_thought_and_its_answer(s):
    message = create(s, YES, thinking=THINK)
    thought, text = message.content
    assert thought.type == "thinking" and thought.thinking and thought.signature
    assert text.text == "Yes"
    assert 0 < message.usage.output_tokens_details.thinking_tokens < message.usage.output_tokens
    hidden = create(s, YES, thinking={**THINK, "display": "omitted"})
    assert hidden.content[0].thinking == "" and hidden.content[1].text == "Yes"


def test_a_streamed_message_equals_the_whole_one(s):
    for options in ({}, {"thinking": THINK}, {"tools": TOOLS}, {"stop_sequences": ["capital"]}):
        question = "What is the weather in Paris?" if "tools" in options else CAPITAL
        whole = create(s, question, **options)
        with client(s).messages.stream(**body(s, question, **options)) as stream:
            names = [event.type for event in stream]
            final = stream.get_final_message()
        assert names[0] == "message_start" and names[-1] == "message_stop", names

        def stable(message):
            blocks = [block.model_dump(exclude={"id"}) for block in message.content]
            return [{k: v for k, v in b.items() if k in ("type", "text", "thinking", "signature", "name", "input")}
                    for b in blocks]

        assert stable(final) == stable(whole), (final, whole)
        assert (final.stop_reason, final.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
        assert final.usage.output_tokens == whole.usage.output_tokens


def test_the_events_of_a_stream(s):
    status, headers, data = s.post("/v1/messages", {
        "model": s.model, "max_tokens": 20, "temperature": 0, "stream": True,
        "messages": [{"role": "user", "content": CAPITAL}]})
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in data.decode().split("\n\n") if block and not block.startswith(":")]
    for block in blocks:
        first, second = block.split("\n")
        assert first.removeprefix("event: ") == json.loads(second.removeprefix("data: "))["type"], block
    assert "[DONE]" not in data.decode()


def test_a_tool_use_and_its_result(s):
    message = create(s, "What is the weather in Paris?", tools=TOOLS)
    assert message.stop_reason == "tool_use"
    use = message.content[-1]
    assert use.type == "tool_use" and use.id.startswith("toolu_") and use.input == {"location": "Paris"}
    for content in ("sunny, 21 degrees", [{"type": "text", "text": "sunny, 21 degrees"}]):
        answer = create(s, [
            {"role": "user", "content": "What is the weather in Paris?"},
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": content}]},
        ], tools=TOOLS)
        assert answer.stop_reason == "end_turn" and "21" in answer.content[0].text, answer


def test_a_thought_comes_back_with_its_tool_use(s):
    message = create(s, "What is the weather in Paris?", tools=TOOLS, thinking=THINK)
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "tool_use"], kinds

    def prompt_tokens(blocks):
        return client(s).messages.count_tokens(model=s.model, tools=TOOLS, thinking=THINK, messages=[
            {"role": "user", "content": "What is the weather in Paris?"},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": message.content[1].id, "content": "sunny"}]},
        ]).input_tokens

    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    foreign = [{**blocks[0], "signature": "EqQBCkYIBxgCKkA"}, blocks[1]]
    assert prompt_tokens(blocks) > prompt_tokens(foreign) == prompt_tokens(blocks[1:])


def test_the_reasons_of_the_end(s):
    message = create(s, CAPITAL, stop_sequences=["zzz", "capital"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "capital"), message
    assert "capital" not in message.content[0].text
    message = create(s, CAPITAL, max_tokens=3)
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 3


def test_a_final_assistant_message_is_continued(s):
    message = create(s, [{"role": "user", "content": CAPITAL}, {"role": "assistant", "content": "The capital of France is"}])
    assert "Paris" in message.content[0].text, message


def test_counted_tokens_are_those_of_the_usage(s):
    for options in ({}, {"system": "Be brief."}, {"tools": TOOLS}, {"thinking": THINK}):
        counted = client(s).messages.count_tokens(
            model=s.model, messages=[{"role": "user", "content": CAPITAL}], **options).input_tokens
        usage = create(s, CAPITAL, **options).usage
        assert counted == usage.input_tokens + usage.cache_read_input_tokens, options


def test_refused_messages(s):
    assert refused(lambda: create(s, CAPITAL, model="nope"), 404, "nope") == "not_found_error"
    cases = [
        (dict(max_tokens=0), "max_tokens"),
        (dict(stop_sequences=[""]), "stop_sequences"),
        (dict(tools=[{"name": "f"}]), "tools[0].input_schema"),
        (dict(messages=[{"role": "robot", "content": "x"}]), "messages[0].role"),
        (dict(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}]), "messages[0].content[0].source.type"),
        (dict(messages=[{"role": "user", "content": "word " * 5000}]), "2048"),
    ]
    for change, word in cases:
        for stream in (False, True):
            call = {"messages": CAPITAL, **change}
            assert refused(lambda: create(s, call.pop("messages"), stream=stream, **call), 400, word) == (
                "invalid_request_error")


def test_a_missing_limit_and_http_errors_have_the_shape_of_this_wire(s):
    cases = [
        s.post("/v1/messages", {"model": s.model, "messages": [{"role": "user", "content": "x"}]}),
        s.post("/v1/messages", b"{"),
        s.post("/v1/messages", {}, headers=["Content-Type: text/xml"]),
        s.get("/v1/messages"),
        s.get("/v1/messages/nope"),
    ]
    assert [status for status, _, _ in cases] == [400, 400, 415, 405, 404]
    for _, headers, data in cases:
        error = json.loads(data)
        assert error["type"] == "error" and error["request_id"] == headers["request-id"] == headers["x-request-id"]


# Tokens and prompts


def post(s, path, body):
    status, _, data = s.post(path, body)
    assert status == 200, data
    return json.loads(data)


def test_tokens_are_those_of_the_reference(s):
    for name in ("yes", "yes_without_thinking", "no", "name", "weather_call", "weather_call_without_thinking"):
        case = expected(name)
        request = {"messages": case["messages"], "tools": case.get("tools")}
        if "enable_thinking" in case:
            request["chat_template_kwargs"] = {"enable_thinking": case["enable_thinking"]}
        assert post(s, "/tokenize", request)["tokens"] == case["prompt_ids"], name
        assert post(s, "/apply-template", request)["prompt"] == case["prompt_text"], name


def test_text_goes_to_tokens_and_back(s):
    for text in ("The capital of France is Paris.", "Zürich 東京 🙂", "", "<|im_start|>user"):
        found = post(s, "/tokenize", {"content": text, "with_pieces": False})
        assert found["count"] == len(found["tokens"]) and found["max_model_len"] == 2048
        assert post(s, "/detokenize", {"tokens": found["tokens"]}) == {"content": text, "prompt": text}
        named = post(s, "/tokenize", {"model": s.model, "prompt": text, "return_token_strs": True})
        assert named["tokens"] == found["tokens"] and len(named["token_strs"]) == named["count"]
        pieces = post(s, "/tokenize", {"content": text, "with_pieces": True})["tokens"]
        assert [piece["id"] for piece in pieces] == found["tokens"]
    assert post(s, "/tokenize", {"content": "<|im_start|>"})["count"] == 1
    assert post(s, "/tokenize", {"content": "<|im_start|>", "parse_special": False})["count"] > 1


def test_the_prompt_of_a_conversation(s):
    messages = [{"role": "user", "content": CAPITAL}]
    prompt = post(s, "/apply-template", {"messages": messages})["prompt"]
    assert prompt == f"<|im_start|>user\n{CAPITAL}<|im_end|>\n<|im_start|>assistant\n"
    count = post(s, "/v1/chat/completions/input_tokens", {"model": s.model, "messages": messages})
    assert count == {"object": "response.input_tokens", "input_tokens": count["input_tokens"]}
    usage = s.client.chat.completions.create(model=s.model, messages=messages, max_tokens=1).usage
    assert usage.prompt_tokens == count["input_tokens"] == post(s, "/tokenize", {"messages": messages})["count"]


def test_capabilities_agree_with_what_is_served(s):
    status, _, data = s.get("/v1/capabilities")
    model = json.loads(data)["data"][0]
    assert status == 200 and model["id"] == s.model and model["model_type"] == "qwen3"
    assert model["context_length"] == 2048 and model["quantization"] == {"mode": "affine", "bits": 4, "group_size": 64}
    assert model["tools"]["supported"] and model["tools"]["syntax"] == "qwen"
    assert model["thinking"]["supported"] and model["thinking"]["switch"]
    request = {"model": s.model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    for kind in ("json_object", "json_schema"):
        format = {"type": kind, "json_schema": {"name": "x", "schema": {"type": "object"}}}
        status, _, _ = s.post("/v1/chat/completions", {**request, "response_format": format})
        assert (status == 200) == model["structured_output"][kind]
    for choice in ("none", "auto", "required"):
        status, _, _ = s.post("/v1/chat/completions", {**request, "tools": [WEATHER], "tool_choice": choice})
        assert (status == 200) == (choice in model["tools"]["choices"])
