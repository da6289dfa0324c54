"""How far a prompt is read: the official SDKs read on in streams that tell it, and /slots shows it."""

import json
import threading
import time

import anthropic
import ollama

from embeddings_test import served
from server import DEMO

LONG = "The quick brown fox jumps over the lazy dog near the river bank. " * 40
MEMBERS = {"total", "cache", "processed", "time_ms", "remaining_ms"}
MORE = {"return_progress": True}
QUIET = {"reasoning_effort": "none", "temperature": 0}


def rises(told):
    """Readings of one prompt: from what is cached to all of it."""
    assert len(told) >= 2 and all(one.keys() == MEMBERS for one in told), told
    first, last = told[0], told[-1]
    assert first["processed"] == first["cache"] and last["processed"] == last["total"] > 300, told
    assert last["remaining_ms"] == 0 and len({one["total"] for one in told}) == 1, told
    for member in ("processed", "time_ms"):
        values = [one[member] for one in told]
        assert values == sorted(values), told
    return told


def fresh(word):
    return [{"role": "user", "content": f"{word} {LONG} Is Paris in France?"}]


def test_the_openai_sdk_reads_chunks_with_progress(s):
    chunks = list(s.client.chat.completions.create(
        model=s.model, messages=fresh("chat"), stream=True, max_tokens=3, extra_body=MORE))
    rises([chunk.prompt_progress for chunk in chunks if hasattr(chunk, "prompt_progress")])
    assert chunks[-1].choices[0].finish_reason == "length"
    with s.client.chat.completions.stream(model=s.model, messages=fresh("stream"), max_tokens=500, extra_body=MORE | QUIET) as stream:
        assert stream.get_final_completion().choices[0].message.role == "assistant"


def test_the_openai_sdk_reads_responses_with_progress_in_front_and_in_the_background(s):
    for background in (False, True):
        told, text = [], ""
        for event in s.lenient.responses.create(
                model=s.model, input=fresh(f"responses {background}"), stream=True, max_output_tokens=3, background=background, extra_body=MORE):
            if event.type == "mlxserve:prompt_progress":
                told.append(event.prompt_progress)
            text += event.delta if event.type == "response.output_text.delta" else ""
        # Who follows a response in the background gets what is the last when it looks.
        if not background:
            rises(told)
        assert event.type == "response.incomplete" and event.response.output, event
    with s.lenient.responses.stream(model=s.model, input=fresh("helper"), extra_body=MORE | {"temperature": 0, "reasoning": {"effort": "none"}}) as stream:
        assert stream.get_final_response().status == "completed"


def test_the_anthropic_sdk_passes_over_pings_with_progress(s):
    sdk = anthropic.Anthropic(
        base_url=s.base_url.removesuffix("/v1"), api_key="none", max_retries=0, timeout=120, _strict_response_validation=True)
    options = {"model": s.model, "max_tokens": 3, "extra_body": MORE}
    with sdk.messages.stream(messages=fresh("messages"), **options) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_message().stop_reason == "max_tokens"
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and "ping" not in kinds, kinds
    body = json.dumps({"model": s.model, "max_tokens": 3, "stream": True, "messages": fresh("raw"), **MORE}).encode()
    _, _, text = s.post("/v1/messages", body)
    data = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
    rises([one["prompt_progress"] for one in data if one["type"] == "ping"])


def test_the_ollama_package_reads_lines_with_progress(s):
    told = []
    for path, more in (("/api/chat", {"messages": fresh("ollama")}), ("/api/generate", {"prompt": fresh("generate")[0]["content"]})):
        _, _, text = s.post(path, {"model": s.model, "options": {"num_predict": 3}, **more, **MORE})
        lines = [json.loads(line) for line in text.splitlines()]
        told = rises([line["prompt_progress"] for line in lines if "prompt_progress" in line])
        assert lines[-1]["done"] and lines[-1]["prompt_eval_count"] == told[0]["total"]
        kind = ollama.ChatResponse if "messages" in more else ollama.GenerateResponse
        assert [kind(**line).done for line in lines] == [False] * (len(lines) - 1) + [True]


def test_llama_server_s_clients_find_their_fields(s):
    _, _, text = s.post("/completion", {"prompt": "llama " + LONG, "n_predict": 3, "stream": True, **MORE})
    events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
    rises([event["prompt_progress"] for event in events if "prompt_progress" in event])
    assert events[-1]["stop"] and events[-1]["tokens_predicted"] == 3


def test_slots_show_prompts_that_are_read(s):
    with served(s, "--test-hooks", "--step-delay-ms", "900", models=(DEMO,)) as other:
        body = {"model": other.model, "messages": fresh("slots"), "stream": True, "max_tokens": 2}
        answers = []
        thread = threading.Thread(target=lambda: answers.append(other.post("/v1/chat/completions", body)))
        thread.start()
        deadline, found = time.monotonic() + 60, None
        while not found and time.monotonic() < deadline:
            slots = json.loads(other.get("/slots")[2])
            found = slots[0].get("prompt_progress")
            time.sleep(0.05)
        assert found and found.keys() == MEMBERS and found["processed"] < found["total"], found
        assert all("prompt_progress" not in slot for slot in slots[1:])
        thread.join(120)
        assert b"prompt_progress" not in answers[0][2] and b"data: [DONE]" in answers[0][2]
