"""Pictures of the chat page for docs/page: screenshots.py. Needs playwright, Pillow and Chromium."""

import io
import pathlib
import sys

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
SHOTS = [("wide-light", 1280, 820, "light"), ("wide-dark", 1280, 820, "dark"), ("tablet-light", 820, 1100, "light"), ("phone-light", 390, 844, "light"), ("phone-dark", 390, 844, "dark")]


def take(browser, name, width, height, theme):
    fake = Fake()
    fake.models[0]["id"], fake.models[1]["id"] = "qwen3-0.6b", "gemma-4-e2b"
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
    page.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    folder = ROOT / "docs" / "page"
    folder.mkdir(exist_ok=True)
    # A palette: a third of the bytes, and no difference that an eye sees.
    picture.quantize(256, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)
    context.close()
    fake.stop()


def main():
    browser = launch()
    if isinstance(browser, str):
        sys.exit(browser)
    for shot in SHOTS:
        take(browser, *shot)
    close()


if __name__ == "__main__":
    main()
