"""The page over real servers that can more than chat: notes in vector stores, and models from a hub."""

import functools

import hub_test
from server import DEMO, ROOT, Server

from .browser import Watched, ask, go, launch, set_setting, until

ENCODER = ROOT / "Fixtures" / "models" / "encoder-tiny"
NOTES = {"cat.md": "The cat sat on the mat.\n", "dog.md": "A dog ran in the park, and the boy saw the dog.\n"}


def opened(server):
    """A page over this server, and what is watched."""
    watched = Watched(launch().new_context(locale="en-US", viewport={"width": 1280, "height": 800}), f"http://127.0.0.1:{server.port}/")
    go(watched.page, watched.url)
    watched.page.wait_for_selector("#model[data-state=loaded]")
    return watched.page, watched


def in_browser(test):
    @functools.wraps(test)
    def run(server):
        return browser if isinstance(browser := launch(), str) else test(server)
    return run


@in_browser
def test_notes_are_added_searched_and_put_into_a_message(server):
    other = Server(server.binary, "--model", str(ENCODER), model=DEMO)
    page, watched = opened(other)
    try:
        page.wait_for_selector("#open-notes:not([hidden])")
        page.click("#open-notes")
        with page.expect_file_chooser() as waiting:
            page.get_by_role("button", name="Add files").click()
        waiting.value.set_files([{"name": name, "mimeType": "text/markdown", "buffer": text.encode()} for name, text in NOTES.items()])
        until(page, "document.querySelector('.notes option')?.textContent === 'Notes (2 files)'", seconds=60)
        page.fill(".notes input[type=search]", "the cat on the mat")
        page.wait_for_selector(".hit")
        first = page.locator(".hit").first
        assert "cat.md" in first.inner_text() and NOTES["cat.md"].strip() in first.inner_text()
        assert "cat" in first.locator(".why").inner_text() and "cat" in first.locator("mark").all_inner_texts()
        # By keyboard alone: to the hit, into the message, back, and sent.
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector(".chip:has-text('cat.md')")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")
        set_setting(page, "max_output_tokens", "5")
        ask(page, "Who sat?")
        assert page.locator(".message.user .file").inner_text() == "cat.md"
        watched.check()
    finally:
        watched.context.close()
        other.stop()


@in_browser
def test_a_model_is_downloaded_with_its_progress_and_chatted_with(server):
    repository = hub_test.demo()
    repository.trouble[hub_test.STORE] = hub_test.slowly(hub_test.WEIGHTS, 100_000, 0.2)
    with hub_test.world(repository) as hub:
        other = Server(server.binary, "--allow-pull", env=hub_test.environment(hub))
        page, watched = opened(other)
        try:
            page.click("#model")
            page.fill(".pull input", "owner/demo")
            page.keyboard.press("Enter")
            until(page, "/ of .*B/.test(document.querySelector('.pull-row')?.textContent)", seconds=60)
            page.wait_for_selector(".model-row:has-text('owner/demo')", timeout=60_000)
            page.get_by_role("button", name="owner/demo").click()
            page.wait_for_selector("#model[data-state=loaded]:has-text('owner/demo')", timeout=60_000)
            set_setting(page, "max_output_tokens", "5")
            ask(page, "Hello")
            page.click("#model")
            page.fill(".pull input", "owner/none")
            page.keyboard.press("Enter")
            until(page, "document.querySelector('.pull-row .failed')?.textContent.includes('spelling')", seconds=60)
            watched.check()
        finally:
            watched.context.close()
            other.stop()
