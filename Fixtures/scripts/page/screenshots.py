"""Pictures of the chat page for docs/page: screenshots.py [wide-dark ...]. Needs playwright, Pillow and Chromium."""

import io
import math
import pathlib
import sys
import time

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "Tests" / "EndToEnd"))

from page.browser import ask, close, go, launch  # noqa: E402
from page.fake import Answer, Fake  # noqa: E402

OLDER = ("Rename files by date", "Ideas for a birthday cake", "Why is the sky blue?", "Refactor the parser")
QUESTION = "How do I find the roots of a quadratic equation, in Python too?"
ANSWER = r"""The roots of $ax^2 + bx + c = 0$ are

$$x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$$

The **discriminant** $b^2 - 4ac$ says how many there are:

| Discriminant | Real roots | Example |
|---|:-:|--:|
| positive | 2 | `x² - 1` |
| zero | 1 | `x²` |
| negative | 0 | `x² + 1` |

```python
import cmath

def roots(a: float, b: float, c: float):
    root = cmath.sqrt(b * b - 4 * a * c)  # complex, if need be
    return (-b + root) / (2 * a), (-b - root) / (2 * a)
```
"""
SHOTS = [("wide-light", 1280, 820, "light"), ("wide-dark", 1280, 820, "dark"), ("tablet-light", 820, 1100, "light"), ("tablet-dark", 820, 1100, "dark"), ("phone-light", 390, 844, "light"), ("phone-dark", 390, 844, "dark")]


NOTE = ("Things to bring: goggles, thermal layers, wax, board bag, avalanche beacon. The packing list of the snowboard trip "
        "of 2025 was nearly right; only the second pair of gloves was missing.")
HIT = {"file_id": "f1", "filename": "trips/alps-2025.md", "score": 0.97, "content": [{"type": "text", "text": NOTE}], "why": {
    "summary": "matched concepts: snowboard trip, packing list", "sentence": {"start": 0}, "terms": [], "concepts": [
        {"start": NOTE.index(words), "end": NOTE.index(words) + len(words)} for words in ("packing list", "snowboard trip")]}}
OTHER = {"file_id": "f2", "filename": "house/winter.md", "score": 0.41, "content": [
    {"type": "text", "text": "Before winter: drain the garden pipe, have the boiler serviced, check the boards of the terrace."}], "why": {
        "summary": "word: winter", "terms": [{"term": "winter", "positions": [[7, 13]]}], "concepts": []}}


# Tokens of an answer with what else could have stood there: (text, probability, others).
TOKENS = [
    ("Sun", .84, (("The", .09), ("Because", .04))), ("light", .97, (("shine", .01),)), (" is", .46, (("ht", .21), (" looks", .12), (" contains", .08))),
    (" scattered", .58, (("made", .18), (" a", .11), (" bent", .04))), (" by", .91, (("in", .05),)), (" the", .64, (("air", .2), (" molecules", .1))),
    (" air", .38, (("atmosphere", .41), (" molecules", .12), (" gases", .05))), (",", .55, ((".", .24), (" in", .11))), (" and", .93, (("which", .04),)),
    (" blue", .72, (("short", .17), (" the", .06))), (" light", .95, (("wavelengths", .03),)), (" most", .07, (("is", .52), (" scatters", .31), (" much", .04))),
    (" of", .88, (("strongly", .09),)), (" all", .99, ()), (".", .9, (("because", .05), (":", .03)))]


def place(text, probability, others):
    """A token as the server tells it: by id, itself first."""
    ranked = sorted([(probability, text), *((value, text if text.startswith(("ht", "shine", ".", ":")) else f" {text.strip()}") for text, value in others)], reverse=True)
    told = {f"{1000 + number}": {"logprob": math.log(value), "rank": number + 1, "decoded_token": word} for number, (value, word) in enumerate(ranked)}
    return dict(sorted(told.items(), key=lambda entry: entry[1]["decoded_token"] != text))


def fake_server():
    fake = Fake()
    fake.models[0] |= {"id": "qwen3-0.6b", "size_bytes": 351_000_000}
    fake.models[1]["id"] = "gemma-4-e2b"
    # No title comes between the pictures.
    fake.title = ""
    stores = [{"id": "vs_1", "name": "Notes", "file_counts": {"completed": 42}}]
    fake.extra = {"/v1/vector_stores": lambda handler, body=None: handler.send_json({"data": stores}),
                  "/v1/vector_stores/vs_1/search": lambda handler, body: handler.send_json({"data": [HIT, OTHER]}),
                  "/models/pull": pull}
    fake.servers = {"weather": {}}
    return fake


def pull(handler, body):
    """A download that stands at a third."""
    handler.events()
    handler.event({"event": "progress", "done_bytes": 1_300_000_000, "total_bytes": 4_000_000_000, "bytes_per_second": 48_000_000, "seconds_left": 56})
    time.sleep(3)


def packed(picture):
    """With a palette: a third of the bytes, and no difference that an eye sees. The commonest colours stay as they are, then
    come those that are farthest from all others; Pillow's own palettes shift the ground or the colours of code."""
    found = [colour for _, colour in sorted(picture.getcolors(1 << 24), reverse=True)]
    palette, nearest = [], {colour: (1 << 20, 0) for colour in found}
    while len(palette) < min(256, len(found)):
        new = found[len(palette)] if len(palette) < 96 else max(nearest, key=nearest.get)
        for colour, best in nearest.items():
            nearest[colour] = min(best, (sum((a - b) ** 2 for a, b in zip(colour, new)), len(palette)))
        palette.append(new)
    data = picture.tobytes()
    out = Image.frombytes("P", picture.size, bytes(nearest[colour][1] for colour in zip(data[::3], data[1::3], data[2::3])))
    out.putpalette([part for colour in palette for part in colour])
    return out


def save(page, name):
    page.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    folder = ROOT / "docs" / "page"
    folder.mkdir(exist_ok=True)
    packed(picture).save(folder / f"{name}.png", optimize=True)


def show_tools(page, fake):
    """A call that waits for permission, beside a search in notes that is over."""
    page.click("#new-chat")
    page.click("#use-notes")
    page.click("#use-tools")
    page.get_by_role("switch", name="weather").check()
    page.keyboard.press("Escape")
    found = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["packing for snow"], "results": [
        {"file_id": one["file_id"], "filename": one["filename"], "score": one["score"], "text": one["content"][0]["text"]} for one in (HIT, OTHER)]}
    cited = {"type": "file_citation", "file_id": "f1", "filename": HIT["filename"], "index": 0}
    call = {"server_label": "weather", "arguments": '{"place": "Bern", "days": 3}'}
    fake.answers.append(Answer(
        found, {"type": "mcp_call", "id": "mcp_1", "name": "find_place", "status": "completed", "output": "Bern, 46.95 N", "error": None, **call},
        "Your list of 2025 says goggles, thermal layers and wax", cited, ", and a second pair of gloves was missing. Let me see how cold it will be.",
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "forecast", **call}))
    page.fill("#box", "What do I pack for the snow this weekend?")
    page.click("#send")
    page.wait_for_selector(".server-call[data-state=asked] button")
    save(page, "tools-light")


def take(browser, name, width, height, theme):
    fake = fake_server()
    is_phone = width < 500
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, locale="en-US", has_touch=is_phone, is_mobile=is_phone)
    page = context.new_page()
    go(page, fake.url)
    for text in OLDER:
        page.fill("#box", text)
        page.click("#send")
        page.wait_for_selector(".message.assistant:not(.running)")
        page.click("#new-chat-top" if is_phone else "#new-chat")
    usage = {"input_tokens": 312, "input_tokens_details": {"cached_tokens": 256}, "output_tokens": 418, "output_tokens_details": {"reasoning_tokens": 96}}
    pieces = [ANSWER[at : at + 4] for at in range(0, len(ANSWER), 4)]
    fake.answers.append(Answer(*pieces, reasoning=["The user ", "wants ", "the formula. "] * 32, pace=0.016, usage=usage))
    page.fill("#box", QUESTION)
    page.click("#send")
    page.wait_for_selector(".message.assistant:not(.running)")
    page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    page.mouse.move(width - 5, height // 2)
    save(page, name)
    if name == "wide-light":
        page.click("#open-notes")
        page.fill(".notes input[type=search]", "winter boarding checklist")
        page.wait_for_selector(".hit")
        save(page, "notes-light")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        show_tools(page, fake)
        page.click("#new-chat")
        fake.scores = [place(*token) for token in TOKENS]
        fake.answers.append(Answer(*[text for text, *_ in TOKENS], pace=0.02))
        ask(page, "Why is the sky blue? In one sentence.")
        page.get_by_role("button", name="More", exact=True).last.click()
        page.get_by_role("menuitem", name="Token probabilities").click()
        page.locator(".token-text .token", has_text="air").hover()
        save(page, "probabilities-light")
    if name == "wide-dark":
        fake.models[1]["status"] = {"value": "loading", "progress": 0.62}
        page.click("#model")
        page.wait_for_selector(".model-row progress[value]")
        page.fill(".pull input", "mlx-community/Qwen3-8B-4bit")
        page.keyboard.press("Enter")
        page.wait_for_selector(".pull-row progress[value]")
        page.fill(".pull input", "")
        save(page, "models-dark")
    context.close()
    fake.stop()


def main():
    browser = launch()
    if isinstance(browser, str):
        sys.exit(browser)
    for shot in SHOTS:
        if len(sys.argv) < 2 or shot[0] in sys.argv[1:]:
            take(browser, *shot)
    close()


if __name__ == "__main__":
    main()
