"""Bodies as agents send them (written after the public sources of Codex, Claude Code, Cline, Zed and Continue), and the
samplers of other servers: a seed gives the same answer alone and beside others."""

import concurrent.futures
import json

import anthropic

QUESTION = "What is the capital of France?"
SHELL = {
    "type": "function", "name": "shell", "description": "Runs a command", "strict": False,
    "parameters": {
        "type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}},
        "required": ["command"], "additionalProperties": False,
    },
}


def codex(s, history):
    return {
        "model": s.model, "instructions": "You are Codex, a coding agent.", "store": False, "stream": True,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
            *history,
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        ],
        "tools": [
            SHELL,
            {"type": "custom", "name": "apply_patch", "description": "Edits files",
             "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch"'}},
            {"type": "web_search", "external_web_access": False},
            {"type": "namespace", "name": "mcp__docs__", "description": "Documents", "tools": [
                {"type": "function", "name": "search", "description": "Searches", "strict": False,
                 "parameters": {"type": "object", "properties": {}}}]},
        ],
        "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "text": {"verbosity": "medium"},
        "max_output_tokens": 64,
    }


def test_codex(s):
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look around."}]},
        {"type": "local_shell_call", "call_id": "a", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "call_id": "a", "output": "main.swift"},
        {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
        {"type": "function_call", "call_id": "c", "name": "search", "namespace": "mcp__docs__", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "nothing"},
        {"type": "web_search_call", "id": "w", "status": "completed"},
    ]
    for items in ([], history):
        status, headers, body = s.post("/v1/responses", codex(s, items))
        assert status == 200, body
        ignored = headers["x-mlxserve-ignored"].split(", ")
        assert ignored[:1] == ["tools[2].type=web_search"], ignored
        assert body.decode().endswith("data: [DONE]\n\n")


def test_claude_code(s):
    cached = {"type": "ephemeral"}
    name = "mcp__" + "a_server_with_a_long_name_" * 4 + "tool"
    body = {
        "model": s.model, "max_tokens": 64, "stream": True, "temperature": 1, "metadata": {"user_id": "u"},
        "system": [{"type": "text", "text": "You are Claude Code.", "cache_control": cached}],
        "messages": [
            {"role": "user", "content": [
                {"type": "document", "title": "notes.md", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                {"type": "text", "text": QUESTION, "cache_control": cached}]},
        ],
        "tools": [
            {"name": name, "description": "d", "input_schema": {
                "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        ],
    }
    status, headers, answer = s.post("/v1/messages?beta=true", body)
    assert status == 200, answer
    assert len(name) > 64 and headers["x-mlxserve-ignored"] == "tools[1].type=web_search_20250305"
    assert b"event: message_stop" in answer


def test_editors(s):
    """Cline sends parts and asks for usage; Zed and Continue leave the path's root out or end it with a slash."""
    messages = [
        {"role": "system", "content": "You are Cline."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, {"type": "text", "text": "<environment>"}]},
    ]
    body = {"model": s.model, "messages": messages, "temperature": 0, "stream": True, "max_tokens": 32,
            "stream_options": {"include_usage": True}}
    for path in ("/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"):
        status, _, answer = s.post(path, body)
        assert status == 200 and answer.decode().endswith("data: [DONE]\n\n"), (path, answer)


SAMPLERS = [
    {"typical_p": 0.7}, {"top_n_sigma": 1.5}, {"xtc_probability": 0.5, "xtc_threshold": 0.05}, {"dry_multiplier": 1},
    {"mirostat": 1, "mirostat_tau": 4}, {"mirostat": 2, "mirostat_tau": 4}, {"dynatemp_range": 0.5},
    {"repeat_penalty": 1.3, "repeat_last_n": 8},
]


def answer(s, extra):
    # Without its template the demo model is not sure of anything.
    body = {"model": s.model, "prompt": "one two one two", "seed": 5, "temperature": 2, "max_tokens": 40,
            "ignore_eos": True, **extra}
    status, headers, text = s.post("/v1/completions", body)
    assert status == 200 and "x-mlxserve-ignored" not in headers, text
    return json.loads(text)["choices"][0]["text"]


def test_the_samplers_of_other_servers_give_the_same_answer_alone_and_beside_others(s):
    alone = [answer(s, extra) for extra in SAMPLERS]
    assert len(set(alone)) > 3, alone
    with concurrent.futures.ThreadPoolExecutor(len(SAMPLERS)) as pool:
        assert list(pool.map(lambda extra: answer(s, extra), SAMPLERS)) == alone


WEATHER_TOOL = {
    "type": "function", "name": "get_weather", "description": "Get the weather", "strict": True,
    "parameters": {"type": "object", "properties": {"place": {"enum": ["Paris", "Rome"]}}, "required": ["place"],
                   "additionalProperties": False}}


def test_a_search_for_tools_that_the_client_makes(s):
    """As Codex does it: the model searches, the client brings tools, and the model calls one of them."""
    deferred = {**WEATHER_TOOL, "name": "get_time", "defer_loading": True}
    search = {
        "type": "tool_search", "execution": "client", "description": "Finds tools",
        "parameters": {"type": "object", "properties": {"query": {"enum": ["weather"]}}, "required": ["query"],
                       "additionalProperties": False}}
    options = {"model": s.model, "tools": [deferred, search], "max_output_tokens": 200, "temperature": 0,
               "reasoning": {"effort": "none"}}
    response = s.client.responses.create(input="What is the weather in Paris?", tool_choice="required", **options)
    call = response.output[-1]
    assert call.type == "tool_search_call" and call.execution == "client" and call.status == "completed", response.output
    assert call.arguments == {"query": "weather"} and call.call_id
    events = list(s.client.responses.create(
        input="What is the weather in Paris?", tool_choice="required", stream=True, **options))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done[-1].arguments == call.arguments and "delta" not in {event.type.split(".")[-1] for event in events}
    found = {"type": "tool_search_output", "call_id": call.call_id, "execution": "client", "status": "completed",
             "tools": [{"type": "namespace", "name": "maps", "description": "Maps",
                        "tools": [{**WEATHER_TOOL, "defer_loading": True}]}]}
    answer = s.client.responses.create(
        input=[found], previous_response_id=response.id, tool_choice={"type": "function", "name": "get_weather"}, **options)
    made = answer.output[-1]
    assert (made.type, made.name, made.namespace) == ("function_call", "get_weather", "maps"), answer.output
    assert json.loads(made.arguments)["place"] in ("Paris", "Rome")
    # What was found costs tokens, what is deferred does not.
    count = lambda **extra: s.client.responses.input_tokens.count(
        **{"model": s.model, "input": "x", "tools": [deferred, search], **extra}).input_tokens
    assert count() == count(tools=[search]) < count(tools=[WEATHER_TOOL, search])
    items = [found["tools"][0]["tools"][0]]
    brought = [{"type": "additional_tools", "role": "developer", "tools": items}, {"role": "user", "content": "x"}]
    assert count(input=brought, tools=[search]) == count(tools=[search, WEATHER_TOOL])


def test_tools_of_OpenAI_that_the_client_runs(s):
    """Their calls are the items of OpenAI's types, and what came of them reaches the model."""
    kinds = {
        "local_shell": ("local_shell_call", lambda call: call.action.command, {"output": "a.txt"}),
        "shell": ("shell_call", lambda call: call.action.commands, {"output": [
            {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
        "apply_patch": ("apply_patch_call", lambda call: call.operation.path, {"status": "completed", "output": "Done."}),
    }
    for tool, (kind, asked, output) in kinds.items():
        options = {"model": s.model, "tools": [{"type": tool}], "temperature": 0, "reasoning": {"effort": "none"}}
        response = s.client.responses.create(
            input="List the files.", tool_choice="required", max_output_tokens=300, **options)
        call = response.output[-1]
        assert call.type == kind and call.call_id, response.output
        # A small model may write until the limit.
        if response.status == "completed":
            assert call.status == "completed" and asked(call), call
        answer = s.client.responses.create(
            input=[{"role": "user", "content": "List the files."}, call.model_dump(exclude_none=True),
                   {"type": kind + "_output", "call_id": call.call_id, **output}], max_output_tokens=20, **options)
        assert answer.output and answer.usage.input_tokens > response.usage.input_tokens


def test_tools_of_Anthropic_that_the_client_runs(s):
    client = anthropic.Anthropic(
        base_url=s.base_url.removesuffix("/v1"), api_key="none", max_retries=0, _strict_response_validation=True)
    tools = [
        {"type": "bash_20250124", "name": "bash", "strict": True},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 800, "display_height_px": 600,
         "enable_zoom": True},
    ]
    options = {"model": s.model, "max_tokens": 400, "extra_body": {"temperature": 0, "seed": 1}}
    user = {"role": "user", "content": "List the files."}
    members = {"bash": {"command", "restart"}, "memory": {"command", "path", "file_text", "old_str", "new_str", "insert_line",
                                                          "insert_text", "view_range", "old_path", "new_path"}}
    for name, known in members.items():
        forced = [{**tool, "strict": True} for tool in tools if tool["name"] == name]
        message = client.beta.messages.create(
            messages=[user], tools=forced, tool_choice={"type": "tool", "name": name}, **options)
        block = message.content[-1]
        assert (block.type, block.name) == ("tool_use", name) and set(block.input) <= known, message.content
    counts = [client.messages.count_tokens(model=s.model, messages=[user], tools=tools[:n]).input_tokens for n in range(4)]
    assert counts == sorted(set(counts)), counts
    try:
        client.beta.messages.create(
            messages=[user], tools=[{"type": "web_search_20250305", "name": "web_search"}],
            tool_choice={"type": "tool", "name": "web_search"}, **options)
        raise AssertionError("accepted")
    except anthropic.BadRequestError as error:
        assert "web_search_20250305" in error.message and "left out" in error.message
    # A summary that another server has written stands for what was before it.
    long = [{"role": "user", "content": "word " * 200}, {"role": "assistant", "content": [
        {"type": "compaction", "content": "They said words."}, {"type": "text", "text": "Yes."}]}, user]
    raw = client.beta.messages.with_raw_response.create(
        messages=long, context_management={"edits": [{"type": "compact_20260112"}]}, **options)
    assert raw.headers["x-mlxserve-ignored"] == "context_management.edits[0].type=compact_20260112"
    usage = raw.parse().usage
    assert usage.input_tokens + usage.cache_read_input_tokens < 100, usage
