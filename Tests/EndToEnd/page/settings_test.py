"""Settings of a chat: checked while they are typed, kept as they are, and told beside the box."""

import json

from .browser import ask, case, last, until
from .fake import Answer

WRONG = {
    "schema": [('{"type": ', "This is not JSON"), ("[1]", "A schema is a JSON object."), ("null", "A schema is a JSON object.")],
    "tools": [("{}", "Tools are a JSON array."), ('[{"type": "function"}]', "Each tool needs a name."), ("[null]", "Each tool needs a name."), ("x", "This is not JSON")],
    "temperature": [("abc", "This is not a number."), ("1e", "This is not a number."), ("3", "From 0 to 2"), ("0x1", "This is not a number.")],
    "top_k": [("1.5", "A whole number is needed."), ("-1", "From 0 to 1,000")], "seed": [("--1", "This is not a number.")]}


def said(page, name):
    return page.locator(f".field:has([data-setting={name}]) .failed").inner_text()


@case()
def test_what_is_wrong_with_a_setting_is_said_while_it_is_typed(page, fake, watched):
    page.click("#tune")
    for name, wrongs in WRONG.items():
        for text, words in wrongs:
            page.fill(f"[data-setting={name}]", text)
            assert said(page, name).startswith(words), (name, text, said(page, name))
            assert page.get_attribute(f"[data-setting={name}]", "aria-invalid") == "true"
        page.fill(f"[data-setting={name}]", "")
        assert said(page, name) == ""
    for name, text in (("schema", "{}"), ("tools", '[{"type": "function", "function": {"name": "f"}}]'), ("temperature", "0,7"), ("top_k", "40")):
        page.fill(f"[data-setting={name}]", text)
        assert said(page, name) == "", name
    page.keyboard.press("Escape")
    ask(page, "Hi")
    assert fake.bodies()[0]["temperature"] == 0.7 and fake.bodies()[0]["tools"] == [{"type": "function", "name": "f"}]


@case()
def test_a_malformed_setting_is_kept_and_blocks_sending_with_its_reason(page, fake, watched):
    ask(page, "First")
    for name, text in (("schema", '{"type": "object", '), ("tools", "[{}]"), ("temperature", "warm")):
        # Left by Escape, without leaving the box before.
        page.click("#tune")
        page.fill(f"[data-setting={name}]", text)
        page.keyboard.press("Escape")
        page.wait_for_selector(".pill.wrong")
        page.fill("#box", "Second")
        page.keyboard.press("Enter")
        page.wait_for_selector(".toast span:has-text('Not sent.')")
        assert page.input_value("#box") == "Second"
        page.get_by_role("button", name="Regenerate").click()
        page.locator(".message.user").hover()
        page.locator(".message.user").get_by_role("button", name="Edit").click()
        page.fill(".edit-box", "Other")
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        assert page.input_value(".edit-box") == "Other"
        page.reload()
        page.wait_for_selector(".pill.wrong")
        # The pill leads to the text, which is as it was typed.
        page.locator(".pill.wrong .pill-name").click()
        until(page, "name => document.activeElement.dataset.setting === name", name)
        assert page.input_value(f"[data-setting={name}]") == text
        page.keyboard.press("Escape")
        page.locator(".pill.wrong").get_by_role("button", name="Remove").click()
        until(page, "document.querySelectorAll('.pill').length === 0")
    assert len(fake.bodies()) == 1
    page.fill("#box", "Second")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.message.assistant:not(.running)').length === 2")


@case()
def test_what_is_in_force_stands_beside_the_box_and_can_be_taken_off(page, fake, watched):
    assert page.locator("#force").is_hidden()
    page.click("#tune")
    page.fill("[data-setting=system]", "Be brief.")
    page.fill("[data-setting=schema]", '{"type": "string"}')
    page.fill("[data-setting=tools]", '[{"name": "a"}, {"name": "b"}]')
    page.fill("[data-setting=temperature]", "0.25")
    page.fill("[data-setting=seed]", "7")
    page.fill("[data-setting=stop]", "END")
    page.keyboard.press("Escape")
    pills = page.locator(".pill-name").all_inner_texts()
    assert pills == ["System prompt", "JSON schema for the answer", "2 tools", "Temperature 0.25 · Seed 7", "Stop sequences"], pills
    page.locator(".pill", has_text="Temperature").get_by_role("button", name="Remove").click()
    page.locator(".pill", has_text="JSON schema").get_by_role("button", name="Remove").click()
    ask(page, "Hi")
    body = fake.bodies()[0]
    assert not {"temperature", "seed", "text"} & body.keys() and body["instructions"] == "Be brief." and len(body["tools"]) == 2, body
    page.click("#new-chat")
    assert page.locator("#force").is_hidden()


@case()
def test_empty_boxes_show_the_values_that_hold_without_them(page, fake, watched):
    page.click("#tune")
    expected = {"temperature": "0.8", "top_p": "0.95", "top_k": "40", "min_p": "0.05", "repetition_penalty": "1", "seed": "server default"}
    page.wait_for_selector("[data-setting=temperature]")
    until(page, "document.querySelector('[data-setting=temperature]').placeholder === '0.8'")
    assert {name: page.get_attribute(f"[data-setting={name}]", "placeholder") for name in expected} == expected


@case()
def test_enter_sends_an_edit_and_shift_enter_does_not(page, fake, watched):
    fake.answers += [Answer("one"), Answer("two")]
    ask(page, "Hi")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("there")
    assert page.input_value(".edit-box") == "Hi\nthere"
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'two'")
    assert fake.bodies()[1]["input"][0]["content"] == "Hi\nthere"


@case()
def test_a_long_message_folds_and_unfolds(page, fake, watched):
    text = "\n".join(f"line {number}" for number in range(80))
    page.fill("#box", text)
    page.keyboard.press("Enter")
    page.wait_for_selector(".bubble.folded")
    page.wait_for_selector(".message.assistant:not(.running)")
    low = page.locator(".bubble").bounding_box()["height"]
    page.get_by_role("button", name="Show all").click()
    high = page.locator(".bubble").bounding_box()["height"]
    assert low < 400 < 1500 < high and page.locator(".bubble").inner_text() == text
    page.get_by_role("button", name="Show less").click()
    assert page.locator(".bubble").bounding_box()["height"] == low
    page.set_viewport_size({"width": 1280, "height": 800})
    ask(page, "short")
    assert page.locator(".fold").count() == 1 and last(page) == "Hello there."
    assert json.dumps(fake.bodies()[0]["input"][0]["content"]) == json.dumps(text)
