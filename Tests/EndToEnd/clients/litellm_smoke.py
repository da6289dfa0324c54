"""litellm: its OpenAI and its Anthropic provider."""

import json
import os
from importlib.metadata import version

# Else the package asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from pydantic import BaseModel

from smoke import CAPITAL, MODEL, PERSON, SUNNY, TEXTS, TOOL, URL, WEATHER, check, main, same, served, test, vectors

litellm.telemetry = False
litellm.suppress_debug_info = True


class Person(BaseModel):
    name: str
    age: int


def chat(messages, provider="openai", **options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    base = URL if provider == "openai" else URL.removesuffix("/v1")
    if provider == "openai":
        options["extra_body"] = {"reasoning_effort": "none"}
    return litellm.completion(
        model=f"{provider}/{MODEL}", api_base=base, api_key="none", messages=messages, temperature=0, max_tokens=200,
        num_retries=0, timeout=120, **options)


@test()
def plain_chat():
    check("Paris" in chat(CAPITAL).choices[0].message.content)


@test()
def streaming():
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chat(CAPITAL, stream=True))
    check("Paris" in text, text)


@test()
def a_tool_round_trip():
    message = chat(WEATHER, tools=[TOOL]).choices[0].message
    call = message.tool_calls[0]
    check(json.loads(call.function.arguments) == {"location": "Paris"}, call)
    answer = chat(
        [{"role": "user", "content": WEATHER}, message.model_dump(exclude_none=True),
         {"role": "tool", "tool_call_id": call.id, "content": SUNNY}],
        tools=[TOOL])
    check("21" in answer.choices[0].message.content, answer)


@test()
def anthropic_wire():
    check("Paris" in chat(CAPITAL, "anthropic").choices[0].message.content)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chat(CAPITAL, "anthropic", stream=True))
    check("Paris" in text, text)
    check(chat(WEATHER, "anthropic", tools=[TOOL]).choices[0].message.tool_calls[0].function.name == "get_weather")


@test("json_schema")
def structured_output():
    answer = chat(PERSON, response_format=Person).choices[0].message.content
    check(isinstance(Person.model_validate_json(answer), Person), answer)


@test("responses")
def responses():
    answer = litellm.responses(
        model=f"openai/{MODEL}", input=CAPITAL, api_base=URL, api_key="none", temperature=0,
        reasoning={"effort": "none"})
    check("Paris" in str(answer.output), answer)


@test()
def embeddings():
    with served("encoder-tiny") as url:
        answer = litellm.embedding(
            model="openai/encoder-tiny", input=TEXTS, api_base=url, api_key="none", encoding_format="float")
        check(same([entry["embedding"] for entry in answer.data], vectors(url)), answer)
    with served("reranker-tiny") as url:
        found = litellm.rerank(
            model="cohere/reranker-tiny", query="tarts", documents=TEXTS, top_n=2, api_base=url.removesuffix("/v1"),
            api_key="none")
        check(sorted(entry["index"] for entry in found.results) == [0, 1], found)


main("litellm " + version("litellm"))
