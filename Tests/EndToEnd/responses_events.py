"""What a Responses object and a Responses stream must look like: every field, every event, in order."""

import json

PATH = "/v1/responses"

# Members that must be there; those in NULLABLE may be null.
REQUIRED = {
    "id": str, "object": str, "created_at": int, "completed_at": int, "status": str, "error": dict,
    "incomplete_details": dict, "instructions": str, "max_output_tokens": int, "max_tool_calls": int, "model": str,
    "output": list, "parallel_tool_calls": bool, "previous_response_id": str, "reasoning": dict, "service_tier": str,
    "store": bool, "background": bool, "temperature": (int, float), "top_p": (int, float),
    "presence_penalty": (int, float), "frequency_penalty": (int, float), "top_logprobs": int, "text": dict,
    "tool_choice": (str, dict), "tools": list, "truncation": str, "usage": dict, "metadata": dict,
    "safety_identifier": str, "prompt_cache_key": str,
}
NULLABLE = {
    "completed_at", "error", "incomplete_details", "instructions", "max_output_tokens", "max_tool_calls",
    "previous_response_id", "usage", "safety_identifier", "prompt_cache_key",
}
OPTIONAL = {"conversation": dict, "user": str, "prompt_cache_retention": str}


def check_response(body):
    """Table 2.4 of the API notes: presence, types, nulls."""
    for name, kind in REQUIRED.items():
        assert name in body, f"{name} is missing"
        value = body[name]
        if value is None:
            assert name in NULLABLE, f"{name} is null"
        else:
            assert isinstance(value, kind) and (kind is not int or not isinstance(value, bool)), f"{name}: {value!r}"
    for name in body.keys() - REQUIRED.keys():
        assert name in OPTIONAL and isinstance(body[name], OPTIONAL[name]), f"unknown member {name}"
    assert body["object"] == "response" and body["id"].startswith("resp_")
    assert body["status"] in ("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
    assert body["reasoning"].keys() == {"effort", "summary"}
    assert body["reasoning"]["effort"] in (None, "none", "low", "medium", "high", "xhigh")
    assert body["service_tier"] == "default" and body["truncation"] in ("auto", "disabled")
    assert "format" in body["text"] and body["text"].get("verbosity", "low") is not None
    for tool in body["tools"]:
        assert tool.keys() == {"type", "name", "description", "parameters", "strict"}, tool
    if body["error"]:
        assert body["error"].keys() == {"code", "message"} and body["error"]["code"] == "server_error"
    done = body["status"] in ("completed", "incomplete")
    if done:
        check_usage(body["usage"])
    if body["status"] in ("queued", "in_progress"):
        assert body["output"] == [] and body["usage"] is None and body["completed_at"] is None
    if body["status"] == "completed":
        assert body["completed_at"] >= body["created_at"]
        assert body["error"] is None and body["incomplete_details"] is None
        assert all(item["status"] == "completed" for item in body["output"])
    if body["status"] == "incomplete":
        assert body["incomplete_details"] == {"reason": "max_output_tokens"} and body["completed_at"] is None
        assert all(item["status"] == "completed" for item in body["output"][:-1])
    ids = [item["id"] for item in body["output"]]
    assert len(ids) == len(set(ids))
    for item in body["output"]:
        check_item(item)


def check_usage(usage):
    assert usage.keys() == {
        "input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"}
    assert usage["input_tokens_details"].keys() == {"cached_tokens", "cache_write_tokens"}
    assert usage["output_tokens_details"].keys() == {"reasoning_tokens"}
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert 0 <= usage["output_tokens_details"]["reasoning_tokens"] <= usage["output_tokens"]


def check_item(item):
    assert item["status"] in ("in_progress", "completed", "incomplete")
    kind = item["type"]
    if kind == "message":
        assert item.keys() == {"id", "type", "role", "status", "content"} and item["id"].startswith("msg_")
        assert item["role"] == "assistant"
        for part in item["content"]:
            assert part.keys() == {"type", "text", "annotations", "logprobs"} and part["type"] == "output_text"
            assert part["annotations"] == [] and isinstance(part["logprobs"], list)
    elif kind == "reasoning":
        assert item["id"].startswith("rs_")
        assert item.keys() - {"content", "encrypted_content"} == {"id", "type", "status", "summary"}
        for part in item["summary"]:
            assert part.keys() == {"type", "text"} and part["type"] == "summary_text"
        for part in item.get("content", []):
            assert part.keys() == {"type", "text"} and part["type"] == "reasoning_text"
        assert isinstance(item.get("encrypted_content", ""), str)
    elif kind == "function_call":
        assert item.keys() == {"id", "type", "status", "call_id", "name", "arguments"}
        assert item["id"].startswith("fc_") and item["call_id"].startswith("call_")
        if item["status"] == "completed":
            assert isinstance(json.loads(item["arguments"]), dict)
    else:
        raise AssertionError(f"an item of type {kind}")


def stream(s, headers=(), **body):
    """The events of a streamed request, its framing checked; keep-alive comments are skipped."""
    status, head, raw = s.post(PATH, {"model": s.model, "temperature": 0, "stream": True, **body}, headers)
    assert status == 200, raw
    assert head["content-type"].startswith("text/event-stream") and head["cache-control"] == "no-cache"
    return parse_stream(raw)


def parse_stream(raw):
    blocks = raw.decode().split("\n\n")
    assert blocks.pop() == "", "the last event does not end"
    blocks = [block for block in blocks if not block.startswith(":")]
    assert blocks.pop() == "data: [DONE]"
    events = []
    for block in blocks:
        first, second = block.split("\n")
        assert first.startswith("event: ") and second.startswith("data: "), block
        event = json.loads(second[6:])
        assert event["type"] == first[7:]
        events.append(event)
    return events


class Reader:
    """Walks through the events of one response and insists on each next one."""

    def __init__(self, events):
        self.events, self.at = events, 0

    def next(self, kind, **members):
        assert self.at < len(self.events), f"expected {kind}, found the end"
        event = self.events[self.at]
        assert event["type"] == kind, f"event {self.at}: expected {kind}, found {event['type']}"
        assert event["sequence_number"] == self.first + self.at
        self.at += 1
        rest = {name: value for name, value in event.items() if name not in ("type", "sequence_number")}
        for name, value in members.items():
            assert rest[name] == value, f"{kind}.{name}: {rest[name]!r}, expected {value!r}"
        return rest

    first = 0

    def peek(self):
        return self.events[self.at]["type"] if self.at < len(self.events) else None


REASONING = {
    "openai": ("response.reasoning_text", "content"),
    "openresponses": ("response.reasoning", "content"),
    "summary": ("response.reasoning_summary_text", "summary"),
}


def check_stream(events, reasoning="openai", background=False):
    """Sequences A to D, F and I field by field. Returns the response in the terminal event."""
    reader = Reader(events)
    begun = reader.next("response.created")
    assert begun.keys() == {"response"}
    check_response(begun["response"])
    if background:
        assert begun["response"]["status"] == "queued"
        assert reader.next("response.queued")["response"] == begun["response"]
        progress = reader.next("response.in_progress")["response"]
        assert progress == {**begun["response"], "status": "in_progress"}
    else:
        assert begun["response"]["status"] == "in_progress"
        assert reader.next("response.in_progress") == begun
    output = []
    while reader.peek() == "response.output_item.added":
        output.append(check_item_events(reader, len(output), reasoning))
    kind = reader.peek()
    assert kind in ("response.completed", "response.incomplete", "response.failed"), kind
    last = reader.next(kind)
    assert reader.peek() is None, "events after the terminal one"
    body = last["response"]
    check_response(body)
    if kind == "response.incomplete":
        assert body["status"] in ("incomplete", "cancelled")
    else:
        assert body["status"] == kind.removeprefix("response.")
    assert body["output"] == output
    changing = {"status", "output", "usage", "completed_at", "error", "incomplete_details"}
    for name in body.keys() - changing:
        assert body[name] == begun["response"][name], name
    return body


def check_item_events(reader, index, reasoning):
    added = reader.next("response.output_item.added", output_index=index)
    assert added.keys() == {"output_index", "item"}
    item = added["item"]
    assert item["status"] == "in_progress"
    body = {"message": message_events, "reasoning": reasoning_events, "function_call": call_events}[item["type"]]
    final = body(reader, index, item, reasoning)
    done = reader.next("response.output_item.done", output_index=index)["item"]
    final["status"] = done["status"]
    if "encrypted_content" in done:
        final["encrypted_content"] = done["encrypted_content"]
    assert done == final, (done, final)
    assert done["status"] in ("completed", "incomplete")
    return done


def message_events(reader, index, item, _):
    assert item == {"id": item["id"], "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    assert reader.next("response.content_part.added") == {**place, "part": empty}
    text, logprobs = "", []
    while reader.peek() == "response.output_text.delta":
        delta = reader.next("response.output_text.delta", **place)
        assert delta.keys() == {*place, "delta", "logprobs"} and delta["delta"]
        text += delta["delta"]
        logprobs += delta["logprobs"]
    assert reader.next("response.output_text.done") == {**place, "text": text, "logprobs": logprobs}
    part = {**empty, "text": text, "logprobs": logprobs}
    assert reader.next("response.content_part.done") == {**place, "part": part}
    return {**item, "content": [part]}


def reasoning_events(reader, index, item, reasoning):
    final = {"id": item["id"], "type": "reasoning", "summary": []}
    if reasoning == "none":
        done = reader.events[reader.at]["item"]
        return {**final, **{name: done[name] for name in ("content", "summary") if name in done}}
    prefix, member = REASONING[reasoning]
    started = {**final, "status": "in_progress", **({"content": []} if member == "content" else {})}
    assert item == started, item
    place = {"item_id": item["id"], "output_index": index, f"{member}_index": 0}
    part_kind = {"content": "response.content_part", "summary": "response.reasoning_summary_part"}[member]
    part = {"type": "reasoning_text" if member == "content" else "summary_text", "text": ""}
    assert reader.next(f"{part_kind}.added") == {**place, "part": part}
    text = ""
    while reader.peek() == f"{prefix}.delta":
        delta = reader.next(f"{prefix}.delta", **place)
        assert delta.keys() == {*place, "delta"} and delta["delta"]
        text += delta["delta"]
    assert reader.next(f"{prefix}.done") == {**place, "text": text}
    assert reader.next(f"{part_kind}.done") == {**place, "part": {**part, "text": text}}
    return {**final, member: [{**part, "text": text}]}


def call_events(reader, index, item, _):
    assert item.keys() == {"id", "type", "call_id", "name", "arguments", "status"} and item["arguments"] == ""
    place = {"item_id": item["id"], "output_index": index}
    arguments = ""
    while reader.peek() == "response.function_call_arguments.delta":
        delta = reader.next("response.function_call_arguments.delta", **place)
        assert delta.keys() == {*place, "delta"} and delta["delta"]
        arguments += delta["delta"]
    done = reader.next("response.function_call_arguments.done")
    assert done == {**place, "name": item["name"], "arguments": arguments}
    assert arguments, "not one delta"
    return {**item, "arguments": arguments}
