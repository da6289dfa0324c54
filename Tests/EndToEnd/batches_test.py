"""Batches through the official SDKs in strict mode, and through a restart."""

import json
import tempfile
import time

import anthropic
from openapi_test import exchange
from server import Server
from vector_stores_test import fails

LONG = {"max_tokens": 300, "temperature": 0, "ignore_eos": True}


def line(name, model, **members):
    body = {"model": model, "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": f"Say {name}."}]}
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {**body, **members}}


def upload(client, lines):
    data = "\n".join(json.dumps(each) for each in lines).encode()
    return client.files.create(file=("in.jsonl", data), purpose="batch").id


def wait(look, is_over, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_over(batch := look()):
        assert time.monotonic() < deadline, batch
        time.sleep(0.05)
    return batch


def ended(client, batch):
    return wait(lambda: client.batches.retrieve(batch.id), lambda b: b.status in ("completed", "failed", "expired", "cancelled"))


def read(client, file):
    return [json.loads(each) for each in client.files.content(file).text.splitlines()] if file else []


def test_a_batch_of_chats_and_one_of_completions(s):
    client = s.client
    lines = [line(f"r{n}", s.model) for n in range(12)] + [line("bad", s.model, temperature=9)]
    batch = client.batches.create(
        input_file_id=upload(client, lines), endpoint="/v1/chat/completions", completion_window="24h", metadata={"k": "v"})
    assert batch.status in ("in_progress", "finalizing", "completed") and batch.metadata == {"k": "v"}
    batch = ended(client, batch)
    assert batch.status == "completed" and batch.request_counts.to_dict() == {"total": 13, "completed": 12, "failed": 1}
    answers = {each["custom_id"]: each["response"]["body"] for each in read(client, batch.output_file_id)}
    # The same answers as without a batch.
    for name in ("r0", "r11"):
        alone = client.chat.completions.create(**line(name, s.model)["body"])
        assert answers[name]["choices"][0]["message"]["content"] == alone.choices[0].message.content
    assert batch.usage.output_tokens == sum(each["usage"]["completion_tokens"] for each in answers.values())
    errors = read(client, batch.error_file_id)
    assert [each["custom_id"] for each in errors] == ["bad"] and errors[0]["response"]["status_code"] == 400
    assert batch.id in [each.id for each in client.batches.list(limit=1)]
    other = client.batches.create(
        input_file_id=upload(client, [{"custom_id": "c", "method": "POST", "url": "/v1/completions",
                                       "body": {"model": s.model, "prompt": "Once", "max_tokens": 3}}]),
        endpoint="/v1/completions", completion_window="24h")
    assert len(read(client, ended(client, other).output_file_id)) == 1


def test_a_file_with_faults_and_a_batch_that_is_cancelled(s):
    client = s.client
    failed = client.batches.create(
        input_file_id=upload(client, [line("a", s.model), {"custom_id": "b"}]), endpoint="/v1/chat/completions",
        completion_window="24h")
    assert failed.status == "failed" and [each.line for each in failed.errors.data] == [2]
    fails(400, "input_file_id", lambda: client.batches.create(
        input_file_id=client.files.create(file=("a.txt", b"x"), purpose="assistants").id,
        endpoint="/v1/chat/completions", completion_window="24h"))
    lines = [line(f"r{n}", s.model, **LONG) for n in range(60)]
    batch = client.batches.create(
        input_file_id=upload(client, lines), endpoint="/v1/chat/completions", completion_window="24h")
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = ended(client, batch)
    assert batch.status == "cancelled" and batch.request_counts.completed < 60
    assert len(read(client, batch.output_file_id)) == batch.request_counts.completed


def test_batches_of_messages(s):
    client = anthropic.Anthropic(
        base_url=f"http://{s.host}:{s.port}", api_key="none", max_retries=0, _strict_response_validation=True)

    def request(name, **members):
        body = {"model": s.model, "max_tokens": 8, "messages": [{"role": "user", "content": f"Say {name}."}]}
        return {"custom_id": name, "params": {**body, **members}}

    batch = client.messages.batches.create(requests=[request("a"), request("b"), request("c", temperature=9)])
    assert batch.processing_status in ("in_progress", "ended") and batch.results_url is None or batch.ended_at
    batch = wait(lambda: client.messages.batches.retrieve(batch.id), lambda b: b.processing_status == "ended")
    assert batch.request_counts.succeeded == 2 and batch.request_counts.errored == 1
    results = {each.custom_id: each.result for each in client.messages.batches.results(batch.id)}
    assert results["a"].type == "succeeded" and results["a"].message.content[-1].type == "text"
    assert results["c"].type == "errored" and results["c"].error.error.type == "invalid_request_error"
    long = client.messages.batches.create(requests=[request(f"r{n}", **LONG) for n in range(40)])
    client.messages.batches.cancel(long.id)
    long = wait(lambda: client.messages.batches.retrieve(long.id), lambda b: b.processing_status == "ended")
    assert long.request_counts.succeeded + long.request_counts.canceled == 40
    seen = [each.id for each in client.messages.batches.list(limit=1)]
    assert {batch.id, long.id} <= set(seen) and len(seen) == len(set(seen))
    assert client.messages.batches.delete(batch.id).type == "message_batch_deleted"


def test_batches_follow_the_document(s):
    def call(method, path, body=None):
        status, values = exchange(s, method, path, body)
        assert status == 200, (path, values)
        return values[0]

    file = upload(s.client, [line("a", s.model), {"custom_id": "b"}])
    good = upload(s.client, [line(f"r{number}", s.model, **LONG) for number in range(40)])
    batch = {"endpoint": "/v1/chat/completions", "completion_window": "24h", "metadata": {"k": "v"}}
    assert call("post", "/v1/batches", {**batch, "input_file_id": file})["status"] == "failed"
    one = call("post", "/v1/batches", {**batch, "input_file_id": good})["id"]
    call("post", f"/v1/batches/{one}/cancel")
    wait(lambda: call("get", f"/v1/batches/{one}"), lambda b: b["status"] == "cancelled")
    call("get", "/v1/batches")
    assert call("delete", f"/v1/batches/{one}")["deleted"]
    fails(404, None, lambda: s.client.batches.retrieve(one))
    message = {"model": s.model, "max_tokens": 300, "messages": [{"role": "user", "content": "Hello!"}]}
    # As many as last until the batch is cancelled.
    requests = [{"custom_id": f"r{number}", "params": message} for number in range(40)]
    one = call("post", "/v1/messages/batches", {"requests": requests})["id"]
    call("post", f"/v1/messages/batches/{one}/cancel")
    wait(lambda: call("get", f"/v1/messages/batches/{one}"), lambda b: b["processing_status"] == "ended")
    call("get", "/v1/messages/batches")
    call("delete", f"/v1/messages/batches/{one}")


def test_a_thread_falls_back_to_whole_conversations(s):
    client = anthropic.Anthropic(base_url=f"http://{s.host}:{s.port}", api_key="none", max_retries=0)
    try:
        client.beta.messages.create(
            model=s.model, max_tokens=4, messages=[{"role": "user", "content": "Hello!"}], thread={"type": "create"})
    except anthropic.BadRequestError as error:
        assert error.body["error"]["details"]["error_code"] == "thread_unsupported_request"
    else:
        raise AssertionError("a thread was taken")


def test_a_batch_goes_on_after_a_restart(s):
    with tempfile.TemporaryDirectory() as folder:
        first = Server(s.binary, "--state-dir", folder)
        try:
            client = first.client
            lines = [line(f"r{n}", first.model, **LONG) for n in range(16)]
            batch = client.batches.create(
                input_file_id=upload(client, lines), endpoint="/v1/chat/completions", completion_window="24h")
            wait(lambda: client.batches.retrieve(batch.id), lambda b: b.request_counts.completed > 0)
        finally:
            first.process.kill()
            first.process.wait()
        second = Server(s.binary, "--state-dir", folder)
        try:
            batch = ended(second.client, batch)
            assert batch.status == "completed" and batch.request_counts.completed == 16
            names = [each["custom_id"] for each in read(second.client, batch.output_file_id)]
            assert sorted(names) == sorted(f"r{n}" for n in range(16))
        finally:
            second.stop()


def test_whoever_waits_is_served_beside_a_batch(s):
    client = s.client
    alone = s.chat("Hello!", max_tokens=20)
    lines = [line(f"r{n}", s.model, **LONG) for n in range(200)]
    batch = client.batches.create(
        input_file_id=upload(client, lines), endpoint="/v1/chat/completions", completion_window="24h")
    answers = [s.chat("Hello!", max_tokens=20) for _ in range(5)]
    assert all(each.choices[0].message.content == alone.choices[0].message.content for each in answers)
    client.batches.cancel(batch.id)
    assert ended(client, batch).status == "cancelled"
