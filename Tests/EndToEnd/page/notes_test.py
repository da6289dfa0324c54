"""Notes: weak hits behind a switch, snippets without marks, what is in the message, and what is in the stores."""

import re

from .browser import ask, case, go, until


class Notes:
    """Stores and files as a server keeps them, behind the scripted one."""

    def __init__(self, fake, hits=()):
        self.fake, self.hits, self.number = fake, list(hits), 2
        self.stores = [{"id": "vs_1", "name": "Trips"}]
        self.files = {"file-1": {"id": "file-1", "filename": "alps.md", "bytes": 2100}, "file-2": {"id": "file-2", "filename": "<b>house</b>.md", "bytes": 900}}
        self.inside = ["file-1", "file-2"]
        fake.extra = {"/v1/vector_stores": self.all, "/v1/files": self.all_files, **self.routes("vs_1")}
        for id in self.files:
            fake.extra[f"/v1/files/{id}/content"] = lambda handler: handler.send(b"# Alps", "text/markdown")

    def routes(self, id):
        base = f"/v1/vector_stores/{id}"
        return {base: self.one, f"{base}/search": lambda handler, body: handler.send_json({"data": self.hits}), f"{base}/files": self.contents}

    def deleted(self, path):
        return ("DELETE", path, None) in self.fake.requests

    def all(self, handler, body=None):
        if body:
            self.stores.append({"id": "vs_2", "name": body["name"]})
            return handler.send_json(self.stores[-1])
        left = [one for one in self.stores if not self.deleted(f"/v1/vector_stores/{one['id']}")]
        return handler.send_json({"data": [{**one, "file_counts": {"completed": len(self.kept())}} for one in left]})

    def one(self, handler, body):
        self.stores[0]["name"] = body["name"]
        handler.send_json(self.stores[0])

    def kept(self):
        return [id for id in self.inside if not self.deleted(f"/v1/files/{id}")]

    def contents(self, handler, body=None):
        if body:
            self.inside.append(body["file_id"])
        status = {"status": "completed", "id": body and body["file_id"]}
        handler.send_json(status if body else {"data": [{"id": id, "status": "completed"} for id in self.kept()]})

    def all_files(self, handler, body=None):
        if body is None:
            return handler.send_json({"data": list(self.files.values())})
        self.number += 1
        name = re.search(rb'filename="([^"]*)"', body)[1].decode()
        file = {"id": f"file-{self.number}", "filename": name, "bytes": 6}
        assert b"# Alps" in body
        self.files[file["id"]] = file
        return handler.send_json(file)


def hit(name, text, weak=False, score=0.9, words=()):
    terms = [{"term": word, "positions": [[text.index(word), text.index(word) + len(word)]]} for word in words]
    return {"file_id": name, "filename": name, "score": score, "content": [{"type": "text", "text": text}],
            "why": {"summary": "because", "terms": terms, "concepts": [], "weak": weak}}


MARKED = ("# Trip 2025\n\nBring **goggles** and [wax](https://example.org/a), not `sudo`.\n\n- [x] *one* item\n> quoted snake_case\n\n"
          "| a | b |\n|---|:-:|\n| 1 | 2 |\n\n```sh\nls 2 * 3\n```\n")


@case()
def test_marks_of_markdown_are_not_in_the_snippets(page, fake, watched):
    Notes(fake, [hit("alps.md", MARKED, words=["goggles", "item"])])
    opened(page, fake, "trip")
    text = " ".join(page.inner_text(".hit-text").split())
    assert text == "Trip 2025 Bring goggles and wax, not sudo. one item quoted snake_case | a | b | | 1 | 2 | ls 2 * 3", text
    assert page.locator("mark").all_inner_texts() == ["goggles", "item"]
    # Into the message it goes as it is.
    page.get_by_role("button", name="Insert").click()
    page.get_by_role("button", name="Write the message").click()
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.id") == "box"
    ask(page, "What?")
    assert MARKED in fake.bodies()[0]["input"][0]["content"]


def opened(page, fake, query=None):
    go(page, fake.url)
    page.wait_for_selector("#open-notes:not([hidden])")
    page.click("#open-notes")
    page.wait_for_selector(".notes option", state="attached")
    if query:
        page.fill(".notes input[type=search]", query)
        page.wait_for_selector(".hit, .check:not([hidden])")


@case()
def test_insert_shows_what_is_in_the_message_and_takes_it_out_again(page, fake, watched):
    Notes(fake, [hit("a.md", "one"), hit("b.md", "two")])
    opened(page, fake, "x")
    assert page.locator(".taken").is_hidden()
    buttons = page.locator(".hit-head button")
    buttons.nth(0).click()
    assert buttons.nth(0).inner_text() == "In the message" and buttons.nth(0).get_attribute("aria-pressed") == "true"
    buttons.nth(1).click()
    assert page.locator(".taken").inner_text().startswith("2 excerpts added")
    buttons.nth(0).click()
    assert buttons.nth(0).inner_text() == "Insert" and page.locator(".taken").inner_text().startswith("1 excerpt added")
    page.get_by_role("button", name="Write the message").click()
    assert page.locator(".chip-name").all_inner_texts() == ["b.md"]


@case()
def test_weak_hits_are_behind_a_switch(page, fake, watched):
    notes = Notes(fake, [hit("good.md", "one"), hit("far.md", "two", weak=True), hit("further.md", "three", weak=True)])
    opened(page, fake, "x")
    assert page.locator(".hit strong").all_inner_texts() == ["good.md"] and "1 result in" in page.inner_text(".notes > .muted")
    page.get_by_label("Show 2 weak matches").check()
    assert page.locator(".hit strong").all_inner_texts() == ["good.md", "far.md", "further.md"]
    page.get_by_label("Show 2 weak matches").uncheck()
    notes.hits = notes.hits[1:]
    page.fill(".notes input[type=search]", "xy")
    until(page, "document.querySelector('.notes > .muted').textContent === 'Only weak matches.'")
    assert page.locator(".hit").count() == 0


@case()
def test_stores_and_notes_are_listed_renamed_and_deleted(page, fake, watched):
    notes = Notes(fake)
    opened(page, fake)
    page.get_by_role("button", name="Manage notes").click()
    until(page, "document.querySelectorAll('.file-row').length === 2")
    assert page.locator(".file-row .grow").all_inner_texts() == ["alps.md", "<b>house</b>.md"]
    page.fill(".shelf input", "Journeys")
    page.locator(".shelf").get_by_role("button", name="Rename", exact=True).click()
    until(page, "document.querySelector('.notes option').textContent === 'Journeys (2 files)'")
    # A name of a file is for good: the bytes go into another one, then the first is deleted.
    page.get_by_role("button", name="Rename alps.md").click()
    page.fill(".file-row .rename", "dolomites.md")
    page.keyboard.press("Enter")
    until(page, "[...document.querySelectorAll('.file-row .grow')].map(one => one.textContent).join() === '<b>house</b>.md,dolomites.md'")
    assert notes.deleted("/v1/files/file-1") and notes.inside[-1] == "file-3"
    page.get_by_role("button", name="Delete <b>house</b>.md").click()
    page.locator("dialog").last.get_by_role("button", name="Cancel").click()
    assert not notes.deleted("/v1/files/file-2")
    page.get_by_role("button", name="Delete <b>house</b>.md").click()
    page.locator("dialog").last.get_by_role("button", name="Delete", exact=True).click()
    until(page, "document.querySelectorAll('.file-row').length === 1")
    page.get_by_role("button", name="Delete collection").click()
    assert "Journeys" in page.locator("dialog").last.inner_text()
    page.locator("dialog").last.get_by_role("button", name="Delete collection").click()
    until(page, "document.querySelector('.notes > .muted').textContent.startsWith('No collection yet.')")
    assert notes.deleted("/v1/vector_stores/vs_1")


@case()
def test_the_download_box_offers_the_known_names(page, fake, watched):
    fake.extra = {"/models/pull": lambda handler, body: handler.fail(403, "x", "No.")}
    go(page, fake.url)
    page.wait_for_selector("#model[data-state=loaded]")
    page.click("#model")
    page.wait_for_selector(".pull input[list=known-models]")
    assert page.evaluate("[...document.querySelectorAll('#known-models option')].map(one => [one.value, one.label])") == [["tiny:1b", "700 MB – tiny"]]
