"""Chat completions that are kept: made, listed, read, changed and deleted through the OpenAI SDK."""

import os
import tempfile

from sdk_test import CAPITAL
from server import Server
from vector_stores_test import fails


def made(s, tag, **options):
    return s.chat(CAPITAL, store=True, max_tokens=5, metadata={"tag": tag, "kind": "test"}, **options)


def test_a_kept_completion_is_what_was_answered(s):
    answer = made(s, "same")
    stored = s.client.chat.completions.retrieve(answer.id)
    assert stored.choices == answer.choices and stored.usage == answer.usage
    assert stored.model == s.model and stored.created == answer.created and stored.metadata == {"tag": "same", "kind": "test"}
    # Without `store` nothing is kept.
    for options in ({}, {"store": False}, {"store": None}):
        id = s.chat(CAPITAL, max_tokens=2, **options).id
        fails(404, None, lambda: s.client.chat.completions.retrieve(id))


def test_a_stream_is_kept_as_a_whole_answer(s):
    whole = made(s, "whole", seed=1)
    chunks = list(made(s, "stream", seed=1, stream=True, stream_options={"include_usage": True}))
    stored = s.client.chat.completions.retrieve(chunks[0].id)
    assert stored.object == "chat.completion" and stored.choices == whole.choices and stored.usage == chunks[-1].usage


def test_kept_completions_are_listed(s):
    ids = [made(s, "page", temperature=1, seed=seed).id for seed in range(5)]

    def listed(**options):
        return [found.id for found in s.client.chat.completions.list(metadata={"tag": "page"}, **options)]

    assert listed() == sorted(listed(), key=lambda id: listed().index(id)) and set(listed()) == set(ids)
    assert listed(order="desc") == listed()[::-1] and listed(limit=2) == listed()
    page = s.client.chat.completions.list(metadata={"tag": "page"}, limit=2)
    assert len(page.data) == 2 and page.has_more
    assert listed(model=s.model) == listed() and listed(model="another") == []
    assert s.client.chat.completions.list(metadata={"tag": "page", "kind": "other"}).data == []
    fails(400, "after", lambda: s.client.chat.completions.list(after="chatcmpl-no"))
    fails(400, "limit", lambda: s.client.chat.completions.list(limit=0))


def test_a_kept_completion_is_changed_and_deleted(s):
    id = made(s, "old").id
    assert s.client.chat.completions.update(id, metadata={"tag": "new"}).metadata == {"tag": "new"}
    assert s.client.chat.completions.retrieve(id).metadata == {"tag": "new"}
    assert id in [found.id for found in s.client.chat.completions.list(metadata={"tag": "new"})]
    fails(400, "metadata", lambda: s.client.post(f"/chat/completions/{id}", body={}, cast_to=object))
    fails(400, "metadata", lambda: s.client.chat.completions.update(id, metadata={"k" * 65: "v"}))
    gone = s.client.chat.completions.delete(id)
    assert gone.deleted is True and gone.id == id and gone.object == "chat.completion.deleted"
    for call in (s.client.chat.completions.retrieve, s.client.chat.completions.delete,
                 lambda id: s.client.chat.completions.update(id, metadata={}),
                 s.client.chat.completions.messages.list):
        fails(404, None, lambda: call(id))


def test_the_messages_of_a_kept_completion(s):
    answer = s.client.chat.completions.create(
        model=s.model, store=True, max_tokens=2,
        messages=[{"role": "system", "content": "Be brief."},
                  {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " there"}]}])
    # The SDK's type knows the assistant's messages alone.
    messages = s.lenient.chat.completions.messages.list(answer.id).data
    assert [(m.id, m.role, m.content) for m in messages] == [
        (f"{answer.id}-0", "system", "Be brief."), (f"{answer.id}-1", "user", None)]
    assert messages[0].content_parts is None and [part.text for part in messages[1].content_parts] == ["Hi", " there"]
    assert [m.role for m in s.lenient.chat.completions.messages.list(answer.id, order="desc", limit=1)] == ["user", "system"]


def test_kept_completions_belong_to_their_key_and_outlive_the_server(s):
    with tempfile.TemporaryDirectory() as folder:
        keys = folder + "/keys"
        with open(keys, "w") as file:
            file.write("anna: sk-anna\nbert: sk-bert\n")
        os.chmod(keys, 0o600)
        flags = ("--api-key-file", keys, "--state-dir", folder + "/state", "--store-responses", "3")

        def call(other, key):
            return other.client.with_options(api_key=key).chat.completions

        def ask(other, key):
            return call(other, key).create(
                model=other.model, messages=[{"role": "user", "content": CAPITAL}], max_tokens=2, store=True).id

        other = Server(s.binary, *flags)
        try:
            anna = ask(other, "sk-anna")
            bert = [ask(other, "sk-bert") for _ in range(4)]
            assert [found.id for found in call(other, "sk-anna").list()] == [anna]
            # What is too much goes from who has most.
            assert {found.id for found in call(other, "sk-bert").list()} == set(bert[2:])
            fails(404, None, lambda: call(other, "sk-bert").retrieve(anna))
            fails(404, None, lambda: call(other, "sk-bert").delete(anna))
            fails(404, None, lambda: call(other, "sk-bert").update(anna, metadata={}))
        finally:
            assert other.stop() == 0
        other = Server(s.binary, *flags)
        try:
            assert call(other, "sk-anna").retrieve(anna).id == anna
            assert {found.id for found in call(other, "sk-bert").list()} == set(bert[2:])
        finally:
            assert other.stop() == 0
