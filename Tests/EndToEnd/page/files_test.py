"""Images, sound, text and PDF files by button, drop, paste and microphone; exports and imports."""

import base64
import io
import json
import random
import re
import tempfile
import threading
import time
import wave
import zlib

from PIL import Image

from .browser import ask, case, go, last, real, until
from .fake import Answer


def photo(size=(3000, 1500), format="JPEG"):
    image = Image.new("RGB", size, (200, 40, 40))
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = "secret place", 6
    out = io.BytesIO()
    image.save(out, format, exif=exif)
    assert b"secret place" in out.getvalue()
    return out.getvalue()


def give(page, name, type, data):
    page.set_input_files("#file", {"name": name, "mimeType": type, "buffer": data})


def drop(page, name, type, data, kind="drop"):
    """A file as the system's hand lets it fall, or as the clipboard holds it."""
    page.evaluate("""async ([name, type, data, kind]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([Uint8Array.from(atob(data), one => one.charCodeAt(0))], name, { type }));
      if (kind === "paste") {
        document.querySelector("#box").dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }));
        return;
      }
      for (const event of ["dragenter", "dragover", "drop"]) {
        document.body.dispatchEvent(new DragEvent(event, { dataTransfer: transfer, bubbles: true, cancelable: true }));
      }
    }""", [name, type, base64.b64encode(data).decode(), kind])


def sent_image(body, at=0):
    part = [part for part in body["input"][-1]["content"] if part["type"] == "input_image"][at]
    head, _, data = part["image_url"].partition(",")
    assert head in ("data:image/jpeg;base64", "data:image/png;base64")
    return base64.b64decode(data)


@case()
def test_images_are_made_smaller_turned_and_lose_what_they_know(page, fake, watched):
    give(page, "a.jpg", "image/jpeg", photo())
    page.wait_for_selector(".chip img")
    drop(page, "b.jpg", "image/jpeg", photo((100, 50)))
    until(page, "document.querySelectorAll('.chip').length === 2")
    drop(page, "c.png", "image/png", photo((64, 64), "PNG"), "paste")
    until(page, "document.querySelectorAll('.chip').length === 3")
    ask(page, "What is this?")
    body = fake.bodies()[0]
    assert body["input"][0]["content"][-1] == {"type": "input_text", "text": "What is this?"}
    images = [sent_image(body, at) for at in range(3)]
    # The camera lay on its side.
    assert [Image.open(io.BytesIO(image)).size for image in images] == [(1024, 2048), (50, 100), (64, 64)]
    assert not any(b"secret" in image for image in images)
    assert page.locator(".files img").count() == 3
    page.reload()
    page.wait_for_selector(".files img")


@case(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
def test_the_camera_of_a_phone_gives_an_image(page, fake, watched):
    page.wait_for_selector("#camera:not([hidden])")
    # The camera's own program opens, with the lens that looks away from the reader.
    assert page.get_attribute("#photo", "capture") == "environment" and page.get_attribute("#photo", "accept") == "image/*"
    with page.expect_file_chooser() as waiting:
        page.tap("#camera")
    assert not waiting.value.is_multiple()
    waiting.value.set_files({"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": photo()})
    page.wait_for_selector(".chip img")
    page.fill("#box", "What is this?")
    page.tap("#send")
    page.wait_for_selector(".message.assistant:not(.running)")
    image = sent_image(fake.bodies()[0])
    assert Image.open(io.BytesIO(image)).size == (1024, 2048) and b"secret" not in image
    fake.models[0]["input_modalities"] = ["text"]
    page.reload()
    page.wait_for_selector("#model[data-state=loaded]")
    page.wait_for_selector("#camera", state="hidden")


@case()
def test_what_the_model_does_not_take_is_refused_before_sending(page, fake, watched):
    fake.models[0]["input_modalities"] = ["text"]
    page.reload()
    page.wait_for_selector("#model[data-state=loaded]")
    page.wait_for_timeout(200)
    give(page, "a.jpg", "image/jpeg", photo((10, 10)))
    page.wait_for_selector(".toast span:text('demo does not accept images.')")
    assert page.locator(".chip").count() == 0 and page.locator("#microphone").is_hidden() and not fake.bodies()


@case()
def test_text_files_are_quoted_with_their_names(page, fake, watched):
    name = '"><img src=x onerror=alert(1)>.py'
    give(page, name, "text/x-python", "x = '```'\n".encode())
    page.wait_for_selector(".chip")
    assert page.locator(".chip-name").inner_text() == name
    ask(page, "Explain")
    assert fake.bodies()[0]["input"][0]["content"] == f"{name}:\n````\nx = '```'\n\n````\n\nExplain"
    give(page, "x.bin", "application/octet-stream", b"\xff\xfe\x00")
    page.wait_for_selector(".toast span:text('cannot be read')")


@case()
def test_a_long_paste_becomes_a_file_and_the_page_stays_quick(page, fake, watched):
    text = "line of text\n" * 8000
    spent = page.evaluate("""text => {
      const transfer = new DataTransfer();
      transfer.setData("text/plain", text);
      const begin = performance.now();
      document.querySelector("#box").dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }));
      return performance.now() - begin;
    }""", text)
    page.wait_for_selector(".chip")
    assert page.input_value("#box") == ""
    ask(page, "Sum up")
    assert text in fake.bodies()[0]["input"][0]["content"]
    return f"{spent:.0f} ms"


def pdf(texts, encrypted=False, compressed=True, to_unicode=False):
    """A file with one page for each text."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", None, "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]
    kids = []
    for text in texts:
        content = text.encode("latin-1")
        data = zlib.compress(content) if compressed else content
        objects.append(("<</Length %d%s>>" % (len(data), "/Filter/FlateDecode" if compressed else ""), data))
        kids.append(len(objects) + 1)
        objects.append(f"<</Type/Page/Parent 2 0 R/Contents {len(objects)} 0 R/Resources<</Font<</F1 3 0 R>>>>>>")
    objects[1] = "<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), " ".join(f"{kid} 0 R" for kid in kids))
    if to_unicode:
        cmap = b"1 begincodespacerange <0000> <FFFF> endcodespacerange 2 beginbfchar <0001> <4E2D> <0002> <6587> endbfchar"
        objects[2] = f"<</Type/Font/Subtype/Type0/Encoding/Identity-H/ToUnicode {len(objects) + 1} 0 R>>"
        objects.append((f"<</Length {len(cmap)}>>", cmap))
    out = b"%PDF-1.4\n"
    for number, one in enumerate(objects, 1):
        head, stream = one if isinstance(one, tuple) else (one, None)
        out += f"{number} 0 obj\n{head}\n".encode()
        if stream is not None:
            out += b"stream\n" + stream + b"\nendstream\n"
        out += b"endobj\n"
    return out + b"trailer<</Root 1 0 R%s>>\n%%%%EOF" % (b"/Encrypt 9 0 R" if encrypted else b"")


@case()
def test_pdf_files_are_read_as_text(page, fake, watched):
    give(page, "a.pdf", "application/pdf", pdf([
        r"BT /F1 12 Tf 72 700 Td (Hello \(PDF\) w\366rld) Tj 0 -14 Td [(sec)-20(ond)-300(line)] TJ ET", "BT /F1 12 Tf (page two) Tj ET"]))
    page.wait_for_selector(".chip")
    give(page, "b.pdf", "application/pdf", pdf(["BT /F1 12 Tf <00010002> Tj ET"], to_unicode=True, compressed=False))
    until(page, "document.querySelectorAll('.chip').length === 2")
    ask(page, "Read")
    content = fake.bodies()[0]["input"][0]["content"]
    assert "Hello (PDF) wörld\nsecond line\n\npage two" in content.replace("\n\n\n", "\n\n") and "中文" in content, content
    for name, data, words in (
            ("scan.pdf", pdf(["q 100 0 0 100 0 0 cm /Im1 Do Q"]), "No text was found"), ("locked.pdf", pdf(["BT (x) Tj ET"], encrypted=True), "is encrypted"),
            ("broken.pdf", b"%PDF-1.4\n1 0 obj\n<</Type/Page/Contents 1 0 R>>\nstream\nendobj " * 100, "No text was found")):
        give(page, name, "application/pdf", data)
        page.wait_for_selector(f".toast span:has-text('{name}'):has-text('{words}')")
    page.evaluate("""() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(51 << 20)], "large.pdf", { type: "application/pdf" }));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }""")
    page.wait_for_selector(".toast span:has-text('large.pdf'):has-text('too large')")
    assert page.locator(".chip").count() == 0


@case()
def test_the_microphone_gives_a_sound_of_the_model_s_rate(page, fake, watched):
    watched.context.grant_permissions(["microphone"])
    page.wait_for_selector("#microphone:not([hidden])")
    page.click("#microphone")
    until(page, "/Recording, [1-9]/.test(document.querySelector('#hint').textContent)")
    page.click("#microphone")
    page.wait_for_selector(".chip")
    ask(page, "What do you hear?")
    part = fake.bodies()[0]["input"][0]["content"][0]
    assert part["type"] == "input_audio" and part["input_audio"]["format"] == "wav"
    with wave.open(io.BytesIO(base64.b64decode(part["input_audio"]["data"]))) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert 10_000 < sound.getnframes() < 200_000 and any(sound.readframes(sound.getnframes()))


@case()
def test_a_sound_file_is_brought_to_the_model_s_rate(page, fake, watched):
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(2), sound.setsampwidth(2), sound.setframerate(44100)
        sound.writeframes(bytes(44100 * 4))
    give(page, "a.wav", "audio/wav", out.getvalue())
    page.wait_for_selector(".chip")
    ask(page, "What do you hear?")
    with wave.open(io.BytesIO(base64.b64decode(fake.bodies()[0]["input"][0]["content"][0]["input_audio"]["data"]))) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (16000, 1, 16000)


@case()
def test_a_denied_microphone_is_explained(page, fake, watched):
    page.wait_for_selector("#microphone:not([hidden])")
    page.evaluate("void (navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('no', 'NotAllowedError') })")
    page.click("#microphone")
    page.wait_for_selector(".toast span:text('does not allow the microphone')")


# Exports and imports.

def download(page, press):
    with page.expect_download() as waiting:
        press()
    return open(waiting.value.path(), encoding="utf-8").read()


def import_file(page, data, name="chats.json"):
    page.click("#open-settings")
    with page.expect_file_chooser() as waiting:
        page.get_by_role("button", name="Import").click()
    waiting.value.set_files({"name": name, "mimeType": "application/json", "buffer": data})


@case()
def test_an_export_is_imported_again_as_it_was(page, fake, watched):
    fake.answers += [Answer("one", reasoning=["hm"]), Answer("two"), Answer(calls=[("f", "{}")])]
    give(page, "a.png", "image/png", photo((8, 8), "PNG"))
    page.wait_for_selector(".chip")
    ask(page, "First")
    page.get_by_role("button", name="Regenerate").click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'two'")
    ask(page, "Second")
    page.click("#open-settings")
    whole = download(page, lambda: page.get_by_role("button", name="Export all").click())
    page.get_by_role("button", name="Delete all chats").click()
    page.locator("dialog").last.get_by_role("button", name="Delete all chats").click()
    until(page, "document.querySelectorAll('.chat').length === 0")
    import_file(page, whole.encode())
    page.wait_for_selector(".toast span:text('1 chat was imported.')")
    page.keyboard.press("Escape")
    until(page, "document.querySelectorAll('.chat').length === 1")
    page.click("#open-settings")
    again = download(page, lambda: page.get_by_role("button", name="Export all").click())

    def comparable(text):
        data = json.loads(text)
        for chat in data["chats"]:
            chat["messages"].sort(key=lambda message: message["id"])
            for message in chat["messages"]:
                for name in ("reason", "thoughtBegan"):
                    message.pop(name, None)
                for call in message.get("calls", []):
                    call.pop("item", None)
                for file in message.get("files", []):
                    file.setdefault("text", "")
                for name, value in (("files", []), ("calls", []), ("reasoning", ""), ("model", "")):
                    message.setdefault(name, value)
            for name, value in (("hasOwnTitle", False), ("folder", "")):
                chat.setdefault(name, value)
            # Whether its model was asked for a title meanwhile.
            chat.pop("isTitled", None)
        return data["chats"]

    assert comparable(again) == comparable(whole)
    page.keyboard.press("Escape")
    page.locator(".chat").hover()
    page.locator(".chat").get_by_role("button").click()
    markdown = download(page, lambda: page.get_by_role("menuitem", name="Export as Markdown").click())
    assert markdown.startswith("# First\n") and "\n\ntwo\n\n" in markdown and "hm" not in markdown


@case()
def test_other_files_are_refused_and_hostile_ones_read_with_care(page, fake, watched):
    for data, words in ((b"\x00garbage", "is not JSON"), (b'{"a":1}', "contains no chats"), (json.dumps({"format": "mlxserve-chats", "version": 2, "chats": []}).encode(), "newer version")):
        import_file(page, data)
        page.wait_for_selector(f".toast span:has-text('{words}')")
        page.keyboard.press("Escape")
    image = "<img src=x onerror=alert(1)>"
    hostile = {"format": "mlxserve-chats", "version": 1, "chats": [
        {"id": "a" * 24, "title": image, "head": "m2", "settings": {"temperature": image, "system": image, "__proto__": {"x": 1}}, "messages": [
            {"id": "m1", "role": "user", "text": image, "files": [{"kind": "image", "name": image, "data": "https://evil.example/x"}, {"kind": "x"}]},
            {"id": "m2", "role": "assistant", "parent": "m1", "text": image, "model": image, "usage": {"prompt": image}, "state": "streaming", "error": {"message": image}},
            {"id": "../x", "role": "user"}, {"id": "m3", "role": "system"}, None]},
        {"id": "<x>"}, None, {"id": "loop", "head": "l1", "messages": [{"id": "l1", "role": "user", "text": "x", "parent": "l2"}, {"id": "l2", "role": "user", "text": "y", "parent": "l1"}]}]}
    import_file(page, json.dumps(hostile).replace('"x": 1', '"x": 1, "constructor": 2').encode())
    page.wait_for_selector(".toast span:has-text('2 chats were imported.')")
    page.keyboard.press("Escape")
    page.locator(".chat a", has_text="onerror").click()
    page.wait_for_selector(".message.assistant")
    assert last(page) == image and page.locator("main img:not(.files img)").count() == 0
    assert page.locator(".chat a").count() == 2
    page.locator(".chat a", has_text="Untitled").click()
    page.wait_for_timeout(200)


@case()
def test_fifty_megabytes_of_chats_are_imported(page, fake, watched):
    text = "words and more words. " * 2000
    chats = [{"id": f"c{number}", "title": f"chat {number}", "updated": number, "head": "none", "messages": [
        {"id": f"m{number}", "role": "user", "text": text}]} for number in range(1250)]
    data = json.dumps({"format": "mlxserve-chats", "version": 1, "chats": chats}).encode()
    assert len(data) > 50 << 20
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(data)
        file.flush()
        page.click("#open-settings")
        with page.expect_file_chooser() as waiting:
            page.get_by_role("button", name="Import").click()
        waiting.value.set_files(file.name)
        page.wait_for_selector(".toast span:has-text('1,250 chats were imported.')", timeout=60_000)
    return f"{time.monotonic() - begin:.1f} s"


# History.

def fill(page, count, messages=2, words="the quick brown fox jumps over the lazy dog "):
    """Puts chats where the page keeps them."""
    page.evaluate("""async ([count, messages, words]) => {
      const { store } = await import(new URL("ui/store.js", document.baseURI));
      const chats = [];
      for (let at = 0; at < count; at++) {
        const id = `chat${at}`;
        const all = Array.from({ length: messages }, (_, number) => ({
          id: `${id}m${number}`, chat: id, parent: number ? `${id}m${number - 1}` : null, role: number % 2 ? "assistant" : "user",
          text: number % 2 ? `**Answer** ${number} of ${id}\\n\\n- ${words}\\n- \\`code\\`\\n\\n\\`\\`\\`js\\nlet a = ${number};\\n\\`\\`\\`\\n` : `Question ${number} ${words.repeat(20)}`,
          state: "done", created: 1000 + number, calls: [], reasoning: "",
        }));
        await store.write("messages", all);
        chats.push({ id, title: `Chat ${at}`, created: Date.now() - at * 1e7, updated: Date.now() - at * 1e7, settings: {}, head: all.at(-1).id, pinned: false, model: "demo" });
      }
      await store.write("chats", chats);
    }""", [count, messages, words])
    page.reload()
    page.wait_for_selector("html[data-ready]")


@case()
def test_a_thousand_chats_are_searched_at_once(page, fake, watched):
    fill(page, 1000)
    page.evaluate("(async () => { const { store } = await import(new URL('ui/store.js', document.baseURI)); await store.prepareSearch(); })()")
    spent, count = page.evaluate("""(async () => {
      const { store } = await import(new URL("ui/store.js", document.baseURI));
      const begin = performance.now();
      const found = store.search("lazy dog chat999");
      return [performance.now() - begin, found.length];
    })()""")
    assert count == 1
    page.fill("#search", "Chat 77")
    until(page, "document.querySelectorAll('.chat').length === 19")
    return f"{spent:.0f} ms"


@case()
def test_a_chat_of_five_hundred_messages_opens_and_is_found_in(page, fake, watched):
    fill(page, 1, messages=500)
    spent = page.evaluate("""async () => {
      const begin = performance.now();
      document.querySelector(".chat a").click();
      while (document.querySelectorAll(".message").length < 500) await new Promise((done) => requestAnimationFrame(done));
      return performance.now() - begin;
    }""")
    assert page.evaluate("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 30)(document.querySelector('#scroll'))")
    # The browser's own search finds what is far away.
    assert page.evaluate("window.find('Question 12 the quick', false, false, true)")
    until(page, "!document.querySelector('.message.plain')")
    return f"{spent:.0f} ms"


@case()
def test_two_tabs_lose_nothing(page, fake, watched):
    ask(page, "one")
    other = watched.open()
    go(other, page.url)
    other.wait_for_selector(".message.assistant")
    fake.answers += [Answer("from the other"), Answer("from the first")]
    ask(other, "two")
    until(page, "document.querySelectorAll('.message').length === 4")
    ask(page, "three")
    until(other, "document.querySelectorAll('.message').length === 6")
    # Another tab sees an answer while it grows.
    until(other, "[...document.querySelectorAll('.message.assistant .prose:not(.thought-text)')].at(-1).innerText === 'from the first'")


@case()
def test_a_full_disk_is_told_and_the_chat_stays(page, fake, watched):
    page.evaluate("""(async () => {
      const { store } = await import(new URL("ui/store.js", document.baseURI));
      store.write = async () => { throw new DOMException("full", "QuotaExceededError"); };
    })()""")
    assert ask(page, "Hi") == "Hello there."
    page.wait_for_selector(".toast span:has-text('storage is full') >> nth=0")
    assert page.locator(".message").count() == 2


@case()
def test_presets_are_kept_edited_deleted_and_become_the_default(page, fake, watched):
    page.click("#tune")
    page.fill("dialog textarea >> nth=0", "Be a pirate.")
    page.fill("[aria-label='Prompt name']", '"><img src=x onerror=alert(1)>')
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".preset")
    page.locator(".preset button[aria-pressed]").click()
    page.wait_for_selector(".preset.default")
    page.keyboard.press("Escape")
    page.click("#new-chat")
    ask(page, "Hi")
    assert fake.bodies()[0]["instructions"] == "Be a pirate."
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.click("#tune")
    page.locator(".preset button[aria-label^=Edit]").click()
    page.fill("dialog textarea >> nth=0", "Be a poet.")
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".preset-name[title='Be a poet.']")
    page.locator(".preset-name").click()
    assert page.input_value("dialog textarea >> nth=0") == "Be a poet."
    page.locator(".preset button[aria-label^=Delete]").click()
    until(page, "document.querySelectorAll('.preset').length === 0")


# Notes.

@case()
def test_notes_are_searched_while_typing_with_the_reason_beside_each_hit(page, fake, watched):
    stores = [{"id": "vs_1", "name": "<b>Trip</b>", "file_counts": {"completed": 2}}]
    text = "Before winter 🏔 we board: a packing checklist for the snowboard trip."
    at = text.index("checklist")
    hit = {"file_id": "f", "filename": '"><img src=x onerror=alert(1)>.md', "score": 0.87, "content": [{"type": "text", "text": text}], "why": {
        "summary": "matched concepts: winter boarding, <i>checklist</i>", "terms": [{"term": "checklist", "positions": [[at, at + 9], [5, 2], ["x", None], [0, 10**9]]}],
        "concepts": [], "sentence": {"start": 0}}}
    queries = []

    def search(handler, body):
        queries.append(body)
        handler.send_json({"object": "vector_store.search_results.page", "data": [hit], "has_more": False})

    fake.extra = {"/v1/vector_stores": lambda handler, body=None: handler.send_json({"data": stores}), "/v1/vector_stores/vs_1/search": search}
    page.reload()
    page.wait_for_selector("#open-notes:not([hidden])")
    page.click("#open-notes")
    until(page, "document.querySelector('.notes option')?.textContent === '<b>Trip</b> (2 files)'")
    page.fill(".notes input[type=search]", "winter boarding checklist")
    page.wait_for_selector(".hit")
    assert queries[-1] == {"query": "winter boarding checklist", "max_num_results": 10, "explain": True}
    assert page.inner_text(".why") == "matched concepts: winter boarding, <i>checklist</i>" and page.locator("mark").all_inner_texts() == ["checklist"]
    assert text in page.inner_text(".hit-text") and "0.87" in page.inner_text(".hit-head")
    page.locator(".hit").get_by_role("button", name="Insert").click()
    page.keyboard.press("Escape")
    ask(page, "What do I pack?")
    assert text in fake.bodies()[0]["input"][0]["content"]


LONG = "".join(f"Lantern {number} stands at mile {number * 7 % 100} of the coast.\n" for number in range(100))


@case()
def test_a_long_document_is_read_while_its_question_is_written(page, fake, watched):
    sentences = {
        "en": "Read: an answer begins at once", "de": "Gelesen: eine Antwort beginnt sofort", "pt-BR": "Lido: a resposta começa na hora",
        "zh-Hans": "已读完：可立即回答", "tl": "Nabasa na: agad magsisimula ang sagot"}
    reading = {"total": 15_000, "cache": 800, "processed": 9_000, "time_ms": 20_000, "remaining_ms": 30_400}
    note = "document.querySelector('#chips-note').textContent"
    for language, sentence in sentences.items():
        page.click("#open-settings")
        page.select_option("#language", language)
        page.keyboard.press("Escape")
        hold = threading.Event()
        fake.answers.append(Answer("x", hold=hold, reading=reading))
        give(page, "lanterns.md", "text/markdown", LONG.encode())
        until(page, f"/14[.,]200/.test({note})")
        hold.set()
        until(page, f"{note} === {json.dumps(sentence)}")
        body = [body for method, path, body in fake.requests if path == "/v1/responses"][-1]
        assert body["keep_prompt"] and body["max_output_tokens"] == 1 and body["store"] is False, body
        page.click(".chip .icon-button")
        until(page, f"{note} === ''")
    # A short one is soon read, and one whose question is sent need not be waited for.
    count = len(fake.requests)
    give(page, "short.md", "text/markdown", b"Short.")
    page.wait_for_selector(".chip")
    time.sleep(0.3)
    assert not [path for method, path, body in fake.requests[count:] if path == "/v1/responses"]
    hold = threading.Event()
    fake.answers += [Answer("x", hold=hold, reading=reading), Answer("At mile 21.")]
    give(page, "lanterns.md", "text/markdown", LONG.encode())
    until(page, f"/14[.,]200/.test({note})")
    assert ask(page, "Where is lantern 3?") == "At mile 21."
    hold.set()
    ahead, asked = [body for method, path, body in fake.requests if path == "/v1/responses"][-2:]
    assert asked["input"][-1]["content"].startswith(ahead["input"][-1]["content"]) and "keep_prompt" not in asked, asked


@real
def test_a_question_about_a_document_finds_it_read(page, server, watched):
    def found():
        return int(float(re.search(rb"(?m)^vllm:prefix_cache_hits(?:_total)?\S* (\S+)$", server.get("/metrics")[2])[1]))

    # The demo's context is small, and what another case has asked is known already.
    text = f"{random.random()} " + "the " * 1_020
    give(page, "lanterns.md", "text/markdown", text.encode())
    until(page, "document.querySelector('#chips-note').textContent.startsWith('Read:')", seconds=120)
    before = found()
    page.select_option("#effort", "none") if page.locator("#effort-label").is_visible() else None
    ask(page, "Where is lantern 3?")
    assert found() - before > 500, (before, found())
