"""The languages of the page: complete, and chosen by the reader."""

import json
import re

from .browser import ask, case, until
from .fake import PAGE, Answer

LANGUAGES = ["en", "de", "pt-BR", "zh-Hans", "tl"]
BLOCKS = [block.split("\n") for block in (PAGE / "ui" / "words.txt").read_text().strip().split("\n\n")]
TABLE = {name: dict(zip(LANGUAGES, sentences)) for name, *sentences in BLOCKS}


def members(text):
    return sorted(set(re.findall(r"\{(\w+)\}", text)))


def test_every_language_has_every_sentence_with_its_members(_server):
    assert f"const tags = {json.dumps(LANGUAGES)};" in (PAGE / "ui" / "words.js").read_text()
    assert len(TABLE) == len(BLOCKS) > 100, "a name stands twice"
    for name, *sentences in BLOCKS:
        assert re.fullmatch(r"\w+", name) and len(sentences) == len(LANGUAGES), (name, sentences)
        for sentence in sentences:
            assert sentence.strip() == sentence != "" and sentence.count("|") <= 1, (name, sentence)
            assert members(sentence) == members(sentences[0]), (name, sentence)


def test_every_sentence_that_the_page_names_is_there(_server):
    named = set()
    for path in (PAGE / "ui").glob("*.*"):
        text = path.read_text()
        named |= set(re.findall(r"""\bt\(\s*"(\w+)"[,)]""", text)) | set(re.findall(r'data-t(?:-\w+)?="(\w+)"', text))
    assert len(named) > 100 and named <= TABLE.keys(), named - TABLE.keys()


@case(locale="de-DE")
def test_the_browser_chooses_and_the_reader_changes_the_language(page, fake, watched):
    assert page.get_attribute("html", "lang") == "de" and page.get_attribute("#box", "placeholder") == "Nachricht schreiben"
    ask(page, "Hallo")
    page.click("#open-settings")
    page.select_option("#language", "zh-Hans")
    until(page, "document.documentElement.lang === 'zh-Hans'")
    until(page, "document.querySelector('dialog h2')?.textContent === '设置'")
    page.keyboard.press("Escape")
    until(page, "document.querySelector('.meters').textContent.includes('词元')")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert page.locator(".message.user .bubble").inner_text() == "Hallo"


CUT = """() => {
  const faults = [];
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const one of document.querySelectorAll("button, label, h2, .hello, .hello-more, .foot, .muted, dt, dd, option:checked, .banner span")) {
    if (!one.checkVisibility() || one.closest(".visually-hidden")) continue;
    // A name may be cut where the whole of it is a tooltip.
    if (one.matches(".model-button, .chat a, .preset-name") || one.querySelector("select, input")) continue;
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) faults.push(`cut: ${one.textContent}`);
    const box = one.getBoundingClientRect();
    if (box.right > innerWidth + 1 || (box.left < -1 && !one.closest(".side"))) faults.push(`outside: ${one.textContent}`);
    if (/\\{\\w+\\}|undefined|null|NaN/.test(one.textContent)) faults.push(`not filled in: ${one.textContent}`);
  }
  return faults;
}"""


def in_every_language(page, fake, watched):
    """Each place of the page, in each language: no sentence is cut, none pushes another off the screen."""
    watched.expected += ["400", "503"]
    failure = Answer(status=400, error={"code": "x", "message": "No."})
    for tag in LANGUAGES:
        page.evaluate("tag => { localStorage.clear(); localStorage.setItem('language', tag) }", tag)
        fake.loading = False
        page.reload()
        page.wait_for_selector("#model[data-state=loaded]")
        assert page.get_attribute("html", "lang") == tag

        def look(where):
            page.wait_for_timeout(100)
            assert not (faults := page.evaluate(CUT)), (tag, where, faults)
        look("empty")
        page.fill("#box", "/")
        look("commands")
        page.fill("#box", "")
        fake.answers += [Answer("Yes.", reasoning=["hm"]), Answer(calls=[("f", '{"a": 1}')]), failure]
        for _ in range(3):
            ask(page, "Hi")
        look("answers")
        page.locator(".message.assistant").first.hover()
        page.locator(".message.assistant").first.locator("[aria-haspopup=menu]").click()
        look("menu of an answer")
        page.keyboard.press("Escape")
        for place in ("#tune", "#model", "#open-settings", "#open-keys"):
            if not page.locator(place).is_visible() or page.viewport_size["width"] <= 800 and place.startswith("#open"):
                page.click("#side-open")
                page.wait_for_timeout(250)
                look("panel")
            page.click(place)
            page.wait_for_selector("dialog[open]")
            look(place)
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
        fake.loading = 0.4
        page.reload()
        page.wait_for_selector(".banner.loading progress")
        look("loading")


@case()
def test_every_language_fits_on_a_wide_screen(page, fake, watched):
    in_every_language(page, fake, watched)


@case(viewport={"width": 360, "height": 740})
def test_every_language_fits_on_a_phone(page, fake, watched):
    in_every_language(page, fake, watched)


@case()
def test_a_message_from_right_to_left_is_aligned_so(page, fake, watched):
    fake.answers.append(Answer("مرحبا بالعالم\n\n", "- واحد\n- اثنان\n"))
    ask(page, "שלום עולם")
    assert page.evaluate("getComputedStyle(document.querySelector('.bubble')).direction") == "rtl"
    assert page.evaluate("getComputedStyle(document.querySelector('.message.assistant .prose p')).direction") == "rtl"
