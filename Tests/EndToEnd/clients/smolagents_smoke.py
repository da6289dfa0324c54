"""smolagents: its model for OpenAI's wire, streamed and whole, and an agent that calls tools."""

from importlib.metadata import version

from smolagents import OpenAIServerModel, Tool

from smoke import CAPITAL, MODEL, SUNNY, URL, WEATHER, check, main, test


class Weather(Tool):
    name = "get_weather"
    description = "Get the current weather"
    inputs = {"location": {"type": "string", "description": "The city"}}
    output_type = "string"

    def forward(self, location: str) -> str:
        return SUNNY


model = OpenAIServerModel(
    MODEL, api_base=URL, api_key="none", temperature=0, max_tokens=200, extra_body={"reasoning_effort": "none"})


def user(text):
    return [{"role": "user", "content": [{"type": "text", "text": text}]}]


@test()
def plain_chat():
    check("Paris" in model.generate(user(CAPITAL)).content)


@test()
def streaming():
    check("Paris" in "".join(delta.content or "" for delta in model.generate_stream(user(CAPITAL))))


@test("forced tools")
def a_tool_call():
    answer = model.generate(user(WEATHER), tools_to_call_from=[Weather()])
    call = answer.tool_calls[0].function
    check(call.name == "get_weather" and "Paris" in str(call.arguments), answer)


main("smolagents " + version("smolagents"))
