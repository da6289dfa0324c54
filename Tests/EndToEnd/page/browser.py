"""The browser of the page's cases: Debian's Chromium by Playwright, one for all cases, a fresh profile for each."""

import functools
import os
import shutil
import time

from .fake import Fake

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_held = {}


def launch():
    """The browser, or the reason why there is none."""
    if not _held:
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            return _held.setdefault("missing", "SKIPPED: playwright is not installed, so the page was not opened.")
        path = next((found for name in NAMES if (found := shutil.which(name))), None)
        if not path:
            return _held.setdefault("missing", "SKIPPED: there is no Chromium, so the page was not opened.")
        _held["playwright"] = sync_playwright().start()
        # Root has no sandbox; the microphone is a tone.
        flags = ["--use-fake-device-for-media-stream", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        _held["browser"] = _held["playwright"].chromium.launch(executable_path=path, args=flags)
    return _held.get("browser") or _held["missing"]


def close():
    """Gives the thread its event loop back: cases after these have their own."""
    if "browser" in _held:
        _held["browser"].close()
        _held["playwright"].stop()
    _held.clear()


class Watched:
    """A page, and everything that must not happen on it."""

    def __init__(self, context, url):
        self.context, self.url = context, url
        self.faults, self.addresses, self.expected = [], [], []
        self.page = self.open()

    def open(self):
        page = self.context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: message.type in ("error", "warning") and self.faults.append(message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.addresses.append(request.url))
        return page

    def check(self):
        # The browser itself tells of every answer that is an error.
        faults = [fault for fault in self.faults if not any(text in fault for text in self.expected)]
        assert not faults, faults
        outside = [address for address in self.addresses if not address.startswith((self.url, "data:", "blob:"))]
        assert not outside, outside


def go(page, url):
    page.goto(url)
    page.wait_for_selector("html[data-ready]")


def case(with_policy=True, **options):
    """A case over a scripted server: gets the page, which is open, the server, and what is watched."""
    def decorate(test):
        @functools.wraps(test)
        def run(_server):
            browser = launch()
            if isinstance(browser, str):
                return browser
            fake = Fake(with_policy=with_policy)
            context = browser.new_context(**{"locale": "en-US", "viewport": {"width": 1280, "height": 800}, **options})
            watched = Watched(context, fake.url)
            try:
                prepare = getattr(test, "prepare", None)
                if prepare:
                    prepare(fake)
                go(watched.page, fake.url)
                note = test(watched.page, fake, watched)
                watched.check()
                return note
            finally:
                context.close()
                fake.stop()
        return run
    return decorate


def real(test):
    """A case over the server under test."""
    @functools.wraps(test)
    def run(server):
        browser = launch()
        if isinstance(browser, str):
            return browser
        url = f"http://127.0.0.1:{server.port}/"
        context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
        watched = Watched(context, url)
        try:
            go(watched.page, url)
            note = test(watched.page, server, watched)
            watched.check()
            return note
        finally:
            context.close()
    return run


# What a reader does.

def until(page, expression, arg=None, seconds=15):
    """Waits until a JavaScript expression holds. Playwright's own way would need 'unsafe-eval'."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, f"never true: {expression}"
        time.sleep(0.02)


def send(page, text):
    page.fill("#box", text)
    page.keyboard.press("Enter")


def begin(page, text):
    """Sends a message and waits until some of the answer is shown, or, where that was missed, all of it."""
    count = page.locator(".message.assistant").count()
    send(page, text)
    until(page, """count => {
        const answers = document.querySelectorAll('.message.assistant'), last = answers[answers.length - 1]
        return answers.length > count
            && (!last.matches('.running') || last.querySelector('.prose:not(.thought-text):not(:empty)'))
    }""", count, seconds=30)


def set_setting(page, name, value):
    """A setting of the chat that is shown."""
    page.click("#tune")
    page.fill(f"[data-setting={name}]", value)
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")


def ask(page, text):
    """Sends a message and waits for the whole answer; its text."""
    count = page.locator(".message.assistant").count()
    send(page, text)
    until(page, "count => document.querySelectorAll('.message.assistant:not(.running)').length > count", count)
    return last(page)


def last(page):
    return page.locator(".message.assistant .prose:not(.thought-text)").last.inner_text()
