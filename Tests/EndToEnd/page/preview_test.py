"""Previews of HTML and SVG: drawn in a frame that has no origin and reaches nothing, whatever the answer has in it."""

import http.server
import threading

from . import fake as fakes
from .browser import ask, case, real, until
from .fake import Answer

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><circle id="c" cx="5" cy="5" r="4" fill="red"/></svg>'


def fenced(language, text):
    return f"```{language}\n{text}\n```\n"


def shown(page, scripts=False):
    """The frame of the preview, which holds its document."""
    if scripts:
        page.get_by_label("Run its scripts").check()
    until(page, "scripts => document.querySelector('.preview iframe')?.src.endsWith('?scripts') === scripts", scripts)
    page.wait_for_timeout(500)
    return next(frame for frame in page.frames if "preview.html" in frame.url)


def look(frame, expression):
    """Evaluates in the frame, which Playwright may and its policy allows."""
    return frame.evaluate(expression)


@case()
def test_html_and_svg_are_drawn_and_other_code_has_no_preview(page, fake, watched):
    fake.answers.append(Answer(
        fenced("html", "<!doctype html><style>p { color: rgb(1, 2, 3) }</style><p id=p>Hello <b>there</b>"), fenced("svg", SVG),
        fenced("xml", '<?xml version="1.0"?>\n' + SVG), fenced("python", "print('<p>')"), fenced("xml", "<a/>")))
    ask(page, "Draw")
    buttons = page.get_by_role("button", name="Preview")
    assert buttons.count() == 3
    buttons.nth(0).click()
    frame = shown(page)
    assert frame.locator("#p").inner_text() == "Hello there"
    assert look(frame, "getComputedStyle(document.querySelector('#p')).color") == "rgb(1, 2, 3)"
    page.keyboard.press("Escape")
    for number in (1, 2):
        buttons.nth(number).click()
        box = shown(page).locator("#c").bounding_box()
        assert box["width"] > 200, box
        page.keyboard.press("Escape")
    page.locator("iframe").wait_for(state="detached")


class Catcher:
    """Another server, and everything that reached it."""

    def __init__(self):
        caught = self.caught = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_): pass

            def do_GET(self):
                caught.append(self.path)
                self.send_response(200)
                self.end_headers()

            do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


WAYS_OUT = """<link rel="stylesheet" href="URL/link"><img src="URL/image"><style>@import "URL/import"; body { background: url(URL/background) }</style>
<iframe src="URL/frame"></iframe><object data="URL/object"></object><embed src="URL/embed"><video src="URL/video" autoplay></video>
<link rel="preload" as="image" href="URL/preload"><link rel="icon" href="URL/icon"><form id="f" action="URL/form"><input name="a"></form>
<base href="URL/base/"><img src="relative"><a id="a" href="URL/link-pressed">x</a><a id="b" target="_blank" href="URL/window">x</a><a id="t" target="_top" href="URL/top">x</a>
<p id="said">nothing</p><img src="x" onerror="document.getElementById('said').textContent = 'handler'">
<script>document.getElementById("said").textContent = "script"</script>"""
SCRIPTS = """<script>
const tried = [];
const attempt = async (name, work) => { try { await work(); tried.push(name + " done"); } catch { tried.push(name + " refused"); } };
(async () => {
  await attempt("fetch", () => fetch("URL/fetch"));
  await attempt("own server", () => fetch("/v1/models"));
  navigator.sendBeacon("URL/beacon");
  await attempt("socket", () => new Promise((done, fail) => { const s = new WebSocket("URL/socket".replace("http", "ws")); s.onopen = done; s.onerror = fail; }));
  await attempt("storage", () => localStorage.length);
  await attempt("page", () => parent.document.title);
  await attempt("window", () => { if (!open("URL/opened")) throw 0; });
  await attempt("worker", () => new Promise((done, fail) => { const w = new Worker("data:text/javascript,postMessage(1)"); w.onmessage = done; w.onerror = fail; }));
  new Image().src = "URL/pixel";
  document.querySelector("#f").submit();
  for (const id of ["b", "t", "a"]) document.getElementById(id).click();
  window.tried = tried;
  setTimeout(() => { try { top.location = "URL/top-location"; } catch {} location = "URL/navigated"; }, 50);
})();
</script>"""


@case()
def test_what_is_in_a_preview_reaches_nothing(page, fake, watched):
    watched.expected += ["Refused", "violates", "Blocked", "blocked", "sandbox", "Failed to", "ERR_BLOCKED", "Unsafe", "Content Security Policy"]
    catcher = Catcher()
    try:
        fake.answers.append(Answer(fenced("html", (WAYS_OUT + SCRIPTS).replace("URL", catcher.url))))
        ask(page, "Draw")
        page.evaluate("localStorage.setItem('mlxserve-key', 'sk-secret')")
        address = page.url
        page.get_by_role("button", name="Preview").click()
        frame = shown(page)
        # Without the reader's word neither scripts nor handlers run.
        assert frame.locator("#said").inner_text() == "nothing"
        page.wait_for_timeout(300)
        before = len(fake.requests)
        page.get_by_label("Run its scripts").check()
        page.wait_for_timeout(2500)
        assert page.url == address and page.locator("dialog.preview-dialog").count() == 1
        assert len(watched.context.pages) == 1
        # The page itself looks at its models, and asks for a title.
        assert [path for _, path, _ in fake.requests[before:] if path not in ("/v1/models", "/v1/chat/completions")] == []
        assert catcher.caught == [], catcher.caught
        # The browser tells of tries that it stopped.
        watched.addresses[:] = [one for one in watched.addresses if not one.startswith(catcher.url)]
    finally:
        catcher.server.shutdown()
        catcher.server.server_close()


@case()
def test_scripts_of_a_preview_run_when_asked_for_and_have_no_origin(page, fake, watched):
    watched.expected += ["Refused", "violates", "Blocked", "blocked", "sandbox", "Failed to", "Content Security Policy"]
    probe = SCRIPTS.replace("URL", "http://127.0.0.1:9").split("new Image")[0] + "window.tried = tried; })();</script><canvas id=k></canvas>"
    fake.answers.append(Answer(fenced("html", probe)))
    ask(page, "Draw")
    page.get_by_role("button", name="Preview").click()
    frame = shown(page, scripts=True)
    until(frame, "window.tried?.length === 7")
    tried = look(frame, "window.tried")
    assert set(tried) == {f"{name} refused" for name in ("fetch", "own server", "socket", "storage", "page", "window", "worker")}, tried
    assert look(frame, "origin") == "null"
    # Peer connections would be a way past the policy, also from a frame within the frame.
    assert look(frame, "typeof RTCPeerConnection + typeof webkitRTCPeerConnection + typeof WebTransport") == "undefined" * 3
    return look(frame, """new Promise(done => {
      addEventListener("message", ({ data }) => done(`in a frame within: ${data}`));
      const inner = document.createElement("iframe");
      inner.srcdoc = "<script>parent.postMessage(typeof RTCPeerConnection, '*')<" + "/script>";
      document.body.append(inner);
      setTimeout(() => done("in a frame within: nothing runs"), 1500);
    })""")


@real
def test_the_frame_of_the_real_server_has_its_own_policy(page, server, watched):
    for path, scripts in (("/ui/preview.html", False), ("/ui/preview.html?scripts", True)):
        status, headers, _ = server.get(path)
        assert status == 200 and headers["content-security-policy"] == fakes.preview_policy(scripts), headers
    page.evaluate("""async svg => (await import(new URL("ui/preview.js", document.baseURI))).openPreview(svg)""", SVG)
    frame = shown(page)
    until(frame, "document.querySelector('#c') !== null")
    assert look(frame, "origin") == "null"


@real
def test_the_page_can_be_installed(page, server, watched):
    status, headers, body = server.get("/ui/manifest.webmanifest")
    assert status == 200 and headers["content-type"] == "application/manifest+json"
    session = watched.context.new_cdp_session(page)
    found = session.send("Page.getAppManifest")
    assert not found["errors"], found["errors"]
    assert '"display": "standalone"' in found["data"] and found["url"].endswith("/ui/manifest.webmanifest")
    icons = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert all(error["errorId"] in ("in-incognito", "no-matching-service-worker") for error in icons), icons
    assert b'"start_url": "../"' in body
