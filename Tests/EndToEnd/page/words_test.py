"""The languages of the page: complete, and chosen by the reader."""

import json
import re

from .browser import ask, case, until
from .fake import PAGE

TABLES = {path.stem: json.loads(path.read_text()) for path in (PAGE / "ui" / "languages").glob("*.json")}


def members(value):
    return sorted(set(re.findall(r"\{(\w+)\}", value if isinstance(value, str) else " ".join(value.values()))))


def test_every_language_has_every_sentence_with_its_members(_server):
    english = TABLES["en"]
    assert set(TABLES) == {"en", "de", "pt-BR", "zh-Hans", "tl"}
    for name, table in TABLES.items():
        assert table.keys() == english.keys(), (name, table.keys() ^ english.keys())
        for key, value in table.items():
            assert members(value) == members(english[key]), (name, key)
            assert isinstance(value, str) or "other" in value, (name, key)


def test_every_sentence_that_the_page_names_is_there(_server):
    named = set()
    for path in (PAGE / "ui").glob("*.*"):
        text = path.read_text()
        named |= set(re.findall(r"""\bt\(\s*"(\w+)"[,)]""", text)) | set(re.findall(r'data-t(?:-\w+)?="(\w+)"', text))
    assert len(named) > 100 and named <= TABLES["en"].keys(), named - TABLES["en"].keys()


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
