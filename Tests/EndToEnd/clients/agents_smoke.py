"""openai-agents: a runner with a tool, over Chat Completions and over Responses."""

import json
import os
import pathlib
import sys
import tempfile
from importlib.metadata import version

from agents import (
    Agent, HostedMCPTool, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool,
    set_tracing_disabled)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel

from smoke import CAPITAL, MODEL, MODELS, PERSON, SUNNY, URL, WEATHER, check, main, serving, test

set_tracing_disabled(True)


class Person(BaseModel):
    name: str
    age: int


def weather(location: str) -> str:
    """Get the current weather"""
    return SUNNY


get_weather = function_tool(weather, name_override="get_weather", strict_mode=False)
strict_weather = function_tool(weather, name_override="get_weather")
client = AsyncOpenAI(base_url=URL, api_key="none", max_retries=0, timeout=120)


def agent(kind, tools=(), **options):
    return Agent(
        name="test", model=kind(model=MODEL, openai_client=client), tools=list(tools),
        model_settings=ModelSettings(temperature=0, max_tokens=200, reasoning=Reasoning(effort="none")), **options)


async def run(kind):
    result = await Runner.run(agent(kind), CAPITAL)
    check("Paris" in result.final_output, result.final_output)


async def run_streamed(kind):
    result = Runner.run_streamed(agent(kind, [get_weather]), WEATHER)
    kinds = [event.type async for event in result.stream_events()]
    check("raw_response_event" in kinds and "run_item_stream_event" in kinds, kinds)
    check("21" in result.final_output, result.final_output)


async def use_tool(kind, tool=get_weather):
    result = await Runner.run(agent(kind, [tool]), WEATHER)
    check("21" in result.final_output, result.final_output)


@test()
def chat_plain():
    return run(OpenAIChatCompletionsModel)


@test()
def chat_with_a_tool():
    return use_tool(OpenAIChatCompletionsModel)


@test()
def chat_streamed_with_a_tool():
    return run_streamed(OpenAIChatCompletionsModel)


@test("strict tools")
def chat_with_a_strict_tool():
    return use_tool(OpenAIChatCompletionsModel, strict_weather)


@test("json_schema")
async def chat_structured_output():
    result = await Runner.run(agent(OpenAIChatCompletionsModel, output_type=Person), PERSON)
    check(isinstance(result.final_output, Person), result.final_output)


@test("responses")
def responses_plain():
    return run(OpenAIResponsesModel)


@test("responses")
def responses_with_a_tool():
    return use_tool(OpenAIResponsesModel)


@test("responses", "strict tools")
def responses_with_a_strict_tool():
    return use_tool(OpenAIResponsesModel, strict_weather)


@test("responses")
def responses_streamed_with_a_tool():
    return run_streamed(OpenAIResponsesModel)


@test("responses")
async def responses_with_a_hosted_mcp_server():
    """The server under test calls the tools itself: unasked, and when the agent has allowed it."""
    program = pathlib.Path(__file__).resolve().parents[1] / "tool_server.py"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "mcp.json")
        file.write_text(json.dumps({"mcpServers": {"t": {"command": sys.executable, "args": [str(program)]}}}))
        with serving(os.environ["MLXSERVE_BINARY"], "--model", str(MODELS / "demo"), "--mcp-config", str(file)) as url:
            own = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
            for rule, names in [("never", []), ("always", ["get_weather"])]:
                asked = []

                def allow(request):
                    asked.append(request.data.name)
                    return {"approve": True}

                hosted = HostedMCPTool(
                    tool_config={"type": "mcp", "server_label": "t", "require_approval": rule}, on_approval_request=allow)
                helper = Agent(
                    name="test", model=OpenAIResponsesModel(model=MODEL, openai_client=own), tools=[hosted],
                    model_settings=ModelSettings(temperature=0, max_tokens=200, reasoning=Reasoning(effort="none")))
                result = await Runner.run(helper, WEATHER)
                check("21" in result.final_output, result.final_output)
                check(asked == names, asked)


@test("responses", "forced tools")
async def an_agent_answers_from_notes():
    """`mlxserve mcp` over lines as a hosted server: the agent's model searches notes and goes on with what they say."""
    binary = os.environ["MLXSERVE_BINARY"]
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder, "notes")
        notes.mkdir()
        (notes / "paris.md").write_text(f"The weather in Paris is {SUNNY}.\n")
        words = ["mcp", str(notes), "--model", str(MODELS / "encoder-tiny"), "--index-dir", str(pathlib.Path(folder, "index"))]
        file = pathlib.Path(folder, "mcp.json")
        file.write_text(json.dumps({"mcpServers": {"notes": {"command": binary, "args": words, "timeout": 60}}}))
        with serving(binary, "--model", str(MODELS / "demo"), "--mcp-config", str(file)) as url:
            own = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
            hosted = HostedMCPTool(tool_config={
                "type": "mcp", "server_label": "notes", "allowed_tools": ["search_notes"], "require_approval": "never"})
            # The demo model was never shown this tool, so the call is demanded.
            helper = Agent(
                name="test", model=OpenAIResponsesModel(model=MODEL, openai_client=own), tools=[hosted],
                model_settings=ModelSettings(
                    temperature=0, max_tokens=200, tool_choice="required", reasoning=Reasoning(effort="none")))
            result = await Runner.run(helper, WEATHER)
            kinds = [item.type for one in result.raw_responses for item in one.output]
            check(kinds == ["mcp_list_tools", "mcp_call", "message"], kinds)
            call = result.raw_responses[0].output[1]
            check(call.status == "completed" and SUNNY in call.output and "paris.md" in call.output, call)
            check("Paris" in result.final_output, result.final_output)


main("agents " + version("openai-agents"))
