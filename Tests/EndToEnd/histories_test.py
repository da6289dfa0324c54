"""Histories that templates do not take as they are, on every wire: each gives an answer, and the prompt of the same
conversation put right."""

import json

from reliability.folders import changed
from server import Server

# One system text, at the beginning; then the user and the assistant in turns, calls and results aside.
STRICT = r"""
{%- for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}{% endfor %}
{%- set ns = namespace(turn=0) %}
{%- for m in messages if m.role == 'user' or m.role == 'assistant' and not m.tool_calls %}
{%- if (m.role == 'user') != (ns.turn % 2 == 0) %}{{ raise_exception('Roles must alternate.') }}{% endif %}
{%- set ns.turn = ns.turn + 1 %}
{%- endfor %}
{%- if tools %}{{ '<|im_start|>system\n' ~ (tools | tojson) ~ '<|im_end|>\n' }}{% endif %}
{%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\n' ~ (m.content or '') }}
{%- for c in m.tool_calls %}{{ '<tool_call>\n' ~ (c.function | tojson) ~ '\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def user(text): return {"role": "user", "content": text}
def system(text): return {"role": "system", "content": text}
def answer(text): return {"role": "assistant", "content": text}


def calls(**cities):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": name, "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
        for name, city in cities.items()]}


def result(name, text): return {"role": "tool", "tool_call_id": name, "content": text}


BOTH = [user("Weather?"), calls(a="Paris", b="Rome")]
ENDED = [*BOTH, result("a", "21 degrees"), result("b", "31 degrees")]
MISSING = {name: result(name, "This call has no result.") for name in "ab"}
ORPHAN = "Result of a call (z):\n<tool_response>\n9 degrees\n</tool_response>"
# As a client sends it, and as the template takes it.
PAIRS = [
    ([*BOTH, result("b", "31 degrees"), result("a", "21 degrees")], ENDED),
    ([*BOTH, user("Well?"), result("b", "31 degrees"), result("a", "21 degrees")], [*ENDED, user("Well?")]),
    ([*BOTH, result("b", "31 degrees")], [*BOTH, MISSING["a"], result("b", "31 degrees")]),
    # Calls that nothing answers, in the middle and at the end, and results that no call waits for.
    ([*BOTH, user("Stop.")], [*BOTH, MISSING["a"], MISSING["b"], user("Stop.")]),
    (BOTH, [*BOTH, MISSING["a"], MISSING["b"]]),
    ([*BOTH, result("a", "21 degrees")], [*BOTH, result("a", "21 degrees"), MISSING["b"]]),
    ([result("z", "9 degrees")], [user(ORPHAN)]),
    ([*BOTH, result("z", "9 degrees")], [*BOTH, MISSING["a"], MISSING["b"], user(ORPHAN)]),
    ([*ENDED, result("z", "9 degrees"), user("Well?")], [*ENDED, user(ORPHAN + "\n\nWell?")]),
    ([system("A"), user("B"), answer("C"), system("D"), user("E")], [system("A"), user("B"), answer("C"), user("D\n\nE")]),
    ([system("A"), system("B"), user("C")], [system("A\n\nB"), user("C")]),
    ([user("A"), user("B"), answer("C")], [user("A\n\nB"), answer("C")]),
]
# What only has to be answered: the template prints it as it comes.
ODD = [
    [*ENDED, user("And tomorrow?")],
    [*BOTH, user("Stop."), answer("I stop."), user("Go on.")],
    [answer("Hello!"), user("Hi.")],
    [user("A"), answer(""), user("B")],
]


def tool_of_chat(): return {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def chat(s, messages):
    status, _, body = s.post("/v1/chat/completions", {
        "model": s.model, "messages": messages, "tools": [tool_of_chat()], "max_tokens": 1})
    assert status == 200, (messages, body)
    return json.loads(body)["usage"]["prompt_tokens"]


def prompt(s, messages):
    status, _, body = s.post("/apply-template", {"model": s.model, "messages": messages})
    assert status == 200, (messages, body)
    return json.loads(body)["prompt"]


def responses(s, messages):
    items = []
    for message in messages:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]})
        elif message.get("tool_calls"):
            items += [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in message["tool_calls"]]
        else:
            items.append(message)
    status, _, body = s.post("/v1/responses", {
        "model": s.model, "input": items, "max_output_tokens": 1, "store": False,
        "tools": [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}]})
    assert status == 200, (messages, body)
    return json.loads(body)["usage"]["input_tokens"]


def anthropic(messages):
    """Results and the user's text that follows them in one message, as that API wants it."""
    for message in messages:
        if message["role"] == "tool":
            yield {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]}
        elif message.get("tool_calls"):
            yield {"role": "assistant", "content": [
                {"type": "tool_use", "id": call["id"], "name": "weather", "input": json.loads(call["function"]["arguments"])}
                for call in message["tool_calls"]]}
        else:
            yield message


def messages(s, history):
    body = {"model": s.model, "messages": list(anthropic(history)),
            "tools": [{"name": "weather", "input_schema": PARAMETERS}]}
    status, _, counted = s.post("/v1/messages/count_tokens", body)
    assert status == 200, (history, counted)
    if history[-1]["role"] != "assistant" or history[-1].get("tool_calls"):
        status, _, answered = s.post("/v1/messages", {**body, "max_tokens": 1})
        assert status == 200, (history, answered)
        usage = json.loads(answered)["usage"]
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == json.loads(counted)["input_tokens"]
    return json.loads(counted)["input_tokens"]


def ollama(s, history):
    turned = [{**message, "content": message["content"] or "", "tool_calls": [
        {"id": call["id"], "function": {"name": "weather", "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])]} for message in history]
    status, _, body = s.post("/api/chat", {
        "model": s.model, "messages": turned, "tools": [tool_of_chat()], "stream": False, "options": {"num_predict": 1}})
    assert status == 200, (history, body)
    return json.loads(body)["prompt_eval_count"]


def test_every_wire_answers_every_history(s):
    with changed(chat_template_dot_jinja=STRICT) as folder:
        strict = Server(s.binary, model=folder)
        try:
            for server in (strict, s):
                for wire in (chat, responses, messages, ollama):
                    # Anthropic's history may end with the assistant, which is then continued.
                    for sent, meant in PAIRS[:8] if server is s else PAIRS:
                        assert wire(server, sent) == wire(server, meant), (wire.__name__, sent)
                    for history in ODD:
                        wire(server, history)
            # Results in another order are as many tokens: these are the texts.
            for sent, meant in PAIRS:
                assert prompt(strict, sent) == prompt(strict, meant), sent
            assert prompt(strict, PAIRS[9][0]) == (
                "<|im_start|>system\nA<|im_end|>\n<|im_start|>user\nB<|im_end|>\n<|im_start|>assistant\nC<|im_end|>\n"
                "<|im_start|>user\nD\n\nE<|im_end|>\n<|im_start|>assistant\n")
        finally:
            assert strict.stop() == 0


def test_the_words_of_a_template_end_once(s):
    refusing = "{% if messages[0].content == 'no' %}{{ raise_exception('Not this.') }}{% endif %}{{ messages[0].content }}"
    with changed(chat_template_dot_jinja=refusing) as folder:
        server = Server(s.binary, model=folder)
        try:
            for path, message in (
                    ("/v1/chat/completions", "Invalid 'messages': Not this."), ("/v1/messages", "Invalid 'messages': Not this.")):
                status, _, body = server.post(path, {"model": server.model, "messages": [user("no")], "max_tokens": 1})
                assert (status, json.loads(body)["error"]["message"]) == (400, message)
        finally:
            assert server.stop() == 0


def test_what_is_left_out_of_a_message_is_named(s):
    history = [user("A"), {**answer("B"), "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, user("C")]
    status, headers, _ = s.post("/v1/chat/completions", {"model": s.model, "messages": history, "max_tokens": 1})
    assert (status, headers["x-mlxserve-ignored"]) == (200, "messages[1].reasoning_details")
    foreign = {"type": "thinking", "thinking": "x", "signature": "y"}
    history = [user("A"), {"role": "assistant", "content": [foreign, {"type": "text", "text": "B"}]}, user("C")]
    body = {"model": s.model, "messages": history}
    for path, more in (("/v1/messages", {"max_tokens": 1}), ("/v1/messages/count_tokens", {})):
        status, headers, _ = s.post(path, {**body, **more})
        assert (status, headers["x-mlxserve-ignored"]) == (200, "messages[1].content[0].type=thinking"), path
