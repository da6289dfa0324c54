"""The tool file_search of Responses and of chat: a search by the server, its events, and what is kept of it."""

import json

from server import Server
from vector_stores_test import anna_and_bert, fails, finished, served, strict, upload


def prepared(client, notes):
    files = [upload(client, name, text) for name, text in notes.items()]
    store = client.vector_stores.create(file_ids=[f.id for f in files])
    finished(client, store.id)
    return store


NOTES = {"alps.md": "Bring goggles and wax to the snow.", "tea.md": "Tea needs four minutes."}


def ask(client, server, store, **options):
    options.setdefault("tool_choice", {"type": "file_search"})
    tool = {"type": "file_search", "vector_store_ids": [store] if isinstance(store, str) else store}
    tool.update(options.pop("tool", {}))
    return client.responses.create(
        model=server.model, input="What do I bring?", tools=[tool], temperature=0, max_output_tokens=200, **options)


def searched(answer):
    """The first search of an answer; a reasoning model may think before it."""
    return next(item for item in answer.output if item.type == "file_search_call")


def test_a_forced_search_and_its_results(s):
    with served(s) as other:
        client = strict(other)
        store = prepared(client, NOTES)
        answer = ask(client, other, store.id, include=["file_search_call.results"])
        kinds = [item.type for item in answer.output if item.type != "reasoning"]
        assert kinds[0] == "file_search_call" and kinds[-1] == "message", kinds
        call = searched(answer)
        assert call.status in ("completed", "failed") and call.results is not None
        assert {r.filename for r in call.results} <= set(NOTES)
        plain = ask(client, other, store.id)
        assert searched(plain).results is None
        # The next turn still knows what was found.
        again = client.responses.create(
            model=other.model, input="And the tea?", previous_response_id=plain.id, max_output_tokens=8)
        items = client.responses.input_items.list(again.id, order="asc").data
        assert any(item.type == "file_search_call" for item in items)


def test_quotes_of_what_was_found_have_places(s):
    """A schema with quotes of the messages: each stands in a passage, and by its offset in the file."""
    notes = {"alps.md": "# Packing\n\nÜber alles: bring goggles and wax to the snow.\n\n" + "More words follow here. " * 200,
             "tea.md": NOTES["tea.md"]}
    schema = {"type": "object", "required": ["quotes"], "additionalProperties": False, "properties": {"quotes": {
        "type": "array", "minItems": 2, "maxItems": 2, "items": {
            "type": "string", "x-quote-of": {"from": "messages"}, "minLength": 12, "maxLength": 80}}}}
    with served(s) as other:
        client = strict(other)
        store = prepared(client, notes)
        for passage in client.vector_stores.search(store.id, query="What do I bring?").data:
            text = notes[passage.filename].encode()
            assert text[passage.offset:].startswith(passage.content[0].text.encode()), passage
        answer = ask(
            client, other, store.id, include=["file_search_call.results"], instructions="Answer with quotes.",
            text={"format": {"type": "json_schema", "name": "quotes", "schema": schema, "strict": True}})
        results = [result for item in answer.output if item.type == "file_search_call" for result in item.results]
        quotes = json.loads(answer.output_text)["quotes"]
        assert results and len(quotes) == 2, answer
        sources = ["What do I bring?", "Answer with quotes."]
        for quote in quotes:
            found = [result for result in results if quote in result.text]
            assert found or any(quote in source for source in sources), (quote, results)
            for result in found:
                offset = result.offset + result.text.encode().index(quote.encode())
                assert notes[result.filename].encode()[offset:].startswith(quote.encode()), (quote, result)


def test_the_events_and_their_replay(s):
    with served(s) as other:
        client = strict(other)
        store = prepared(client, NOTES)
        events = list(ask(client, other, store.id, stream=True))
        kinds = [event.type for event in events]
        start = kinds.index("response.file_search_call.in_progress") - 1
        assert kinds[start:start + 5] == [
            "response.output_item.added", "response.file_search_call.in_progress",
            "response.file_search_call.searching", "response.file_search_call.completed", "response.output_item.done"]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        final = events[-1].response
        replay = list(client.responses.retrieve(final.id, stream=True))
        assert [(e.type, e.sequence_number) for e in replay] == [(e.type, e.sequence_number) for e in events]
        assert final.usage.input_tokens > 0


def test_choices_and_stores(s):
    with served(s) as other:
        client = strict(other)
        store = prepared(client, NOTES)
        other_store = prepared(client, {"third.md": "Bring a third thing."})
        none = ask(client, other, store.id, tool_choice="none")
        assert all(item.type != "file_search_call" for item in none.output)
        both = ask(client, other, [store.id, other_store.id], include=["file_search_call.results"])
        assert len({r.filename for r in searched(both).results}) in (0, 3)
        one = ask(client, other, store.id, include=["file_search_call.results"], tool={"max_num_results": 1})
        assert len(searched(one).results) <= 1
        fails(404, "tools[0].vector_store_ids[0]", lambda: ask(client, other, "vs_nothing"))
        for tool in [{"vector_store_ids": []}, {"max_num_results": 0}, {"filters": {"type": "x"}}]:
            fails(400, None, lambda: ask(client, other, store.id, tool=tool))


def test_an_empty_store(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        answer = ask(client, other, store.id, include=["file_search_call.results"])
        assert searched(answer).status == "completed" and searched(answer).results == []


def test_without_an_embedding_model(s):
    store = "vs_000000000000000000000000"
    fails(404, None, lambda: ask(strict(s), s, store))


def chat(client, server, store, **options):
    options.setdefault("tool_choice", {"type": "file_search"})
    tool = {"type": "file_search", "vector_store_ids": [store], **options.pop("tool", {})}
    return client.chat.completions.create(
        model=server.model, messages=[{"role": "user", "content": "What do I bring?"}], tools=[tool], temperature=0,
        max_completion_tokens=200, **options)


def test_a_chat_searches_too(s):
    with served(s) as other:
        client = strict(other)
        store = prepared(client, NOTES)
        answer = chat(client, other, store.id)
        choice = answer.choices[0]
        call = choice.message.file_search_calls[0]
        assert call["type"] == "file_search_call" and call["status"] == "completed" and call["queries"], call
        assert call["results"] and {r["filename"] for r in call["results"]} <= set(NOTES)
        assert choice.message.tool_calls is None and choice.finish_reason in ("stop", "length")
        assert isinstance(choice.message.annotations, list)
        # Both generations count, and the second has read what was found.
        plain = chat(client, other, store.id, tool_choice="none")
        assert answer.usage.prompt_tokens > 2 * plain.usage.prompt_tokens
        assert "file_search_calls" not in plain.choices[0].message.model_extra
        models = json.loads(other.get("/v1/capabilities")[2])["data"]
        assert next(m for m in models if m["id"] == other.model)["tools"]["file_search"] is True


def test_a_streamed_chat_searches_too(s):
    with served(s) as other:
        client = strict(other)
        store = prepared(client, NOTES)
        whole = chat(client, other, store.id).choices[0]
        text, calls, cited, ends = "", [], [], []
        for chunk in chat(client, other, store.id, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                calls += choice.delta.model_extra.get("file_search_calls", [])
                cited += choice.delta.model_extra.get("annotations", [])
                ends += [choice.finish_reason] if choice.finish_reason else []
                assert choice.delta.tool_calls is None
        assert text == whole.message.content and ends == [whole.finish_reason]
        results = lambda calls: [(c["queries"], [r["text"] for r in c["results"]]) for c in calls]
        assert results(calls) == results(whole.message.file_search_calls)
        assert len(cited) == len(whole.message.annotations)


def test_a_chat_that_cannot_be_searched_for_is_refused(s):
    with served(s) as other:
        client = strict(other)
        store = client.vector_stores.create()
        fails(404, "tools[0].vector_store_ids[0]", lambda: chat(client, other, "vs_nothing"))
        fails(400, "n", lambda: chat(client, other, store.id, n=2))
        for tool in [{"vector_store_ids": []}, {"max_num_results": 0}, {"filters": {"type": "x"}}]:
            fails(400, None, lambda: chat(client, other, store.id, tool=tool))
        assert chat(client, other, store.id).choices[0].message.file_search_calls[0]["results"] == []


def test_keys_search_their_own_stores_alone(s):
    with anna_and_bert(s) as (other, anna, bert):
        store = prepared(anna, NOTES)
        for search in (chat, ask):
            fails(404, "tools[0].vector_store_ids[0]", lambda: search(bert, other, store.id))
        assert chat(anna, other, store.id).choices[0].message.file_search_calls[0]["results"]
        assert searched(ask(anna, other, store.id)).status == "completed"
        # What one key has searched for is no answer of another's.
        answer = ask(anna, other, store.id)
        fails(404, None, lambda: bert.responses.retrieve(answer.id))
