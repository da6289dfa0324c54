"""The OpenAI SDK, whichever version is installed, with strict validation of responses."""

import json

import openai
from openai import OpenAI
from pydantic import BaseModel

from smoke import CAPITAL, MODEL, PERSON, SUNNY, TOOL, URL, WEATHER, check, main, test

client = OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=120, _strict_response_validation=True)


class Person(BaseModel):
    name: str
    age: int


def chat(messages, **options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, reasoning_effort="none", **options)


@test()
def models():
    check(client.models.list().data[0].id == MODEL)


@test()
def plain_chat():
    completion = chat(CAPITAL)
    check("Paris" in completion.choices[0].message.content, completion)


@test()
def streaming():
    chunks = list(chat(CAPITAL, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check(text == chat(CAPITAL).choices[0].message.content, text)
    check(chunks[-1].usage.completion_tokens > 0, chunks[-1])


@test()
def a_tool_round_trip():
    choice = chat(WEATHER, tools=[TOOL]).choices[0]
    check(choice.finish_reason == "tool_calls", choice)
    call = choice.message.tool_calls[0]
    check(json.loads(call.function.arguments) == {"location": "Paris"}, call)
    answer = chat(
        [{"role": "user", "content": WEATHER}, choice.message.model_dump(exclude_none=True),
         {"role": "tool", "tool_call_id": call.id, "content": SUNNY}],
        tools=[TOOL])
    check("21" in answer.choices[0].message.content, answer)


@test()
def completions():
    answer = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, temperature=0)
    check("Paris" in answer.choices[0].text, answer)


@test()
def errors():
    try:
        chat(CAPITAL, n=999)
    except openai.BadRequestError as error:
        check(error.param == "n", error)
        return
    raise AssertionError("accepted")


@test("forced tools")
def a_named_tool():
    answer = chat("Hello!", tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_weather"}})
    check(answer.choices[0].message.tool_calls[0].function.name == "get_weather", answer)


@test("json_schema")
def structured_output():
    parse = getattr(client.chat.completions, "parse", None) or client.beta.chat.completions.parse
    answer = parse(
        model=MODEL, messages=[{"role": "user", "content": PERSON}], temperature=0, reasoning_effort="none",
        response_format=Person, max_tokens=200)
    check(isinstance(answer.choices[0].message.parsed, Person), answer)


@test("responses")
def a_response():
    response = client.responses.create(model=MODEL, input=CAPITAL, temperature=0, extra_body={"thinking": False})
    check("Paris" in response.output_text, response)


@test("responses")
def a_streamed_response():
    with client.responses.stream(
            model=MODEL, input=CAPITAL, temperature=0, extra_body={"thinking": False}) as stream:
        events = [event.type for event in stream]
        check(events[0] == "response.created" and events[-1] == "response.completed", events)
        check("Paris" in stream.get_final_response().output_text)


main("openai " + openai.__version__)
