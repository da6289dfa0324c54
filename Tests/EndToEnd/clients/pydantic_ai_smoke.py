"""pydantic-ai: run and run_stream, tools, typed output, over Chat Completions and over Responses."""

from importlib.metadata import version

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, Tool
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from smoke import CAPITAL, MODEL, PERSON, SUNNY, URL, WEATHER, check, main, test

SETTINGS = {"temperature": 0, "max_tokens": 200, "openai_reasoning_effort": "none"}


class Person(BaseModel):
    name: str
    age: int


def get_weather(location: str) -> str:
    """Get the current weather"""
    return SUNNY


def agent(kind=OpenAIChatModel, **options):
    model = kind(MODEL, provider=OpenAIProvider(base_url=URL, api_key="none"))
    return Agent(model, model_settings=SETTINGS, retries=0, **options)


@test()
async def plain_chat():
    result = await agent().run(CAPITAL)
    check("Paris" in result.output, result.output)


@test()
async def streaming():
    async with agent().run_stream(CAPITAL) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    check("Paris" in "".join(pieces) and len(pieces) > 1, pieces)


@test()
async def a_tool_round_trip():
    result = await agent(tools=[Tool(get_weather, strict=False)]).run(WEATHER)
    check("21" in result.output, result.output)


@test()
async def a_streamed_tool_round_trip():
    async with agent(tools=[Tool(get_weather, strict=False)]).run_stream(WEATHER) as result:
        check("21" in await result.get_output())


@test("strict tools")
async def a_strict_tool():
    result = await agent(tools=[Tool(get_weather, strict=True)]).run(WEATHER)
    check("21" in result.output, result.output)


@test("json_schema")
async def structured_output():
    result = await agent(output_type=NativeOutput(Person)).run(PERSON)
    check(isinstance(result.output, Person), result.output)


@test("forced tools")
async def structured_output_by_a_tool():
    result = await agent(output_type=Person).run(PERSON)
    check(isinstance(result.output, Person), result.output)


@test("responses")
async def responses():
    result = await agent(OpenAIResponsesModel).run(CAPITAL)
    check("Paris" in result.output, result.output)
    async with agent(OpenAIResponsesModel).run_stream(CAPITAL) as result:
        check("Paris" in await result.get_output())


main("pydantic-ai " + version("pydantic-ai-slim"))
