"""The Anthropic SDK, with strict validation of responses."""

import anthropic

from smoke import CAPITAL, MODEL, SUNNY, TOOL, URL, WEATHER, check, main, test

client = anthropic.Anthropic(
    base_url=URL.removesuffix("/v1"), api_key="none", max_retries=0, timeout=120, _strict_response_validation=True)
TOOLS = [{
    "name": "get_weather", "description": TOOL["function"]["description"],
    "input_schema": TOOL["function"]["parameters"]}]
ALWAYS = {"model": MODEL, "max_tokens": 200, "extra_body": {"temperature": 0}}


def user(text):
    return [{"role": "user", "content": text}]


@test()
def plain_messages():
    message = client.messages.create(messages=user(CAPITAL), **ALWAYS)
    check("Paris" in message.content[0].text and message.stop_reason == "end_turn", message)


@test()
def streaming():
    with client.messages.stream(messages=user(CAPITAL), **ALWAYS) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    check("Paris" in text and message.content[0].text == text, message)


@test()
def thinking():
    message = client.messages.create(
        messages=user(CAPITAL), thinking={"type": "enabled", "budget_tokens": 150}, **ALWAYS)
    check([block.type for block in message.content] == ["thinking", "text"], message)


@test()
def a_tool_round_trip():
    message = client.messages.create(messages=user(WEATHER), tools=TOOLS, **ALWAYS)
    check(message.stop_reason == "tool_use", message)
    use = message.content[-1]
    check(use.input == {"location": "Paris"}, use)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": SUNNY}
    answer = client.messages.create(
        messages=[*user(WEATHER), {"role": "assistant", "content": message.content},
                  {"role": "user", "content": [result]}],
        tools=TOOLS, **ALWAYS)
    check("21" in answer.content[0].text, answer)


@test("forced tools")
def a_named_tool():
    message = client.messages.create(
        messages=user("Hello!"), tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"}, **ALWAYS)
    check(message.content[-1].name == "get_weather", message)


@test("json_schema")
def structured_output():
    schema = {
        "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": False}
    message = client.messages.create(
        messages=user("Reply with a JSON object with name and age."),
        output_config={"format": {"type": "json_schema", "schema": schema}}, **ALWAYS)
    check(message.content[0].text.startswith("{"), message)


@test()
def counting():
    counted = client.messages.count_tokens(model=MODEL, messages=user(CAPITAL)).input_tokens
    usage = client.messages.create(messages=user(CAPITAL), **ALWAYS).usage
    check(counted == usage.input_tokens + usage.cache_read_input_tokens, counted, usage)


@test()
def errors():
    for change, kind in (({"model": "nope"}, anthropic.NotFoundError), ({"max_tokens": 0}, anthropic.BadRequestError)):
        try:
            client.messages.create(messages=user("x"), **{**ALWAYS, **change})
        except kind as error:
            check(error.body["type"] == "error" and error.body["error"]["message"], error.body)
        else:
            raise AssertionError(f"accepted {change}")


main("anthropic " + anthropic.__version__)
