"""Times of the chat page in Chromium: page.py [BINARY]. First paint, a long answer at 200 tokens per second, a long chat.

Without a binary the files come from the sources by the scripted server of Tests/EndToEnd/page. Needs playwright."""

import http.server
import json
import pathlib
import random
import sys
import threading
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parents[3] / "Tests" / "EndToEnd"
sys.path.insert(0, str(TESTS))

from page.browser import close, go, launch, send  # noqa: E402
from page.fake import Answer, Fake  # noqa: E402

WATCH = """() => {
  window.tasks = [], window.gaps = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ["longtask"] });
  let before = performance.now();
  const look = (now) => { window.gaps.push(now - before); before = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""


def words(count):
    """Tokens of an answer with everything in it: text, lists, tables, code, formulas."""
    random.seed(7)
    out = []
    while len(out) < count:
        kind = random.randrange(6)
        plain = [f"{random.choice(['alpha', '**bold**', '`code`', 'a [link](https://example.org)', 'word', 'another'])} " for _ in range(60)]
        if kind == 0:
            out += ["\n\n## ", "Heading", "\n\n", *plain]
        elif kind == 1:
            out += ["\n\n", *(piece for at in range(12) for piece in ("- ", *plain[at * 5 : at * 5 + 5], "\n"))]
        elif kind == 2:
            out += ["\n\n| a | b |\n|---|---|\n", *(piece for at in range(10) for piece in ("| ", plain[at], "| ", plain[at + 1], "|\n"))]
        elif kind == 3:
            out += ["\n\n```python\n", *(piece for at in range(15) for piece in ("    value", f"_{at} ", "= ", f"call({at})", "\n")), "```\n\n"]
        elif kind == 4:
            out += ["\n\n$$", "\\frac{a}", "{b} = ", "\\sum_{i=0}^n", " x_i$$", "\n\n"]
        else:
            out += ["\n\n", *plain]
    return out[:count]


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0


def empty(headers):
    """The address of the least that a browser paints: what it takes by itself, with these headers."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><html data-ready><p>empty")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def policies(url):
    """The headers of the page that make a browser careful: a process of its own for `cross-origin-opener-policy`."""
    request = urllib.request.Request(url, headers={"accept": "text/html"})
    with urllib.request.urlopen(request) as response:
        return {name: value for name, value in response.headers.items() if "policy" in name.lower()}


def first_paint(browser, url, slowdown, rounds=9):
    """Least, median and most of the page and of two empty ones, in turns, each in a profile of its own."""
    addresses = {"page": url, "empty": empty({}), "empty with the page's policies": empty(policies(url))}
    found = {name: [] for name in addresses}
    for _ in range(rounds):
        for name, address in addresses.items():
            context = browser.new_context()
            page = context.new_page()
            context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
            go(page, address)
            found[name].append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"))
            context.close()
    return {name: [round(quantile(values, part)) for part in (0, 0.5, 0.99)] for name, values in found.items()}


def long_answer(browser, count=10_000, rate=200):
    fake = Fake()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    go(page, fake.url)
    page.wait_for_timeout(1000)
    page.evaluate(WATCH)
    before = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    fake.answers.append(Answer(*words(count), pace=1 / rate))
    send(page, "Write a long answer.")
    page.wait_for_selector(".message.assistant:not(.running)", timeout=300_000)
    after = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    tasks, gaps = page.evaluate("window.tasks"), page.evaluate("window.gaps")
    out = {
        "tokens": count, "tasks_over_50_ms": len(tasks), "longest_task_ms": round(max(tasks, default=0)),
        "frame_gap_p50_ms": round(quantile(gaps, 0.5), 1), "frame_gap_p99_ms": round(quantile(gaps, 0.99), 1), "frame_gap_max_ms": round(max(gaps)),
        "frames": len(gaps), "script_s": round(after["ScriptDuration"] - before["ScriptDuration"], 2),
        "layout_s": round(after["LayoutDuration"] - before["LayoutDuration"], 2), "heap_MB": round(after["JSHeapUsedSize"] / 1e6, 1)}
    context.close()
    fake.stop()
    return out


def long_chat(browser):
    from page.files_test import fill
    fake = Fake()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    go(page, fake.url)
    fill(page, 1, messages=500)
    spent = page.evaluate("""async () => {
      const begin = performance.now();
      document.querySelector(".chat a").click();
      while (document.querySelectorAll(".message").length < 500) await new Promise((done) => requestAnimationFrame(done));
      return performance.now() - begin;
    }""")
    context.close()
    fake.stop()
    return {"messages": 500, "open_ms": round(spent)}


def main():
    browser = launch()
    if isinstance(browser, str):
        sys.exit(browser)
    if len(sys.argv) > 1:
        from server import Server
        server = Server(sys.argv[1])
        url, stop = f"http://127.0.0.1:{server.port}/", server.stop
    else:
        fake = Fake()
        url, stop = fake.url, fake.stop
    print(json.dumps({"first_paint_ms": first_paint(browser, url, 1), "first_paint_4x_slower_ms": first_paint(browser, url, 4)}), flush=True)
    stop()
    print(json.dumps(long_chat(browser)), flush=True)
    print(json.dumps(long_answer(browser)), flush=True)
    close()


if __name__ == "__main__":
    begin = time.monotonic()
    main()
