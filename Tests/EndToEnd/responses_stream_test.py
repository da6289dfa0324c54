"""Streams of the Responses API, and the WebSocket that carries the same events."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from responses_events import PATH, check_response, check_stream, parse_stream, stream
from responses_test import (
    ASK_WEATHER, WEATHER, Capital, constrained, create, endless, poll, raw, raw_of, user)
from sdk_test import CAPITAL, YES, refused
from server import Server, parse

NO_THOUGHT = {"reasoning": {"effort": "none"}}


def types(events):
    return [event["type"].removeprefix("response.") for event in events]


def deltas(events, kind="response.output_text.delta"):
    return "".join(event["delta"] for event in events if event["type"] == kind)


def sdk_events(s, content, **options):
    """The same through the strict SDK, as JSON."""
    return list(create(s, content, stream=True, **options))


def test_the_events_of_plain_text(s):
    events = sdk_events(s, CAPITAL)
    text = [e for e in events if e.type == "response.output_text.delta"]
    assert [e.type.removeprefix("response.") for e in events if e not in text] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.done", "content_part.done",
        "output_item.done", "completed"]
    assert len(text) > 3
    assert events[-1].response.output_text == create(s, CAPITAL).output_text


def test_the_sdks_stream_helper_gives_the_whole_response(s):
    with s.client.responses.stream(model=s.model, input=CAPITAL, temperature=0, **NO_THOUGHT) as helper:
        final = helper.get_final_response()
    assert final.output_text == create(s, CAPITAL).output_text
    with s.client.responses.stream(
            model=s.model, input=ASK_WEATHER, tools=[WEATHER_STRICTLESS], temperature=0) as helper:
        kinds = {event.type for event in helper}
        final = helper.get_final_response()
    assert "response.function_call_arguments.delta" in kinds and final.output[-1].type == "function_call"


WEATHER_STRICTLESS = {**WEATHER, "strict": False}


def test_every_event_of_every_kind(s):
    cases = [
        dict(input=CAPITAL, **NO_THOUGHT), dict(input=YES), dict(input=ASK_WEATHER, tools=[WEATHER], **NO_THOUGHT),
        dict(input=ASK_WEATHER, tools=[WEATHER]), dict(input="Hello!", store=False),
        dict(input=YES, include=["reasoning.encrypted_content"]),
        dict(input=CAPITAL, instructions="You are a helpful assistant.", metadata={"a": "b"}),
    ]
    for case in cases:
        events = stream(s, **case)
        body = check_stream(events)
        whole = raw(s, **case)[2]
        check_response(whole)
        assert texts_of(body) == texts_of(whole), case
        # The second may find more of its prompt cached; nothing else of the usage may differ.
        (first, cached_first), (second, cached_second) = usage_and_cached(body), usage_and_cached(whole)
        assert first == second and cached_first <= cached_second, case
        if case.get("store", True):
            assert json.loads(s.get(f"{PATH}/{body['id']}")[2]) == body
    summary = check_stream(stream(s, input=YES, reasoning={"summary": "auto"}), reasoning="summary")
    assert [item["type"] for item in summary["output"]] == ["reasoning", "message"]


def usage_and_cached(body):
    """The usage without its cached tokens, and those."""
    details = dict(body["usage"]["input_tokens_details"])
    cached = details.pop("cached_tokens")
    return {**body["usage"], "input_tokens_details": details}, cached


def texts_of(body):
    return [(item["type"], item["status"], item.get("name"), item.get("arguments"), item.get("content"),
             item.get("summary"), item.get("encrypted_content")) for item in body["output"]]


def test_the_events_of_a_call(s):
    events = stream(s, input=ASK_WEATHER, tools=[WEATHER], **NO_THOUGHT)
    body = check_stream(events)
    call = body["output"][0]
    assert deltas(events, "response.function_call_arguments.delta") == call["arguments"]
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    assert done["name"] == "get_weather"


def test_the_events_of_two_calls(s):
    for question in ("What is the weather in Paris and London?", "What is the weather in Paris and in Rome?"):
        body = check_stream(stream(s, input=question, tools=[WEATHER], **NO_THOUGHT))
        if len([item for item in body["output"] if item["type"] == "function_call"]) > 1:
            return
    return "the demo model makes one call at a time; the Swift tests have two"


def test_names_of_reasoning_events(s):
    assert check_stream(stream(s, input=YES))["output"][0]["content"][0]["text"]
    for mode in ("openresponses", "none"):
        other = Server(s.binary, "--responses-reasoning-events", mode)
        try:
            events = stream(other, input=YES)
            body = check_stream(events, reasoning=mode)
            assert [item["type"] for item in body["output"]] == ["reasoning", "message"]
            assert body["output"][0]["content"][0]["text"]
            assert any(e["type"].startswith("response.reasoning") for e in events) == (mode == "openresponses")
            status, _, replay = other.get(f"{PATH}/{body['id']}?stream=true")
            assert status == 200 and parse_stream(replay) == events
        finally:
            assert other.stop() == 0


def test_a_limit_can_cut_any_item(s):
    story = stream(s, input="Tell me a story.", max_output_tokens=6, **NO_THOUGHT)
    thought = stream(s, input=YES, max_output_tokens=6)
    for events, kind in ((story, "message"), (thought, "reasoning")):
        body = check_stream(events)
        assert body["status"] == "incomplete" and events[-1]["type"] == "response.incomplete"
        assert [item["type"] for item in body["output"]] == [kind]
        assert body["output"][-1]["status"] == "incomplete" and body["usage"]["output_tokens"] == 6
    whole = create(s, ASK_WEATHER, tools=[WEATHER]).usage.output_tokens
    for limit in range(1, whole + 1):
        body = check_stream(stream(s, input=ASK_WEATHER, tools=[WEATHER], max_output_tokens=limit, **NO_THOUGHT))
        assert body["usage"]["output_tokens"] == limit
        follow = create(s, "Hello!", previous_response_id=body["id"])
        assert follow.status == "completed"
    try:
        with s.client.responses.stream(model=s.model, input=YES, max_output_tokens=6) as helper:
            helper.get_final_response()
        raise AssertionError("the helper takes an incomplete response for a complete one")
    except RuntimeError:
        pass


@constrained("text.format")
def test_a_parsed_stream(s):
    with s.client.responses.stream(
            model=s.model, input="Give the capital of France as JSON.", text_format=Capital, temperature=0) as helper:
        assert isinstance(helper.get_final_response().output_parsed, Capital)


def test_log_probabilities_are_streamed(s):
    events = stream(s, input=CAPITAL, include=["message.output_text.logprobs"], top_logprobs=3, **NO_THOUGHT)
    body = check_stream(events)
    for event in events:
        if event["type"] == "response.output_text.delta":
            assert event["logprobs"] and "".join(e["token"] for e in event["logprobs"]) == event["delta"]
            for entry in event["logprobs"]:
                assert entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 3 and isinstance(entry["bytes"], list)
    replay = parse_stream(s.get(f"{PATH}/{body['id']}?stream=true")[2])
    assert replay == events
    sdk_events(s, CAPITAL, include=["message.output_text.logprobs"], top_logprobs=3)


def test_bad_requests_are_refused_before_a_stream(s):
    for members, status in [({"input": []}, 400), ({"input": "x", "tools": [{"type": "custom"}]}, 400),
                            ({"input": "word " * 5000}, 400), ({"input": "x", "model": "nope"}, 404)]:
        found, headers, body = s.post(PATH, {"model": s.model, "stream": True, **members})
        assert found == status and headers["content-type"] == "application/json"
        assert json.loads(body)["error"].keys() == {"message", "type", "param", "code"}


def test_a_server_that_ends_finishes_its_streams(s):
    """Faults within a stream cannot be had from outside; they are in the Swift tests."""
    server = Server(s.binary)
    with server.connect() as connection:
        body = json.dumps({
            "model": server.model, "input": "Tell me a story.", "stream": True, "ignore_eos": True,
            "max_output_tokens": 600}).encode()
        lines = [f"POST {PATH} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        answer = connection.recv(65536)
        server.process.terminate()
        while piece := connection.recv(65536):
            answer += piece
    events = parse_stream(parse(answer)[2])
    assert check_stream(events)["status"] == "incomplete"
    assert server.process.wait(timeout=40) == 0


def test_a_client_that_leaves(s):
    ids = []
    for _ in range(5):
        events = endless(s, stream=True)
        ids.append(next(events).response.id)
        for _ in range(4):
            next(events)
        events.close()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        answers = [s.get(f"{PATH}/{id}") for id in ids]
        if all(status == 200 for status, _, _ in answers):
            break
        time.sleep(0.05)
    for status, _, body in answers:
        assert status == 200
        body = json.loads(body)
        check_response(body)
        assert body["status"] == "cancelled" and body["usage"]["output_tokens"] < 1900


def test_a_stored_stream_can_be_replayed_from_any_event(s):
    for case in (dict(input=YES), dict(input=ASK_WEATHER, tools=[WEATHER]),
                 dict(input="Tell me a story.", max_output_tokens=20, **NO_THOUGHT)):
        events = stream(s, **case)
        id = events[0]["response"]["id"]
        assert parse_stream(s.get(f"{PATH}/{id}?stream=true")[2]) == events
        for after in (0, 5, len(events) - 2, len(events) - 1, len(events) + 5):
            tail = parse_stream(s.get(f"{PATH}/{id}?stream=true&starting_after={after}")[2])
            assert tail == events[after + 1 :]
        again = list(s.client.responses.retrieve(id, stream=True, starting_after=3))
        assert [e.sequence_number for e in again] == [e["sequence_number"] for e in events[4:]]
        # A response that was not streamed has events too.
        whole = create(s, case["input"], **{k: v for k, v in case.items() if k != "input"})
        assert check_stream(parse_stream(s.get(f"{PATH}/{whole.id}?stream=true")[2])) == raw_of(whole)
    for query in ("stream=maybe", "stream=true&starting_after=x", "stream=true&starting_after=-1", "starting_after=1"):
        assert s.get(f"{PATH}/{id}?{query}")[0] == 400, query


def test_following_a_background_response(s):
    running = endless(s, background=True)
    with ThreadPoolExecutor(2) as pool:
        followers = [pool.submit(lambda: parse_stream(s.get(f"{PATH}/{running.id}?stream=true")[2])) for _ in range(2)]
        time.sleep(0.2)
        tail = parse_stream(s.get(f"{PATH}/{running.id}?stream=true&starting_after=10")[2])
        first, second = (follower.result() for follower in followers)
    assert first == second and tail == first[11:]
    body = check_stream(first, background=True)
    assert body == raw_of(poll(s, running.id))
    assert parse_stream(s.get(f"{PATH}/{running.id}?stream=true")[2]) == first


def test_a_background_response_can_be_streamed(s):
    events = stream(s, input=CAPITAL, background=True, **NO_THOUGHT)
    assert "Paris" in deltas(events)
    check_stream(events, background=True)
    # A client that leaves does not end it.
    leaving = endless(s, background=True, stream=True)
    id = next(leaving).response.id
    leaving.close()
    assert poll(s, id).usage.output_tokens == 1900
    cancelled = endless(s, background=True, stream=True)
    id = next(cancelled).response.id
    s.client.responses.cancel(id)
    last = list(cancelled)[-1]
    assert last.type == "response.incomplete" and last.response.status == "cancelled"
    assert check_stream(parse_stream(s.get(f"{PATH}/{id}?stream=true")[2]), background=True)["status"] == "cancelled"


def test_ten_at_once(s):
    cases = [
        dict(input=[user("Hello!", type="message")]), dict(input=CAPITAL), dict(input="What is 2+2?"),
        dict(input=[{"type": "message", "role": "system", "content": "You are a helpful assistant."}, user("Hi")]),
        dict(input=ASK_WEATHER, tools=[WEATHER]), dict(input=YES), dict(input=[
            user("My name is Alice."), {"role": "assistant", "content": "Hello, Alice!", "phase": "commentary"},
            user("What is my name?")]),
        dict(input="Tell me a story."), dict(input=CAPITAL, **NO_THOUGHT), dict(input="Count to five."),
    ]
    with ThreadPoolExecutor(10) as pool:
        alone = [check_stream(stream(s, **case)) for case in cases]
        together = list(pool.map(lambda case: check_stream(stream(s, **case)), cases))
    assert [texts_of(body) for body in together] == [texts_of(body) for body in alone]


def test_a_call_without_arguments(s):
    tool = {"type": "function", "name": "get_time", "description": "Get the current time", "parameters": {
        "type": "object", "properties": {}}}
    body = check_stream(stream(s, input="What time is it?", tools=[tool], **NO_THOUGHT))
    return f"the demo model says {[item['type'] for item in body['output']]}; the Swift tests have the empty call"


def test_a_long_answer(s):
    events = stream(s, input="Tell me a story.", max_output_tokens=1900, ignore_eos=True, **NO_THOUGHT)
    body = check_stream(events)
    assert body["usage"]["output_tokens"] == 1900 and types(events).count("incomplete") == 1
    sizes = [len(json.dumps(e)) for e in events if e["type"] == "response.output_text.delta"]
    assert max(sizes) < 1000 and len(sizes) > 1000


# WebSocket


def socket(s, **options):
    return connect(f"ws://{s.host}:{s.port}{PATH}", open_timeout=30, close_timeout=10, **options)


def ask(connection, **body):
    """Sends a request and reads its events to the end."""
    connection.send(json.dumps({"type": "response.create", **body}))
    events = []
    while not events or events[-1]["type"] not in (
            "response.completed", "response.incomplete", "response.failed", "error"):
        events.append(json.loads(connection.recv(timeout=60)))
    return events


def ask_model(s, connection, content=None, **body):
    if content is not None:
        body["input"] = content
    return ask(connection, model=s.model, temperature=0, **{**NO_THOUGHT, **body})


def test_ws_a_response(s):
    with socket(s) as connection:
        body = check_stream(ask_model(s, connection, CAPITAL))
        assert body["output"][0]["content"][0]["text"] == create(s, CAPITAL).output_text
        assert json.loads(s.get(f"{PATH}/{body['id']}")[2]) == body
        check_stream(ask_model(s, connection, ASK_WEATHER, tools=[WEATHER]))
        check_stream(ask_model(s, connection, YES, reasoning={}))


def test_ws_sequential_and_continued(s):
    with socket(s) as connection:
        first = check_stream(ask_model(s, connection, "My name is Alice.", store=False))
        assert s.get(f"{PATH}/{first['id']}")[0] == 404
        second = check_stream(
            ask_model(s, connection, "What is my name?", store=False, previous_response_id=first["id"]))
        assert "Alice" in second["output"][0]["content"][0]["text"]
        with socket(s) as other:
            error = ask_model(s, other, "What is my name?", previous_response_id=first["id"])[-1]
            assert (error["type"], error["status"]) == ("error", 400)
            assert error["error"]["code"] == "previous_response_not_found"
            assert error["error"].keys() == {"message", "type", "param", "code"}
            check_stream(ask_model(s, other, "Hello!"))
    stored = create(s, "My name is Alice.")
    with socket(s) as connection:
        assert "Alice" in deltas(ask_model(s, connection, "What is my name?", previous_response_id=stored.id))


def test_ws_a_failed_continuation_is_forgotten(s):
    with socket(s) as connection:
        first = check_stream(ask_model(s, connection, "Hello!", store=False))
        bad = [{"type": "computer_call", "call_id": "call_x", "action": {}}]
        error = ask_model(s, connection, bad, store=False, previous_response_id=first["id"])[-1]
        assert error["type"] == "error" and "computer_call" in error["error"]["message"]
        error = ask_model(s, connection, "Hi", store=False, previous_response_id=first["id"])[-1]
        assert error["error"]["code"] == "previous_response_not_found"


def test_ws_compaction_begins_a_chain(s):
    compacted = s.client.responses.compact(model=s.model, input="My name is Alice.")
    item = compacted.output[0].model_dump(exclude_unset=True)
    with socket(s) as connection:
        assert "Alice" in deltas(ask_model(s, connection, [item, user("What is my name?")]))


def test_ws_preparation_and_lanes(s):
    with socket(s) as connection:
        events = ask_model(s, connection, "My name is Alice.", store=False, generate=False)
        prepared = check_stream(events)
        assert prepared["output"] == [] and prepared["usage"]["output_tokens"] == 0
        events = ask_model(s, connection, "What is my name?", previous_response_id=prepared["id"], stream_id="lane")
        assert "Alice" in deltas(events) and {event["stream_id"] for event in events} == {"lane"}
        connection.send(json.dumps({"type": "response.steer", "previous_response_id": prepared["id"], "input": "x"}))
        steered = json.loads(connection.recv(timeout=30))
        assert steered["type"] == "response.steer.failed" and steered["error"]["code"] == "steering_not_supported"


def test_ws_preparation_is_bounded(s):
    with socket(s, max_size=None) as connection:
        body = {"type": "response.create", "model": s.model, "store": False, "generate": False}
        connection.send(json.dumps({**body, "input": "word " * 100_000}))
        error = json.loads(connection.recv(timeout=60))
        assert (error["status"], error["error"]["code"]) == (400, "context_length_exceeded"), error
        assert "Paris" in deltas(ask_model(s, connection, CAPITAL))


def test_ws_messages_that_are_wrong(s):
    with socket(s) as connection:
        behind = json.dumps({"type": "response.create", "model": s.model, "input": "x", "background": True})
        for message, param in [("{", None), ("[]", "type"), ("{}", "type"), ('{"type":"response.nope"}', "type"),
                               ('{"type":"response.create"}', "model"), (behind, "background")]:
            connection.send(message)
            error = json.loads(connection.recv(timeout=30))
            assert (error["type"], error["status"], error["error"]["param"]) == ("error", 400, param), error
        check_stream(ask_model(s, connection, "Hello!"))
        connection.send(b"binary")
        try:
            connection.recv(timeout=30)
            raise AssertionError("a binary message was taken")
        except ConnectionClosed as closed:
            assert closed.rcvd.code == 1003


def test_ws_pings_and_fragments(s):
    # Behind 16 events that nobody has taken the client stops reading, and sees no pong.
    with socket(s, max_size=None, max_queue=None) as connection:
        assert connection.ping().wait(30)
        body = json.dumps({"type": "response.create", "model": s.model, "input": CAPITAL, "temperature": 0})
        connection.send(iter([body[:10], body[10:50], body[50:]]))
        assert connection.ping().wait(30)
        while json.loads(connection.recv(timeout=60))["type"] != "response.completed":
            pass


def test_ws_many_sockets(s):
    def work(_):
        with socket(s) as connection:
            return [deltas(ask_model(s, connection, question)) for question in (CAPITAL, "Hello!")]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(work, range(8)))
    assert all(answer == answers[0] for answer in answers)


def test_ws_a_client_that_leaves(s):
    with socket(s) as connection:
        connection.send(json.dumps({
            "type": "response.create", "model": s.model, "input": "Tell me a story.", "ignore_eos": True,
            "max_output_tokens": 1900}))
        id = json.loads(connection.recv(timeout=30))["response"]["id"]
    assert poll(s, id).status == "cancelled"


def test_ws_a_server_that_ends(s):
    server = Server(s.binary)
    with socket(server) as connection:
        check_stream(ask_model(server, connection, "Hello!"))
        os.kill(server.process.pid, signal.SIGTERM)
        try:
            connection.recv(timeout=30)
            raise AssertionError("a message after the end")
        except ConnectionClosed as closed:
            assert closed.rcvd.code == 1001
    assert server.process.wait(timeout=20) == 0


def test_ws_pages_of_other_sites(s):
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://localhost@evil.example"):
        try:
            socket(s, origin=origin)
            raise AssertionError(f"{origin} was let in")
        except InvalidStatus as error:
            assert error.response.status_code == 403
    for origin in (f"http://{s.host}:{s.port}", "http://localhost:3000", "http://[::1]:3000"):
        with socket(s, origin=origin) as connection:
            check_stream(ask_model(s, connection, "Hello!"))


def test_ws_requests_that_are_no_upgrade(s):
    status, headers, body = s.get(PATH)
    assert (status, json.loads(body)["error"]["code"]) == (426, "upgrade_required")
    assert headers["upgrade"] == "websocket"
    try:
        connect(f"ws://{s.host}:{s.port}/v1/completions")
        raise AssertionError("upgraded")
    except InvalidStatus as error:
        assert error.response.status_code in (404, 405)


def test_ws_the_sdk(s):
    with s.client.responses.connect() as connection:
        connection.send({
            "type": "response.create", "model": s.model, "input": CAPITAL, "temperature": 0, **NO_THOUGHT})
        text = ""
        while True:
            event = connection.recv()
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.completed":
                break
    assert "Paris" in text


def test_background_responses_end_with_the_server(s):
    server = Server(s.binary)
    running = endless(server, background=True)
    assert running.status == "queued"
    assert server.stop() == 0
    assert not any("error" in line for line in server.log), server.log[-5:]
    refused(lambda: s.client.responses.retrieve(running.id), 404)
