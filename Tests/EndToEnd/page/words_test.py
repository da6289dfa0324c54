"""The languages of the page: complete, and chosen by the reader."""

import json
import re

from .browser import ask, case, until
from .fake import PAGE

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


@case()
def test_a_message_from_right_to_left_is_aligned_so(page, fake, watched):
    from .fake import Answer
    fake.answers.append(Answer("مرحبا بالعالم\n\n", "- واحد\n- اثنان\n"))
    ask(page, "שלום עולם")
    assert page.evaluate("getComputedStyle(document.querySelector('.bubble')).direction") == "rtl"
    assert page.evaluate("getComputedStyle(document.querySelector('.message.assistant .prose p')).direction") == "rtl"
