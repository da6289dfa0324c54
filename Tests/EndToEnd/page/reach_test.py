"""The page for everyone: by keyboard, by screen reader, in every theme, size and contrast, printed, and from other places."""

import http.server
import pathlib
import re
import signal
import subprocess
import threading

from server import DEMO, Server

from .browser import ask, begin, case, go, launch, send, set_setting, until
from .fake import Answer

RICH = ("# Title\n\nSome **bold** text with a [link](https://example.org), `code` and $x^2$.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n"
        "```python\ndef f(): return 1  # c\n```\n\n- [x] done\n\n> quote\n\n> [!TIP]\n> Try H<sub>2</sub>O, <kbd>Esc</kbd>.[^1]\n\n"
        "```svg\n<svg><circle r=\"4\"/></svg>\n```\n\n[^1]: Why.\n")


def axe():
    """The rules of axe-core, from its package for Python; None without it."""
    try:
        import axe_core_python
    except ImportError:
        return None
    return (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()


def violations(page, where):
    script = axe()
    if script is None:
        return None
    page.evaluate(script)
    found = page.evaluate("""async () => (await axe.run(document, {
      runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] },
    })).violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160) + " " + node.failureSummary)])""")
    assert not found, (where, found)
    return len(found)


def each_state(page, fake):
    """Every place of the page, one after the other."""
    yield "empty"
    fake.answers += [Answer(RICH, reasoning=["hm"]), Answer(calls=[("f", '{"a": 1}')]), Answer(status=400, error={"code": "x", "message": "No."})]
    page.keyboard.type("/")
    page.wait_for_selector("#slash [role=option]")
    yield "commands"
    page.fill("#box", "")
    page.click("#temporary")
    yield "temporary"
    page.click("#temporary")
    ask(page, "Hi")
    page.locator(".thought summary").click()
    yield "answer"
    page.get_by_role("button", name="Preview").click()
    page.wait_for_timeout(500)
    yield "preview"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("menuitem", name="Token probabilities").click()
    page.wait_for_selector(".tokens")
    page.locator(".token-text .token").nth(1).hover()
    yield "probabilities"
    page.locator(".token-head").get_by_role("button", name="Close").click()
    ask(page, "Tool")
    ask(page, "Fail")
    page.mouse.move(700, 300)
    yield "calls and errors"
    page.click("#tune")
    page.wait_for_selector("dialog[open] textarea")
    page.fill("[data-setting=schema]", "{")
    page.fill("[data-setting=temperature]", "0.5")
    yield "settings"
    page.keyboard.press("Escape")
    yield "what is in force"
    page.locator(".pill.wrong").get_by_role("button", name="Remove").click()
    fake.answers.append(Answer("again"))
    page.locator(".message.assistant").first.get_by_role("button", name="Regenerate").click()
    until(page, "document.querySelector('.branches')?.textContent === '2/2' && !document.querySelector('.running')")
    page.get_by_role("button", name="More", exact=True).last.click()
    page.get_by_role("menuitem", name="Compare versions").click()
    page.wait_for_selector(".compare-dialog .message")
    yield "side by side"
    page.keyboard.press("Escape")
    page.click("#model")
    page.wait_for_selector(".model-row")
    yield "models"
    page.keyboard.press("Escape")
    page.click("#open-keys")
    yield "keys"
    page.keyboard.press("Escape")
    page.click("#open-notes")
    page.fill(".notes input[type=search]", "words")
    page.wait_for_selector(".hit")
    page.get_by_role("button", name="Manage notes").click()
    page.wait_for_selector(".file-row")
    page.get_by_role("button", name="Insert").click()
    yield "notes"
    for _ in range(2):
        page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.locator(".chat").hover()
    page.locator(".chat").get_by_role("button").click()
    yield "menu"
    page.get_by_role("menuitem", name="Move to folder…").click()
    page.fill("dialog input", "Work")
    yield "folder"
    page.keyboard.press("Enter")
    page.wait_for_selector(".folder")
    page.locator(".chat").hover()
    page.locator(".chat").get_by_role("button").click()
    page.get_by_role("menuitem", name="Select chats").click()
    page.wait_for_selector(".chosen")
    yield "several chats"


def all_states(page, fake, watched):
    watched.expected += ["400"]
    if axe() is None:
        return "SKIPPED: axe-core-python is not installed."
    hit = {"file_id": "f", "filename": "a.md", "score": 0.9, "content": [{"type": "text", "text": "some words"}], "why": {
        "summary": "word: words", "terms": [{"term": "words", "positions": [[5, 10]]}]}}
    stores = [{"id": "vs_1", "name": "Notes", "file_counts": {"completed": 1}}]
    fake.extra = {"/v1/vector_stores": lambda handler, body=None: handler.send_json({"data": stores}),
                  "/v1/vector_stores/vs_1/search": lambda handler, body: handler.send_json({"data": [hit]}),
                  "/v1/vector_stores/vs_1/files": lambda handler: handler.send_json({"data": [{"id": "f", "status": "completed"}]}),
                  "/v1/files": lambda handler: handler.send_json({"data": [{"id": "f", "filename": "a.md", "bytes": 10}]})}
    fake.scores = [{"1": {"logprob": -0.2 * number, "rank": 1, "decoded_token": char}} for number, char in enumerate(RICH)]
    go(page, fake.url)
    page.wait_for_selector("#open-notes:not([hidden])")
    for state in each_state(page, fake):
        violations(page, state)
    return None


@case(color_scheme="light")
def test_axe_finds_nothing_in_light_colours(page, fake, watched):
    return all_states(page, fake, watched)


@case(color_scheme="dark")
def test_axe_finds_nothing_in_dark_colours(page, fake, watched):
    return all_states(page, fake, watched)


@case(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
def test_targets_on_a_phone_are_large_enough_for_fingers(page, fake, watched):
    fake.answers.append(Answer(RICH, reasoning=["hm"]))
    page.fill("#box", "Hi")
    page.tap("#send")
    page.wait_for_selector(".message.assistant:not(.running)")
    page.tap("#side-open")
    page.wait_for_timeout(300)
    small = page.evaluate("""[...document.querySelectorAll('button, a.chat, select, summary, input:not([type=file], [type=checkbox])')]
      .filter(one => one.checkVisibility()).map(one => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
      .filter(([, place]) => place.width < 24 || place.height < 24).map(([html]) => html)""")
    assert not small, small


@case()
def test_everything_is_reached_by_keyboard_in_a_sensible_order(page, fake, watched):
    fake.answers.append(Answer(RICH, reasoning=["hm"]))
    ask(page, "Hi")
    names, seen = [], set()
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.keyboard.press("Tab")
        name, ring, key, tag = page.evaluate("""(() => {
          const one = document.activeElement;
          const style = getComputedStyle(one);
          const box = one.closest(".composer, .search");
          const ring = style.outlineStyle !== "none" || (box && getComputedStyle(box).boxShadow !== "none");
          return [one.getAttribute("aria-label") || one.textContent.trim().slice(0, 30), ring, one.reached ??= window.reached = (window.reached ?? 0) + 1, one.tagName];
        })()""")
        if key in seen:
            break
        seen.add(key)
        assert ring or tag == "BODY", f"no focus ring on {tag} {name}"
        names.append(name)
    order = ["Skip to the message box", "Hide chats", "New chat", "Search chats", "Settings", "Keyboard shortcuts", "Theme"]
    places = [names.index(name) for name in order]
    assert places == sorted(places), names
    for name in ("Copy code", "Wrap lines", "Copy", "Regenerate", "Delete", "Message", "Attach files", "Edit"):
        assert name in names, (name, names)
    assert any(name.startswith("Model: demo") for name in names)
    # Without a mouse: write, send, edit, stop, search, open, choose a model.
    page.keyboard.press("Escape")
    page.focus("#box")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.className") == "edit-box"
    page.keyboard.type(" again")
    page.keyboard.press("Control+Enter")
    until(page, "document.querySelector('.bubble')?.textContent === 'Hi again' && !document.querySelector('.running') && document.querySelectorAll('.message').length === 2")
    page.keyboard.press("Control+k")
    page.keyboard.type("again")
    page.keyboard.press("ArrowDown")
    until(page, "document.activeElement.matches('.chat a')")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id === 'box'")
    page.focus("#model")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .model-row")
    page.keyboard.press("Escape")
    until(page, "document.activeElement.id === 'model'")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    page.wait_for_selector("dialog .keys")
    page.keyboard.press("Escape")


def tab_to(page, what, back=False):
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate("what => document.activeElement.matches(what)", what):
            return
    raise AssertionError(f"not reached: {what}")


def press_through(page, fake, watched):
    """A chat from its first word to its end and back without a mouse; after each step the keyboard is somewhere useful."""
    def is_at(what):
        until(page, "what => document.activeElement.matches(what)", what)

    fake.answers.append(Answer(*["word "] * 300, pace=0.02))
    page.keyboard.type("Hello")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.running .prose:not(.thought-text)')?.textContent.includes('word')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".message.assistant:not(.running)")
    tab_to(page, "[aria-label=Continue]", back=True)
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent.includes('and more')")
    is_at("#box")
    tab_to(page, "[aria-label='Regenerate']", back=True)
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.branches')?.textContent === '2/2' && !document.querySelector('.running')")
    is_at("#box")
    tab_to(page, "[aria-label='Previous version']", back=True)
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.branches')?.textContent === '1/2'")
    is_at("[aria-label='Next version']")
    tab_to(page, "#box")
    page.keyboard.press("ArrowUp")
    page.keyboard.type(" there")
    page.keyboard.press("Control+Enter")
    until(page, "document.querySelector('.bubble')?.textContent === 'Hello there' && !document.querySelector('.running')")
    is_at("#box")
    page.keyboard.press("Control+k")
    is_at("#search")
    page.keyboard.type("hello")
    until(page, "document.querySelector('.snippet mark')?.textContent === 'Hello'")
    page.keyboard.press("ArrowDown")
    is_at(".chat a")
    page.keyboard.press("Tab")
    for key in ("Enter", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    is_at(".rename")
    page.keyboard.type("Renamed")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.chat-title')?.textContent === 'Renamed'")
    is_at(".chat a")
    page.keyboard.press("Tab")
    for key in ("Enter", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".toast button")
    is_at("#box")
    tab_to(page, ".toast button")
    page.keyboard.press("Enter")
    # The search stands still, and finds it again; where the panel is away, the next word is expected in the box.
    is_at(".chat a" if page.viewport_size["width"] > 800 else "#box")


@case()
def test_the_keyboard_alone_does_it_all_on_a_wide_screen(page, fake, watched):
    press_through(page, fake, watched)


@case(viewport={"width": 390, "height": 844})
def test_the_keyboard_alone_does_it_all_on_a_narrow_screen(page, fake, watched):
    press_through(page, fake, watched)


@case()
def test_answers_are_spoken_in_sentences_at_most_once_a_second(page, fake, watched):
    page.evaluate("""(() => {
      window.spoken = [];
      new MutationObserver(() => window.spoken.push([performance.now(), document.querySelector("#live").textContent]))
        .observe(document.querySelector("#live"), { childList: true, characterData: true, subtree: true });
    })()""")
    words = "First **sentence**. Second sentence! Third one? And more words that follow, without an end".split(" ")
    fake.answers.append(Answer(*[word + " " for word in words], pace=0.12))
    ask(page, "Hi")
    page.wait_for_timeout(1300)
    spoken = page.evaluate("window.spoken")
    texts = [text for _, text in spoken if text]
    assert " ".join(" ".join(texts).split()) == "First sentence. Second sentence! Third one? And more words that follow, without an end", texts
    assert all(re.search(r"[.!?]$", text) for text in texts[:-1]), texts
    gaps = [later[0] - sooner[0] for sooner, later in zip(spoken, spoken[1:])]
    assert all(gap > 950 or gap < 5 for gap in gaps), gaps
    assert page.get_attribute("#log", "role") == "log" and page.get_attribute("#log", "aria-live") == "off"


@case(viewport={"width": 640, "height": 400})
def test_text_twice_as_large_with_wide_spacing_loses_nothing(page, fake, watched):
    """1280 x 800 at 200 %, with the spacing of WCAG 1.4.12."""
    fake.answers.append(Answer(RICH))
    ask(page, "Hi")
    page.evaluate("""(() => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important } p { margin-bottom: 2em !important }");
      document.adoptedStyleSheets = [sheet];
    })()""")
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    cut = page.evaluate("""[...document.querySelectorAll('.top button, .composer button, .bubble, .prose p')]
      .filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'auto' && !one.matches('.model-button')).map(one => one.outerHTML.slice(0, 100))""")
    assert not cut, cut
    assert page.locator("#box").is_visible() and page.locator("#send").is_visible()


@case(forced_colors="active", reduced_motion="reduce")
def test_forced_colours_and_reduced_motion_are_followed(page, fake, watched):
    hold = threading.Event()
    fake.answers.append(Answer("x", hold=hold))
    send(page, "Hi")
    page.wait_for_selector(".waiting:not([hidden])")
    assert page.evaluate("getComputedStyle(document.querySelector('.dots i')).animationName") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('.send')).borderTopStyle") == "solid"
    hold.set()


@case(contrast="more")
def test_more_contrast_is_given_to_those_who_ask(page, fake, watched):
    assert page.evaluate("getComputedStyle(document.querySelector('.foot')).color") == "rgb(63, 60, 54)"


@case(color_scheme="dark")
def test_the_theme_follows_the_system_until_it_is_chosen(page, fake, watched):
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(23, 23, 21)"
    page.click("#theme")
    page.get_by_role("menuitem", name="Light").click()
    assert page.evaluate(ground) == "rgb(250, 249, 246)"
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate(ground) == "rgb(250, 249, 246)"


@case()
def test_a_printed_chat_is_its_text_without_controls(page, fake, watched):
    fake.answers.append(Answer(RICH + "\nlast words"))
    ask(page, "Hi")
    page.emulate_media(media="print")
    for hidden in (".side", ".top", ".dock", ".actions", ".code-head"):
        assert not page.locator(hidden).first.is_visible(), hidden
    assert page.locator("p", has_text="last words").is_visible() and page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"


def elsewhere(html):
    """Another site with one page."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_): pass

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_another_page_can_neither_frame_it_nor_keep_hold_of_it(server):
    browser = launch()
    if isinstance(browser, str):
        return browser
    url = f"http://127.0.0.1:{server.port}/"
    other = elsewhere(f'<iframe src="{url}"></iframe>')
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
        page.wait_for_timeout(500)
        assert all(not frame.url.startswith(url) for frame in page.frames), [frame.url for frame in page.frames]
        with page.expect_popup() as waiting:
            page.evaluate("url => { window.child = window.open(url) }", url)
        waiting.value.wait_for_load_state()
        assert waiting.value.evaluate("window.opener") is None
    finally:
        context.close()
        other.shutdown()
        other.server_close()
    return None


@case()
def test_below_a_prefix_of_a_proxy_it_works_as_well(page, fake, watched):
    # The page at the root asks on, and would find nothing there.
    page.goto("about:blank")
    fake.prefix = "/tools/chat"
    go(page, fake.url + "tools/chat/")
    page.wait_for_selector("#model[data-state=loaded]")
    assert ask(page, "Hi") == "Hello there."
    page.click("#model")
    page.wait_for_selector("dialog .model-row")
    page.keyboard.press("Escape")
    page.click("#open-settings")
    page.select_option("#language", "de")
    until(page, "document.documentElement.lang === 'de'")


def test_a_server_that_is_killed_leaves_the_part_and_answers_again_after_its_return(server):
    browser = launch()
    if isinstance(browser, str):
        return browser
    first = Server(server.binary, "--test-hooks", "--step-delay-ms", "5")
    context = browser.new_context(locale="en-US")
    second = None
    try:
        page = context.new_page()
        go(page, f"http://127.0.0.1:{first.port}/")
        page.wait_for_selector("#model[data-state=loaded]")
        set_setting(page, "schema", '{"type": "string", "minLength": 100000}')
        # A very busy browser may see an answer only when it is whole.
        for _ in range(5):
            begin(page, "Write.")
            first.process.send_signal(signal.SIGSTOP)
            page.wait_for_timeout(300)
            if page.locator(".message.assistant.running").count():
                break
            first.process.send_signal(signal.SIGCONT)
        first.process.kill()
        page.wait_for_selector(".banner.down", timeout=15_000)
        until(page, "document.querySelector('.waiting:not([hidden])')?.textContent.includes('Connection lost')")
        part = page.locator(".prose:not(.thought-text)").last.inner_text()
        command = [server.binary, "serve", "--model", str(DEMO), "--port", str(first.port)]
        second = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The new server knows nothing of the answer.
        page.wait_for_selector(".error", timeout=30_000)
        assert page.locator(".prose:not(.thought-text)").last.inner_text().startswith(part[:20])
        page.click("#tune")
        page.get_by_role("button", name="Reset").click()
        page.keyboard.press("Escape")
        set_setting(page, "max_output_tokens", "5")
        page.get_by_role("button", name="Try again").click()
        until(page, "document.querySelector('.message.assistant:not(.running) .branches')?.textContent === '2/2'")
        assert page.locator(".error").count() == 0
    finally:
        context.close()
        first.stop()
        if second:
            second.terminate()
            second.wait(timeout=20)
    return None
