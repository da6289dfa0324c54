"""Bodies as agents send them (written after the public sources of Codex, Claude Code, Cline, Zed and Continue), and the
samplers of other servers: a seed gives the same answer alone and beside others."""

import concurrent.futures
import json

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
