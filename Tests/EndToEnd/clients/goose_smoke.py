"""goose's own providers, which its SDK carries: a tool is called and answered over both wires that goose speaks here."""

import json
import os
from importlib.metadata import version

from goose import (
    MessageContent, MessageRole, ProviderMessage, ProviderModelConfig, ProviderTool, StreamChunk, anthropic_provider,
    openai_provider)

from smoke import CAPITAL, MODEL, SUNNY, TOOL, URL, WEATHER, check, main, test

HOST = URL.removesuffix("/v1")
MODEL_CONFIG = ProviderModelConfig(model_name=MODEL, max_tokens=200, temperature=0.0)
FUNCTION = TOOL["function"]
TOOLS = [ProviderTool(name=FUNCTION["name"], description=FUNCTION["description"],
                      input_schema_json=json.dumps(FUNCTION["parameters"]))]
SYSTEM = "You are goose, an agent. " * 20


def said(role, *content):
    return ProviderMessage(role=role, content=list(content))


def user(text):
    return said(MessageRole.USER, MessageContent.TEXT(text=text))


async def asked(provider, messages, tools=()):
    """The text, the calls and the usage of a streamed answer."""
    stream = await provider.stream(MODEL_CONFIG, SYSTEM, messages, list(tools))
    text, calls, usage = "", [], None
    while (chunk := await stream.next_chunk()) is not None:
        if isinstance(chunk, StreamChunk.TEXT_CHUNK):
            text += chunk.text
        elif isinstance(chunk, StreamChunk.TOOL_CHUNK):
            calls.append(chunk)
        elif isinstance(chunk, StreamChunk.END_CHUNK):
            usage = chunk.usage
    return text, calls, usage


async def session(provider):
    messages = [user(WEATHER)]
    _, calls, first = await asked(provider, messages, TOOLS)
    check(len(calls) == 1 and calls[0].name == "get_weather", calls)
    check("Paris" in json.loads(calls[0].arguments_json)["location"], calls)
    result = json.dumps([{"type": "text", "text": SUNNY}])
    messages += [
        said(MessageRole.ASSISTANT, MessageContent.TOOL_REQUEST(
            id=calls[0].id, name=calls[0].name, arguments_json=calls[0].arguments_json)),
        said(MessageRole.TOOL, MessageContent.TOOL_RESULT(id=calls[0].id, success=True, content_json=result))]
    text, calls, second = await asked(provider, messages, TOOLS)
    check("sunny" in text and not calls, text, calls)
    # A template may drop the first turn's reasoning, not what stands before it.
    check(second.cache_read_input_tokens >= first.input_tokens - 8, first, second)


@test()
async def plain_chat():
    for provider in (openai_provider("none", HOST), anthropic_provider("none", HOST, [])):
        text, _, usage = await asked(provider, [user(CAPITAL)])
        check("Paris" in text and usage.output_tokens > 0, text)


@test()
async def models():
    check(MODEL in [model.name for model in await openai_provider("none", HOST).list_models()])


@test()
async def a_tool_by_chat_completions():
    await session(openai_provider("none", HOST))


@test()
async def a_tool_by_messages():
    await session(anthropic_provider("none", HOST, []))


try:
    main("goose by goose-sdk " + version("goose-sdk"))
except SystemExit as end:
    # The threads of goose outlive Python and abort it at its end.
    os._exit(end.code)
