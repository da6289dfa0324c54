"""Every real chat template of the shared data, served with the demo's weights: tool calls and reasoning for the official SDK.

The markers of a template become special tokens, as its own tokenizer has them, in place of the demo's rarest words. The
weights know none of these formats, so a call is forced: what is tested is that its grammar, its parser and the template
that reads it back agree.
"""

import json
import os
import pathlib
import re
import shutil
import tempfile

import openai

from server import DEMO, ROOT, Server

TEMPLATES = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data" / "chat-templates"
QUESTION = {"role": "user", "content": "What is the weather in Oslo?"}
MARKER = re.compile(r"<[|｜][^<>\s'\"]{1,40}[|｜]>|<\|[\w/:\-]{1,30}>|<[\w/:\-]{1,30}\|>|\[/?[A-Z_]{3,24}\]|</?s>|<\w+_of_\w+>|</?seed:\w+>"
                    r"|</?minimax:\w+>|</?arg_(?:key|value)>")
# Values of few words, so that the demo's answers are short whatever it believes.
CITIES, DAYS = ("Paris", "Oslo"), (1, 2, 3)
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.", "strict": True,
    "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "enum": CITIES}, "days": {"type": "integer", "enum": DAYS}},
        "required": ["city", "days"], "additionalProperties": False}}}


def folder_with(template, place):
    """The demo model with another template, whose markers are special tokens."""
    target = pathlib.Path(place) / "model"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DEMO, target)
    (target / "chat_template.jinja").write_text(template)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8192}))
    tokenizer = json.loads((target / "tokenizer.json").read_text())
    words = {token["content"] for token in tokenizer["added_tokens"]}
    vocabulary, rarest = tokenizer["model"]["vocab"], min(token["id"] for token in tokenizer["added_tokens"]) - 1
    texts = {identifier: text for text, identifier in vocabulary.items()}
    for marker in dict.fromkeys(MARKER.findall(template)):
        if marker in words:
            continue
        gone = texts[rarest]
        del vocabulary[gone]
        tokenizer["model"]["merges"] = [
            merge for merge in tokenizer["model"]["merges"] if "".join(parts(merge)) != gone and gone not in parts(merge)]
        tokenizer["added_tokens"].append({
            "id": rarest, "content": marker, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True})
        rarest -= 1
    tokenizer["added_tokens"].sort(key=lambda token: token["id"])
    (target / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((target / "tokenizer_config.json").read_text())
    (target / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "<|endoftext|>"}))
    return target


def parts(merge):
    return merge if isinstance(merge, list) else merge.split(" ")


def ask(served, messages=(QUESTION,), **options):
    return served.client.chat.completions.create(
        model=served.model, messages=list(messages), temperature=0, max_tokens=300, **options)


def called(served, **options):
    """The calls of a forced answer, which are those of its stream too."""
    forced = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
              "parallel_tool_calls": False, **options}
    message = ask(served, **forced).choices[0].message
    streamed = [call for chunk in ask(served, stream=True, **forced) if chunk.choices
                for call in chunk.choices[0].delta.tool_calls or []]
    assert message.tool_calls and not message.content, message
    assert "".join(call.function.arguments or "" for call in streamed) == "".join(
        call.function.arguments for call in message.tool_calls), (streamed, message)
    for call in message.tool_calls:
        arguments = json.loads(call.function.arguments)
        assert call.function.name == "get_weather" and set(arguments) == {"city", "days"}, call
        assert arguments["city"] in CITIES and arguments["days"] in DAYS, call
    return message.tool_calls


def raises_in_the_reference(name):
    """Whether the reference renders no results of tools with this template."""
    lines = (json.loads(line) for line in (TEMPLATES / "goldens.jsonl").read_text().splitlines())
    return any(line["template"] == name and line["case"] == "tool-roundtrip" and "error" in line for line in lines)


def of_every_template(server, check):
    """What `check(name, server, its capabilities)` gives, by the template's name; fails with all that failed."""
    found, failed = {}, {}
    # Some are there twice.
    texts = {template.read_text(): str(template.relative_to(TEMPLATES)) for template in sorted(TEMPLATES.glob("*/*.jinja*"))}
    with tempfile.TemporaryDirectory() as place:
        for text, name in texts.items():
            served = Server(server.binary, model=folder_with(text, place))
            try:
                found[name] = check(name, served, json.loads(served.get("/v1/capabilities")[2])["data"][0])
            except (AssertionError, openai.OpenAIError) as error:
                failed[name] = error
            finally:
                assert served.stop() == 0, (name, served.log[-5:])
    assert not failed, failed
    return found


def test_every_template_that_has_tools_calls_them_and_reads_their_results(server):
    if not TEMPLATES.is_dir():
        return "SKIPPED: the shared data folder is absent"
    refused = []

    def check(name, served, capabilities):
        if not capabilities["tools"]["supported"]:
            status, _, text = served.post("/apply-template", {"messages": [QUESTION], "tools": [TOOL]})
            assert status == 400 or "get_weather" not in json.loads(text)["prompt"], name
            return None
        calls = called(served)
        history = [QUESTION, {"role": "assistant", "content": None, "tool_calls": [call.model_dump() for call in calls]},
                   *({"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls)]
        try:
            assert ask(served, history, tools=[TOOL]).usage.prompt_tokens > 0
        except openai.BadRequestError:
            assert raises_in_the_reference(name), name
            refused.append(name)
        return capabilities["tools"]["syntax"]

    syntaxes = [syntax for syntax in of_every_template(server, check).values() if syntax]
    assert len(set(syntaxes)) >= 10, syntaxes
    return f"{len(syntaxes)} templates of {len(set(syntaxes))} syntaxes; results of tools that the reference cannot " \
           f"render either: {refused}"


def test_every_template_that_opens_reasoning_gives_it_apart(server):
    if not TEMPLATES.is_dir():
        return "SKIPPED: the shared data folder is absent"

    def check(name, served, capabilities):
        if not capabilities["thinking"]["supported"]:
            return None
        # A few words of reasoning are enough: then the server ends it.
        answer = ask(served, extra_body={"thinking_budget": 12, "chat_template_kwargs": {"enable_thinking": True}})
        message = answer.choices[0].message
        reasoning = getattr(message, "reasoning_content", None) or ""
        assert not re.search(r"think>|THINK|channel", reasoning + (message.content or "")), message
        counted = answer.usage.completion_tokens_details.reasoning_tokens
        assert counted <= 12 + 4 and (not reasoning or counted > 0), answer.usage
        return bool(reasoning)

    found = [reasoned for reasoned in of_every_template(server, check).values() if reasoned is not None]
    assert any(found)
    return f"{sum(found)} templates gave reasoning; the demo's weights opened none in {len(found) - sum(found)}"
