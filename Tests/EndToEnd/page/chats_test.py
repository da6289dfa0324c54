"""What is done with chats: folders, several at once, temporary ones, what waits, titles, commands, and files of others."""

import io
import json
import threading
import zipfile

from .browser import ask, begin, case, last, send, until
from .fake import Answer
from .files_test import download, import_file


def menu_of(page, title, item):
    row = page.locator(".chat", has_text=title)
    row.hover()
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name=item).click()


def titles(page):
    return page.locator(".chat-title").all_inner_texts()


@case()
def test_chats_are_put_into_folders_which_close_and_are_renamed(page, fake, watched):
    for text in ("one", "two", "three"):
        page.keyboard.press("Control+Shift+O")
        ask(page, text)
    for title in ("one", "three"):
        menu_of(page, title, "Move to folder…")
        page.fill("dialog input", "<b>Work</b>")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog", state="detached")
    until(page, "document.querySelector('.folder')?.textContent === '<b>Work</b>2'")
    assert titles(page) == ["three", "one", "two"]
    page.locator(".folder h2 button").click()
    assert page.locator(".chat:visible .chat-title").all_inner_texts() == ["two"]
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".chat:visible .chat-title").all_inner_texts() == ["two"]
    page.locator(".folder h2 button").click()
    page.locator(".folder").hover()
    page.get_by_role("button", name="More for <b>Work</b>").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.fill("dialog input", "Play")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.folder')?.textContent === 'Play2'")
    exported = json.loads(download(page, lambda: (page.click("#open-settings"), page.get_by_role("button", name="Export all").click())))
    assert sorted(chat.get("folder", "") for chat in exported["chats"]) == ["", "Play", "Play"]
    page.keyboard.press("Escape")
    page.locator(".folder").hover()
    page.get_by_role("button", name="More for Play").click()
    page.get_by_role("menuitem", name="Remove the folder").click()
    until(page, "document.querySelector('.folder') === null && document.querySelectorAll('.chat').length === 3")


@case()
def test_several_chats_are_deleted_at_once_and_brought_back(page, fake, watched):
    for text in ("one", "two", "three"):
        page.keyboard.press("Control+Shift+O")
        ask(page, text)
    menu_of(page, "one", "Select chats")
    page.get_by_role("checkbox", name="Select three").check()
    # A press on a chat chooses it, and does not open it.
    page.locator(".chat a", has_text="two").click()
    assert page.locator(".chosen").inner_text() == "3 selected"
    page.locator(".chat a", has_text="two").click()
    assert page.locator(".chosen").inner_text() == "2 selected"
    page.locator(".chosen").get_by_role("button", name="Delete").click()
    until(page, "[...document.querySelectorAll('.chat-title')].map(one => one.textContent).join() === 'two'")
    page.get_by_role("button", name="Undo").click()
    until(page, "document.querySelectorAll('.chat').length === 3 && document.querySelector('.chosen') === null")
    page.locator(".chat a", has_text="one").click()
    until(page, "document.querySelector('.message.user .bubble')?.innerText === 'one'")
    menu_of(page, "one", "Select chats")
    page.get_by_role("button", name="Select all").click()
    page.locator(".chosen").get_by_role("button", name="Move").click()
    page.fill("dialog input", "All")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.folder')?.textContent === 'All3'")


@case()
def test_a_temporary_chat_is_kept_nowhere(page, fake, watched):
    page.click("#temporary")
    assert page.locator(".pill.plain").inner_text() == "Temporary chat: it is not saved"
    ask(page, "a secret question")
    page.fill("#box", "half a secret")
    assert titles(page) == [] and "chat=" not in page.url and page.locator("#temporary").is_hidden()
    kept = page.evaluate("""async () => {
      const { store } = await import(new URL("ui/store.js", document.baseURI));
      return JSON.stringify([await store.all("chats"), await store.all("messages"), { ...localStorage }, { ...sessionStorage }]);
    }""")
    assert "secret" not in kept, kept
    assert ask(page, "more") == "Hello there." and len(fake.bodies()[1]["input"]) == 3
    page.click("#new-chat")
    assert page.locator(".message").count() == 0 and page.locator(".pill").count() == 0 and page.input_value("#box") == ""
    ask(page, "open")
    assert titles(page) == ["open"]


@case()
def test_a_message_waits_for_the_answer_under_way(page, fake, watched):
    hold = threading.Event()
    fake.answers += [Answer("first", hold=hold), Answer("second"), Answer("third")]
    send(page, "one")
    page.wait_for_selector(".message.assistant.running")
    for text in ("two", "three", "four"):
        page.fill("#box", text)
        page.keyboard.press("Enter")
    assert page.locator(".pill.queued").all_inner_texts() == ["Next: two", "Next: three", "Next: four"]
    # One is taken back into the box.
    page.locator(".pill.queued .pill-name", has_text="four").click()
    assert page.input_value("#box") == "four" and page.locator("#queue").is_visible() and len(fake.bodies()) == 1
    hold.set()
    until(page, "document.querySelectorAll('.message.assistant:not(.running)').length === 3")
    assert [body["input"][-1]["content"] for body in fake.bodies()] == ["one", "two", "three"]
    assert last(page) == "third" and page.input_value("#box") == "four" and page.locator(".pill").count() == 0


@case()
def test_what_waits_is_not_sent_after_a_stop(page, fake, watched):
    fake.answers += [Answer(*["word "] * 300, pace=0.02)]
    begin(page, "one")
    page.fill("#box", "two")
    page.click("#queue")
    page.keyboard.press("Escape")
    page.wait_for_selector(".message.assistant:not(.running)")
    page.wait_for_timeout(300)
    assert len(fake.bodies()) == 1 and page.locator(".pill.queued").count() == 1
    page.locator(".pill.queued .pill-name").click()
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.message.assistant:not(.running)').length === 2")
    assert fake.bodies()[1]["input"][-1]["content"] == "two"


@case()
def test_the_model_titles_a_chat_when_nothing_else_is_to_do(page, fake, watched):
    fake.title = '**Title: "Greetings and <b>weather</b>."**'
    ask(page, "Hi, how is the weather today in the mountains?")
    until(page, "document.querySelector('.chat-title').textContent === 'Greetings and <b>weather</b>'")
    assert page.title() == "Greetings and <b>weather</b> – mlxserve"
    [body] = fake.whole
    assert body["max_tokens"] == 24 and body["messages"][0]["content"].startswith("Hi, how") and body["reasoning_effort"] == "none"
    ask(page, "Again")
    page.wait_for_timeout(3500)
    assert len(fake.whole) == 1
    # Nonsense is no title, and a name that the reader has given stays.
    page.click("#new-chat")
    fake.title = "a " * 40
    ask(page, "Second chat")
    until(page, "document.querySelectorAll('.chat').length === 2")
    page.wait_for_timeout(3500)
    assert len(fake.whole) == 2 and titles(page)[0] == "Second chat"
    page.click("#open-settings")
    page.get_by_label("Let the model title new chats").uncheck()
    page.keyboard.press("Escape")
    page.click("#new-chat")
    ask(page, "Third chat")
    page.wait_for_timeout(3500)
    assert len(fake.whole) == 2


@case()
def test_a_message_goes_before_a_title(page, fake, watched):
    fake.title = "Never"
    fake.answers += [Answer("a"), Answer(*["word "] * 100, pace=0.05)]
    ask(page, "Hi")
    page.wait_for_timeout(1500)
    send(page, "More")
    page.wait_for_timeout(3000)
    assert fake.whole == []


@case()
def test_suggestions_fill_the_box_and_send_nothing(page, fake, watched):
    page.locator(".suggestion").first.click()
    assert page.input_value("#box") == "Explain in simple words " and page.evaluate("document.activeElement.id") == "box"
    assert page.locator(".suggestion").count() == 4 and not fake.bodies()
    page.keyboard.type("tides")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message.assistant:not(.running)")
    assert fake.bodies()[0]["input"][0]["content"] == "Explain in simple words tides" and not page.locator(".suggestion").first.is_visible()


@case()
def test_a_slash_offers_commands_and_saved_prompts(page, fake, watched):
    page.click("#tune")
    page.fill("[data-setting=system]", "Be a pirate.")
    page.fill("[aria-label='Prompt name']", "Pirate talk")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".preset")
    page.fill("[data-setting=system]", "")
    page.keyboard.press("Escape")
    page.focus("#box")
    page.keyboard.type("/")
    options = page.locator("#slash [role=option] strong").all_inner_texts()
    assert options == ["/new", "/temporary", "/model", "/system", "/settings", "/search", "/keys", "/pirate-talk"], options
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#box", "aria-activedescendant") == "slash-1" and page.get_attribute("#slash-1", "aria-selected") == "true"
    page.keyboard.type("pi")
    page.keyboard.press("Enter")
    assert page.input_value("#box") == "" and page.locator(".pill-name").inner_text() == "System prompt" and page.locator("#slash").is_hidden()
    page.keyboard.type("/temp")
    page.keyboard.press("Tab")
    assert page.locator(".pill.plain").count() == 1
    page.keyboard.type("/mod")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .model-row")
    page.keyboard.press("Escape")
    # A path is no command, and Escape leaves the text.
    page.fill("#box", "/usr/bin")
    assert page.locator("#slash").is_hidden()
    page.fill("#box", "/ne")
    page.keyboard.press("Escape")
    assert page.input_value("#box") == "/ne" and page.locator("#slash").is_hidden()
    page.keyboard.press("Enter")
    page.wait_for_selector(".message.assistant:not(.running)")
    assert fake.bodies()[0]["input"][0]["content"] == "/ne" and fake.bodies()[0]["instructions"] == "Be a pirate."


@case()
def test_a_chat_becomes_one_html_file_that_needs_nothing(page, fake, watched):
    fake.answers.append(Answer("# Title\n\n<script>alert(1)</script> **bold** $x^2$\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```html\n<img src=x onerror=alert(1)>\n```\n"))
    ask(page, "</style><img src=x onerror=alert(1)>")
    page.locator(".chat").hover()
    page.locator(".chat").get_by_role("button").click()
    html = download(page, lambda: page.get_by_role("menuitem", name="Export as HTML").click())
    other = watched.context.browser.new_context()
    try:
        file = other.new_page()
        asked, said = [], []
        file.on("request", lambda request: asked.append(request.url))
        file.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        file.set_content(html)
        file.wait_for_timeout(200)
        assert file.inner_text("h1") == "</style><img src=x onerror=alert(1)>" and file.locator("article").count() == 2
        assert file.inner_text("article.assistant h2") == "Title" and file.locator("math msup").count() == 1 and file.locator("td").count() == 2
        assert "<script>alert(1)</script>" in file.inner_text("article.assistant") and file.inner_text("pre code") == "<img src=x onerror=alert(1)>"
        assert file.locator("body script, body img, body button, body style, [onerror]").count() == 0 and not asked and not said
        assert file.get_attribute("meta[http-equiv]", "content") == "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
    finally:
        other.close()


CHATGPT = [{"title": "Sky <b>blue</b>", "create_time": 1700000000.5, "update_time": 1700000100, "conversation_id": "6a1b-c", "current_node": "n4", "mapping": {
    "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
    "sys": {"id": "sys", "parent": "root", "message": {"author": {"role": "system"}, "content": {"content_type": "text", "parts": [""]}}},
    "n1": {"id": "n1", "parent": "sys", "message": {"author": {"role": "user"}, "create_time": 1700000001, "content": {"content_type": "text", "parts": ["Why is the sky blue?"]}}},
    "t1": {"id": "t1", "parent": "n1", "message": {"author": {"role": "assistant"}, "recipient": "browser", "content": {"content_type": "code", "parts": ["search()"]}}},
    "t2": {"id": "t2", "parent": "t1", "message": {"author": {"role": "tool"}, "content": {"content_type": "text", "parts": ["found"]}}},
    "n2": {"id": "n2", "parent": "t2", "message": {"author": {"role": "assistant"}, "create_time": 1700000002, "metadata": {"model_slug": "gpt-x"}, "content": {"content_type": "text", "parts": ["**Rayleigh** scattering."]}}},
    "n3": {"id": "n3", "parent": "n2", "message": {"author": {"role": "user"}, "create_time": 1700000003, "content": {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "And this?"]}}},
    "n4": {"id": "n4", "parent": "n3", "message": {"author": {"role": "assistant"}, "create_time": 1700000004, "content": {"content_type": "text", "parts": ["A cloud."]}}},
    "n4b": {"id": "n4b", "parent": "n3", "message": {"author": {"role": "assistant"}, "create_time": 1700000005, "content": {"content_type": "text", "parts": ["A bird."]}}}}},
    None, {"title": "loop", "id": "loop", "current_node": "a", "mapping": {"a": {"parent": "b", "message": None}, "b": {"parent": "a", "message": {"author": {"role": "user"}, "content": {"parts": ["x"]}}}}}]
OPEN_WEBUI = [{"id": "0e-1", "title": "Greeting", "created_at": 1700000000, "updated_at": 1700000200, "pinned": True, "chat": {
    "title": "Greeting", "models": ["llama3.2:3b"], "params": {"system": "Be kind."}, "history": {"currentId": "m2", "messages": {
        "m1": {"id": "m1", "parentId": None, "role": "user", "content": "Hello", "timestamp": 1700000000},
        "m2": {"id": "m2", "parentId": "m1", "role": "assistant", "model": "llama3.2:3b", "timestamp": 1700000001,
               "content": '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> Greet back.\n</details>\nHi!'}}}}}]


@case()
def test_chats_of_chatgpt_and_of_open_webui_are_imported(page, fake, watched):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<p>" * 1000)
        archive.writestr("conversations.json", json.dumps(CHATGPT))
    import_file(page, out.getvalue(), "export.zip")
    page.wait_for_selector(".toast span:has-text('2 chats were imported.')")
    page.keyboard.press("Escape")
    page.locator(".chat a", has_text="Sky <b>blue</b>").click()
    until(page, "document.querySelectorAll('.message').length === 4")
    assert page.locator(".message .prose strong").inner_text() == "Rayleigh" and last(page) == "A cloud."
    assert page.locator(".message.user .bubble").all_inner_texts() == ["Why is the sky blue?", "And this?"]
    page.locator(".message.assistant").last.get_by_role("button", name="Next version").click()
    until(page, "[...document.querySelectorAll('.prose:not(.thought-text)')].at(-1).textContent === 'A bird.'")
    import_file(page, json.dumps(OPEN_WEBUI).encode(), "chat-export.json")
    page.wait_for_selector(".toast span:has-text('1 chat was imported.')")
    page.keyboard.press("Escape")
    page.locator(".chat a", has_text="Greeting").click()
    until(page, "document.querySelectorAll('.message').length === 2")
    assert last(page) == "Hi!" and page.locator(".pill-name").inner_text() == "System prompt"
    page.locator(".thought summary").click()
    until(page, "document.querySelector('.thought-text').innerText === 'Greet back.'")
    page.locator(".chat a", has_text="loop").click()
    until(page, "document.querySelector('.message.user')?.textContent.includes('x')")


@case()
def test_archives_that_are_none_are_refused(page, fake, watched):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("photo.txt", "x" * 100)
    data = out.getvalue()
    for bad in (data, data[:40], b"PK\x03\x04", data[:-22] + data[-22:-6] + b"\xff" * 6):
        import_file(page, bad, "export.zip")
        page.wait_for_selector(".toast span:has-text('is not JSON')")
        page.locator(".toast").evaluate_all("all => all.forEach(one => one.remove())")
        page.keyboard.press("Escape")
    assert page.locator(".chat").count() == 0
