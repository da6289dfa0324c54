"""Tools that the server runs for an answer: the panel, permission for each call, calls in the chat, notes and their sources, and
what servers say to people: prompts and resources."""

import contextlib
import json
import pathlib
import tempfile
import threading

from embeddings_test import ENCODER
from responses_test import ASK_WEATHER
from server import DEMO, Server
from tool_server import config, program
from vector_stores_test import finished, strict, upload

from .browser import ask, case, go, last, send, set_setting, until
from .fake import Answer
from .server_test import in_browser, opened

FORECAST = {"name": "forecast", "description": "The weather of the next days", "input_schema": {"type": "object"},
            "annotations": {"readOnlyHint": True}}
BOOK = {"name": "book", "description": "Books a seat", "input_schema": {"type": "object"}}
SERVERS = {"weather": {"tools": [FORECAST, BOOK]}, "broken": {"error": "The server 'broken' gave no list: its program ended."}}


def question(number=1, name="forecast", arguments='{"place": "Bern"}'):
    return {"type": "mcp_approval_request", "id": f"mcpr_{number}", "server_label": "weather", "name": name, "arguments": arguments}


def call(number=1, name="forecast", output="Sunny, 21 °C", question=None, **more):
    return {"type": "mcp_call", "id": f"mcp_{number}", "server_label": "weather", "name": name, "arguments": '{"place": "Bern"}',
            "status": "completed", "output": output, "error": None, "approval_request_id": question, **more}


LIST = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "weather", "tools": [FORECAST, BOOK], "error": None}


def with_servers(page, fake, servers=SERVERS, *on):
    """Opens the page anew over these servers, with some of them on in this chat."""
    fake.servers = servers
    go(page, fake.url)
    page.wait_for_selector("#use-tools:not([hidden])")
    if on:
        page.click("#use-tools")
        for label in on:
            page.get_by_role("switch", name=label).check()
        page.keyboard.press("Escape")


def asked(fake):
    """What the last request says of servers."""
    return [tool for tool in fake.bodies()[-1].get("tools", []) if tool["type"] == "mcp"]


def pressed(page, name):
    page.locator(".server-call").get_by_role("button", name=name).click()


@case()
def test_nothing_runs_by_default_and_the_panel_chooses(page, fake, watched):
    assert page.locator("#use-tools").is_hidden() and page.locator("#use-notes").is_hidden()
    with_servers(page, fake)
    ask(page, "Hello")
    assert asked(fake) == [] and not [path for _, path, _ in fake.requests if "/mcp/" in path]
    page.click("#use-tools")
    panel = page.locator(".toolbox")
    until(page, "document.querySelectorAll('.tool-row').length === 2")
    assert "its program ended" in panel.inner_text() and "says that it changes nothing" in panel.inner_text()
    # By keyboard: on, one tool off, another allowed for this chat.
    page.get_by_role("switch", name="weather").focus()
    page.keyboard.press("Space")
    page.get_by_role("checkbox", name="book").focus()
    page.keyboard.press("Space")
    until(page, "document.activeElement.dataset.focus === 'book'")
    page.get_by_label("Permission for forecast").select_option("chat")
    assert page.get_by_label("Permission for book").is_disabled()
    page.keyboard.press("Escape")
    until(page, "document.querySelector('#force .pill-name').textContent === 'Tools: weather'")
    assert page.get_attribute("#use-tools", "aria-pressed") == "true"
    ask(page, "And now?")
    assert asked(fake) == [{"type": "mcp", "server_label": "weather", "allowed_tools": ["forecast"],
                            "require_approval": {"never": {"tool_names": ["forecast"]}}}], asked(fake)
    # It is kept with the chat, and is this chat's alone.
    page.reload()
    page.wait_for_selector("#use-tools:not([hidden])")
    ask(page, "Still?")
    assert asked(fake)[0]["require_approval"] != "always"
    page.keyboard.press("Control+Shift+O")
    ask(page, "Another chat")
    assert asked(fake) == []


@case()
def test_a_call_waits_for_permission_and_the_answer_goes_on(page, fake, watched):
    with_servers(page, fake, SERVERS, "weather")
    fake.answers += [Answer("Let me look.", LIST, question()), Answer(call(question="mcpr_1"), "It will be ", "sunny.")]
    send(page, "Weather?")
    page.wait_for_selector(".server-call[data-state=asked]")
    assert asked(fake)[0]["require_approval"] == "always" and len(fake.bodies()) == 1
    assert '"place": "Bern"' in page.inner_text(".server-call pre")
    until(page, "document.getElementById('live').textContent.includes('wants to call forecast of weather')")
    pressed(page, "Allow once")
    until(page, "document.querySelector('.server-call')?.dataset.state === 'done'")
    until(page, "!document.querySelector('.running')")
    items = fake.bodies()[-1]["input"]
    assert items[1:] == [
        {"role": "assistant", "content": "Let me look."},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "weather", "name": "forecast", "arguments": '{"place": "Bern"}'},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}], items
    assert last(page) == "Let me look.\n\nIt will be sunny.", repr(last(page))
    # Folded, with what came of it, and part of the next request, in its place.
    assert not page.evaluate("document.querySelector('.server-call').open")
    page.click(".server-call summary")
    assert page.locator(".server-call pre").nth(1).inner_text() == "Sunny, 21 °C"
    ask(page, "And tomorrow?")
    items = fake.bodies()[-1]["input"]
    assert [one.get("type", one.get("role")) for one in items] == ["user", "assistant", "mcp_call", "assistant", "user"], items
    assert items[2]["output"] == "Sunny, 21 °C" and items[3]["content"] == "It will be sunny."
    # Asked again: once is once.
    assert asked(fake)[0]["require_approval"] == "always"
    page.reload()
    page.wait_for_selector(".server-call[data-state=done]")


@case()
def test_allowed_in_this_chat_always_and_not(page, fake, watched):
    with_servers(page, fake, SERVERS, "weather")
    fake.answers += [Answer(question(1), question(2, "book"), question(3)), Answer(call(1, question="mcpr_1"), "Done.")]
    send(page, "Weather?")
    page.wait_for_selector(".server-call[data-state=asked]")
    # Another question about the same tool goes with the first.
    page.locator(".server-call").nth(0).get_by_role("button", name="Allow in this chat").click()
    until(page, "document.querySelectorAll('.server-call button').length === 4")
    assert len(fake.bodies()) == 1
    page.locator(".server-call").nth(1).get_by_role("button", name="Don’t allow").click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'Done.'")
    said = {one["approval_request_id"]: one["approve"] for one in fake.bodies()[-1]["input"] if one.get("type") == "mcp_approval_response"}
    assert said == {"mcpr_1": True, "mcpr_2": False, "mcpr_3": True}, said
    assert asked(fake)[0]["require_approval"] == {"never": {"tool_names": ["forecast"]}}
    assert page.locator(".server-call").nth(1).get_attribute("data-state") == "refused"
    fake.answers += [Answer(question(4, "book")), Answer(call(4, "book", "booked", "mcpr_4"), "Booked.")]
    send(page, "Book.")
    page.wait_for_selector(".server-call[data-state=asked]")
    pressed(page, "Always allow")
    until(page, "!document.querySelector('.running') && document.querySelector('.log').textContent.includes('Booked.')")
    # Always is for new chats too, where the server is on; it is taken back in the panel.
    page.keyboard.press("Control+Shift+O")
    page.click("#use-tools")
    page.get_by_role("switch", name="weather").check()
    page.get_by_label("Permission for book").select_option("once")
    page.keyboard.press("Escape")
    ask(page, "Again")
    assert asked(fake)[0]["require_approval"] == "always", asked(fake)


@case()
def test_a_question_that_is_not_answered_is_no_call(page, fake, watched):
    with_servers(page, fake, SERVERS, "weather")
    fake.answers += [Answer("I could look.", question())]
    send(page, "Weather?")
    page.wait_for_selector(".server-call[data-state=asked] button")
    ask(page, "Never mind")
    assert page.locator(".server-call button").count() == 0
    assert [one.get("type", one.get("role")) for one in fake.bodies()[-1]["input"]] == ["user", "assistant", "user"]
    # Another version asks anew, and the first one stays.
    fake.answers += [Answer(call(), "Sunny.")]
    page.locator(".message.assistant").first.get_by_role("button", name="Regenerate").click()
    until(page, "document.querySelector('.server-call')?.dataset.state === 'done'")
    page.get_by_role("button", name="Previous version").click()
    page.wait_for_selector(".server-call[data-state=asked]")


@case()
def test_stop_ends_a_call_at_once(page, fake, watched):
    with_servers(page, fake, SERVERS, "weather")
    # What is done is read aloud.
    fake.answers += [Answer(call(), call(2, hold=threading.Event()), "Never said.")]
    send(page, "Weather?")
    page.wait_for_selector(".server-call[data-state=running]")
    until(page, "document.getElementById('live').textContent === 'forecast: done.'")
    page.keyboard.press("Escape")
    page.wait_for_selector(".server-call[data-state=stopped]")
    assert any(path.endswith("/cancel") for _, path, _ in fake.requests)
    ask(page, "Next")
    assert [one.get("type", one.get("role")) for one in fake.bodies()[-1]["input"]] == ["user", "mcp_call", "user"]


@case()
def test_what_goes_wrong_is_told_in_words(page, fake, watched):
    with_servers(page, fake, SERVERS, "weather", "broken")
    died = {"type": "mcp_protocol_error", "code": -32000, "message": "The server 'weather' did not do it: its program ended."}
    fake.answers += [Answer(
        {**LIST, "id": "mcpl_2", "server_label": "broken", "tools": [], "error": "The server 'broken' gave no list: it did not answer in time."},
        LIST, call(status="failed", output=None, error=died), {**LIST, "id": "mcpl_3", "tools": [FORECAST]}, "I could not look.")]
    assert ask(page, "Weather?") == "I could not look."
    heads = [" ".join(text.split()) for text in page.locator(".server-call summary").all_inner_texts()]
    assert heads == ["No tools broken", "forecast weather · failed", "Tools have changed weather"], heads
    for at, words in enumerate(("did not answer in time", "its program ended", "Now there are: forecast")):
        page.locator(".server-call summary").nth(at).click()
        assert words in page.locator(".server-call").nth(at).inner_text()
    ask(page, "And?")
    failed = fake.bodies()[-1]["input"][1]
    assert failed["type"] == "mcp_call" and failed["status"] == "failed" and "its program ended" in failed["error"]["message"], failed


@case()
def test_prompts_and_resources_are_commands(page, fake, watched):
    texts = lambda body: f"Plan a trip to {body['arguments']['place']}." if "prompt" in body else "# Packing\nwax"  # noqa: E731
    with_servers(page, fake, {"weather": {
        "tools": [FORECAST], "texts": texts,
        "prompts": [{"name": "Plan trip", "description": "Plans a trip", "arguments": [{"name": "place", "required": True}]}],
        "resources": [{"uri": "file:///packing.md", "name": "packing.md", "description": "What to pack"}]}})
    page.fill("#box", "/")
    assert "weather:" not in page.inner_text("#slash")
    page.fill("#box", "")
    page.click("#use-tools")
    page.get_by_role("switch", name="weather").check()
    page.keyboard.press("Escape")
    # By the name of the server, or by their own.
    page.fill("#box", "/weather:")
    until(page, "document.getElementById('slash').textContent.includes('/weather:plan-trip')")
    page.fill("#box", "/plan")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog form input")
    page.keyboard.type("Bern")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('box').value === 'Plan a trip to Bern.' && !document.querySelector('dialog[open]')")
    page.fill("#box", "/weather:pack")
    until(page, "document.getElementById('slash').textContent.includes('/weather:packing')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chip:has-text('packing.md')")
    ask(page, "What?")
    assert "# Packing\nwax" in fake.bodies()[-1]["input"][0]["content"]


FOUND = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["pack"], "results": [
    {"file_id": "f1", "filename": "alps.md", "score": 0.9, "text": "Bring goggles and wax.", "attributes": {}},
    {"file_id": "f2", "filename": "house.md", "score": 0.5, "text": "Drain the pipe.", "attributes": {}},
    {"file_id": "f1", "filename": "alps.md", "score": 0.4, "text": "The second pair of gloves.", "attributes": {}}]}


def source(id, name):
    return {"type": "file_citation", "file_id": id, "filename": name, "index": 1}


@case()
def test_answers_rest_on_notes_with_sources_that_open(page, fake, watched):
    stores = [{"id": "vs_1", "name": "Trips"}]
    fake.extra = {"/v1/vector_stores": lambda handler: handler.send_json({"data": stores})}
    go(page, fake.url)
    page.wait_for_selector("#use-notes:not([hidden])")
    page.click("#use-notes")
    until(page, "document.querySelector('#force .pill-name').textContent === 'Notes: Trips'")
    fake.answers += [Answer(FOUND, "Goggles, **wax**", source("f1", "alps.md"), " and a pipe", source("f2", "house.md"), ".", source("f1", "alps.md"))]
    assert ask(page, "What do I pack?") == "Goggles, wax1 and a pipe2.1"
    body = fake.bodies()[0]
    assert body["tools"] == [{"type": "file_search", "vector_store_ids": ["vs_1"]}] and body["include"] == ["file_search_call.results"], body
    assert body["tool_choice"] == {"type": "file_search"}
    assert "3 passages" in page.inner_text(".server-call summary")
    assert [text.split() for text in page.locator(".sources summary").all_inner_texts()] == [["1", "alps.md"], ["2", "house.md"]]
    page.get_by_role("button", name="Open source 1").last.click()
    assert page.evaluate("document.activeElement.matches('.sources summary')")
    assert page.locator(".sources details[open] pre").all_inner_texts() == ["Bring goggles and wax.", "The second pair of gloves."]
    # What was found is part of the conversation, the numbers are not.
    page.reload()
    page.wait_for_selector(".sources")
    ask(page, "And?")
    items = fake.bodies()[-1]["input"]
    assert items[1]["type"] == "file_search_call" and len(items[1]["results"]) == 3 and items[2]["content"] == "Goggles, **wax** and a pipe."
    # Of several collections one is chosen; a second press switches them off.
    page.click("#use-notes")
    assert page.locator("#force").is_hidden()
    stores.append({"id": "vs_2", "name": "House"})
    page.click("#use-notes")
    page.get_by_role("menuitem", name="House").click()
    until(page, "document.querySelector('#force .pill-name').textContent === 'Notes: House'")


@case()
def test_an_import_brings_no_permission(page, fake, watched):
    """A file of somebody else switches nothing on, allows nothing, and asks nothing."""
    fake.servers = SERVERS
    message = {"id": "m1", "parent": None, "role": "user", "text": "Hi", "created": 1}
    reply = {"id": "m2", "parent": "m1", "role": "assistant", "text": "Look \ue2009\ue201", "created": 2, "calls": [
        {"id": "c", "kind": "tool", "server": "weather", "name": "book", "arguments": "{}", "state": "asked", "question": "mcpr_1"},
        {"id": "d", "kind": "search", "state": "done", "results": [None, {"text": 7}]}], "cites": [{"at": "x"}, None]}
    chat = {"id": "c1", "title": "Theirs", "head": "m2", "messages": [message, reply], "model": "demo",
            "settings": {"servers": {"weather": True}, "allowed": ["weather/book"], "notes": {"id": "vs_1", "name": "x"}}}
    go(page, fake.url)
    page.click("#open-settings")
    with page.expect_file_chooser() as waiting:
        page.get_by_role("button", name="Import", exact=True).click()
    data = json.dumps({"format": "mlxserve-chats", "version": 1, "chats": [chat]}).encode()
    waiting.value.set_files([{"name": "a.json", "mimeType": "application/json", "buffer": data}])
    page.wait_for_selector(".chat:has-text('Theirs')")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Theirs").click()
    page.wait_for_selector(".server-call")
    assert page.locator(".server-call button.button").count() == 0 and page.locator("#force").is_hidden()
    ask(page, "Next")
    assert asked(fake) == [] and [one.get("type", one.get("role")) for one in fake.bodies()[-1]["input"]] == [
        "user", "file_search_call", "assistant", "user"]


# Over the server itself.

@contextlib.contextmanager
def tools_served(server, text, *flags):
    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place) / "mcp.json"
        file.write_text(text)
        other = Server(server.binary, "--mcp-config", str(file), *flags, model=DEMO)
        page, watched = opened(other)
        try:
            yield page, other
            watched.check()
        finally:
            watched.context.close()
            other.stop()


@in_browser
def test_the_demo_model_calls_a_tool_that_the_reader_allows(server):
    with tools_served(server, config(t=program(), gone={"command": "no-such-program"})) as (page, _):
        page.click("#use-tools")
        until(page, "document.querySelectorAll('.tool-row').length > 4", seconds=60)
        assert "is not installed" in page.inner_text(".toolbox")
        page.get_by_role("switch", name="t", exact=True).check()
        page.keyboard.press("Escape")
        set_setting(page, "temperature", "0")
        page.select_option("#effort", "none")
        set_setting(page, "max_output_tokens", "60")
        send(page, ASK_WEATHER)
        page.wait_for_selector(".server-call[data-state=asked]", timeout=60_000)
        assert "Paris" in page.inner_text(".server-call pre")
        pressed(page, "Allow in this chat")
        until(page, "!document.querySelector('.running') && document.querySelector('.server-call')?.dataset.state === 'done'", seconds=60)
        assert "21" in last(page) or "sunny" in last(page), last(page)
        # Made again without a question, and remembered by the next turn.
        page.locator(".message.assistant").last.get_by_role("button", name="Regenerate").click()
        until(page, "!document.querySelector('.running') && document.querySelector('.server-call')?.dataset.state === 'done'", seconds=60)
        ask(page, "And now?")


@in_browser
def test_notes_of_the_server_are_used(server):
    other = Server(server.binary, "--model", str(ENCODER), model=DEMO)
    try:
        client = strict(other)
        file = upload(client, "alps.md", "Bring goggles and wax to the snow.\n")
        finished(client, client.vector_stores.create(name="Trips", file_ids=[file.id]).id)
        page, watched = opened(other)
        page.click("#use-notes")
        page.wait_for_selector("#force .pill")
        set_setting(page, "max_output_tokens", "100")
        send(page, "What do I bring to the snow?")
        page.wait_for_selector(".server-call[data-state=done]", timeout=60_000)
        until(page, "!document.querySelector('.running')", seconds=60)
        page.click(".server-call > summary")
        page.click(".server-call .file summary")
        assert "Bring goggles" in page.inner_text(".server-call .file pre")
        set_setting(page, "max_output_tokens", "4")
        ask(page, "And?")
        watched.check()
        watched.context.close()
    finally:
        other.stop()
