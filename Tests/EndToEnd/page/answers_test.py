"""What is done with an answer: its tokens and their probabilities, two models side by side, reading aloud; and dictation."""

import math

from .browser import ask, case, last, real, set_setting, until
from .fake import Answer


def place(own, logprob, *others):
    """One place of a prompt as vLLM tells it: by token id, with ids that JavaScript would put into another order."""
    everyone = sorted([(logprob, own), *((value, text) for text, value in others)], reverse=True)
    rank = {text: number + 1 for number, (_, text) in enumerate(everyone)}
    ids = {text: str(900 - number) for number, (_, text) in enumerate(everyone)}
    return {ids[text]: {"logprob": value, "rank": rank[text], "decoded_token": text} for value, text in [(logprob, own), *((v, t) for t, v in others)]}


SCORES = [None, place("user\n", -1.0), place("The", -0.05, (" the", -4.0)), place(" sky", -0.7, (" sea", -0.9), (" <b>", -3.0)), place(" is", -0.01),
          place("\ufffd", -1.0), place("\ufffd", -2.0), place(" blue", -4.0, (" grey", -0.3)), place(".", -0.1)]
TEXT = "The sky is🏔 blue."


def more(page, item):
    page.locator(".message.assistant").last.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name=item).click()


@case()
def test_tokens_are_coloured_by_probability_with_their_alternatives(page, fake, watched):
    fake.scores = SCORES
    fake.answers.append(Answer(TEXT))
    ask(page, "Why?")
    more(page, "Token probabilities")
    page.wait_for_selector(".tokens")
    [body] = fake.whole
    assert body["prompt_logprobs"] == 5 and body["continue_final_message"] and body["messages"][-1] == {"role": "assistant", "content": TEXT}
    tokens = page.evaluate("[...document.querySelectorAll('.token-text .token')].map(one => [one.textContent, one.className])")
    assert tokens == [["The", "token p0"], [" sky", "token p2"], [" is", "token p0"], ["🏔", "token p4"], [" blue", "token p4"], [".", "token p0"]], tokens
    perplexity = math.exp((0.05 + 0.7 + 0.01 + 3 + 4 + 0.1) / 6)
    assert page.inner_text(".token-head .muted") == f"6 tokens, perplexity {perplexity:.2f}"
    assert not page.locator(".message.assistant .prose:not(.thought-text)").is_visible()
    page.locator(".token", has_text="sky").hover()
    assert page.locator(".option-text").all_inner_texts() == [" sky", " sea", " <b>"]
    assert page.locator(".option .muted").all_inner_texts() == ["50 %", "41 %", "5 %"] and page.locator(".option.own").inner_text().startswith(" sky")
    page.locator(".token", has_text="blue").hover()
    assert "Rank 2 of all tokens." in page.inner_text(".token-sheet")
    page.get_by_role("button", name="Close").click()
    assert last(page) == TEXT


@case()
def test_an_answer_goes_on_from_a_chosen_token_as_another_version(page, fake, watched):
    fake.scores = SCORES
    fake.answers += [Answer(TEXT), Answer(" at", " dusk.")]
    ask(page, "Why?")
    more(page, "Token probabilities")
    page.wait_for_selector(".tokens")
    # By keyboard: to the token, into its alternatives, and on.
    page.focus(".token-text")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    until(page, "document.activeElement.matches('.option')")
    assert page.evaluate("document.activeElement.querySelector('.option-text').textContent") == " grey"
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'The sky is🏔 grey at dusk.'")
    [body] = fake.bodies("/v1/chat/completions")
    assert body["messages"][-1] == {"role": "assistant", "content": "The sky is🏔 grey"} and body["continue_final_message"]
    assert page.locator(".branches").inner_text() == "2/2" and page.locator(".tokens").count() == 0


@case()
def test_tokens_that_do_not_make_the_answer_are_refused(page, fake, watched):
    fake.scores = SCORES
    fake.answers.append(Answer("Something else."))
    ask(page, "Why?")
    more(page, "Token probabilities")
    page.wait_for_selector(".toast span:has-text('do not match')")
    assert page.locator(".tokens").count() == 0 and last(page) == "Something else."


@case()
def test_alignment_takes_vocabularies_that_write_no_blanks_and_tokens_that_reach_beyond(page, fake, watched):
    script = """async ([places, text]) => {
      const { aligned } = await import(new URL("ui/probabilities.js", document.baseURI));
      return aligned(places, text)?.map(one => one.text) ?? null;
    }"""
    for owns, text, expected in (
            (["x", "The", "sky", "is"], "The sky is", ["The", " sky", " is"]), (["\n\nThe", " end"], "The end", ["The", " end"]),
            (["a", "b "], "ab ", ["a", "b "]), (["a", "b"], "ab ", ["a", "b", " "]), (["\ufffd", "\ufffd", "\ufffd"], "🏔", ["🏔"]),
            (["é", "\ufffd", "\ufffd", "x"], "é🏔x", ["é", "🏔", "x"]), (["no"], "yes", None), ([], "x", None)):
        found = page.evaluate(script, [[place(own, -1.0) for own in owns], text])
        assert found == expected, (owns, found)


@real
def test_probabilities_of_a_real_model_make_up_its_answer(page, server, watched):
    set_setting(page, "temperature", "0")
    set_setting(page, "max_output_tokens", "24")
    shown = ask(page, "What is your name?")
    more(page, "Token probabilities")
    page.wait_for_selector(".tokens", timeout=30_000)
    assert "".join(page.evaluate("[...document.querySelectorAll('.token-text .token')].map(one => one.textContent)")).split() == shown.split()
    # Without temperature each token is the most probable one.
    page.locator(".token-text .token").nth(2).hover()
    assert page.locator(".option").count() == 5 and "own" in page.locator(".option").first.get_attribute("class")


@case()
def test_another_model_answers_side_by_side_and_one_is_kept(page, fake, watched):
    fake.models[1]["status"] = {"value": "loaded"}
    page.reload()
    page.wait_for_selector("#model[data-state=loaded]")
    fake.answers += [Answer("from demo"), Answer(*["from ", "big "], *["word "] * 40, pace=0.03), Answer("third")]
    ask(page, "Hi")
    more(page, "Compare with big")
    page.wait_for_selector(".compare-dialog")
    until(page, "document.querySelectorAll('.column')[1].querySelector('.prose:not(.thought-text)')?.textContent.includes('from big')")
    # It grows beside the other.
    assert page.locator(".column").nth(1).locator(".running").count() == 1 and page.locator(".column").nth(0).locator(".prose").last.inner_text() == "from demo"
    assert page.locator(".column select").evaluate_all("all => all.map(one => one.selectedOptions[0].textContent)") == ["1: demo", "2: big"]
    until(page, "document.querySelector('.column .running') === null")
    assert [body["model"] for body in fake.bodies()] == ["demo", "big"] and [body["input"][-1]["content"] for body in fake.bodies()] == ["Hi", "Hi"]
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map(one => one.id)).size === document.querySelectorAll('[id]').length")
    page.locator(".column").nth(0).get_by_role("button", name="Use this one").click()
    until(page, "document.querySelector('dialog') === null && document.querySelector('.branches')?.textContent === '1/2'")
    assert last(page) == "from demo" and page.inner_text("#model-name") == "demo"
    more(page, "Compare versions")
    page.locator(".column").nth(1).get_by_role("button", name="Use this one").click()
    until(page, "document.querySelector('.branches')?.textContent === '2/2'")
    # The chat goes on with its own model, from the version that was kept.
    ask(page, "More")
    assert fake.bodies()[2]["model"] == "demo" and fake.bodies()[2]["input"][1]["content"].startswith("from big")


SPEAKER = """
window.spoken = [];
window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
Object.defineProperty(window, "speechSynthesis", { value: {
  getVoices: () => [{ lang: "en-US", localService: false, name: "far" }, { lang: "en-GB", localService: true, name: "near" }],
  speak(one) { window.spoken.push([one.text, one.voice?.name, one.lang]); window.saying = one; if (!window.isSlow) setTimeout(() => one.onend()); },
  cancel() { window.isCancelled = true; },
} });
"""


@case()
def test_an_answer_is_read_aloud_by_a_voice_of_this_machine(page, fake, watched):
    page.add_init_script(SPEAKER)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    fake.answers.append(Answer("# Sky\n\nIt is *blue*. Mostly!\n\n```js\nlet a;\n```\n\n- one\n- two[^1]\n\n[^1]: note\n"))
    ask(page, "Hi")
    button = page.get_by_role("button", name="Read aloud")
    button.click()
    until(page, "window.isCancelled === true")
    assert [text for text, *_ in page.evaluate("window.spoken")][:5] == ["Sky", "It is blue.", "Mostly!", "one", "two"]
    assert set(map(tuple, (rest for _, *rest in page.evaluate("window.spoken")))) == {("near", "en")}
    assert button.get_attribute("aria-pressed") == "false"
    # Pressed again it ends, and so it does with another chat.
    page.evaluate("window.isSlow = true; window.spoken = []; window.isCancelled = false")
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and len(page.evaluate("window.spoken")) == 1
    button.click()
    assert button.get_attribute("aria-pressed") == "false" and page.evaluate("window.isCancelled")
    button.click()
    page.evaluate("window.isCancelled = false")
    page.click("#new-chat")
    assert page.evaluate("window.isCancelled")


LISTENER = """
window.webkitSpeechRecognition = window.SpeechRecognition = class {
  static available = async () => window.isLocal ? "available" : "unavailable";
  start() { window.listener = this; }
  stop() { this.onend(); }
};
"""
HEAR = """([text, isFinal]) => {
  const result = Object.assign([{ transcript: text }], { isFinal });
  window.listener.onresult({ resultIndex: 0, results: [result] });
}"""


@case()
def test_dictation_goes_into_the_box_after_the_reader_agrees(page, fake, watched):
    page.add_init_script(LISTENER)
    page.reload()
    page.wait_for_selector("#dictate:not([hidden])")
    page.click("#dictate")
    assert "may send the sound to its maker" in page.inner_text("dialog")
    page.locator("dialog").get_by_role("button", name="Cancel").click()
    assert page.evaluate("window.listener") is None
    page.click("#dictate")
    page.locator("dialog").get_by_role("button", name="Dictate").click()
    until(page, "window.listener?.continuous === true")
    page.fill("#box", "Dear")
    page.evaluate(HEAR, ["wor", False])
    assert page.inner_text("#hint") == "wor" and page.input_value("#box") == "Dear"
    page.evaluate(HEAR, ["world", True])
    assert page.input_value("#box") == "Dear world" and page.get_attribute("#dictate", "aria-pressed") == "true"
    page.click("#dictate")
    assert page.get_attribute("#dictate", "aria-pressed") == "false"
    page.evaluate("window.listener = null")
    page.click("#dictate")
    until(page, "window.listener !== null")
    page.evaluate("window.listener.onerror({ error: 'not-allowed' }); window.listener.onend()")
    page.wait_for_selector(".toast span:text('does not allow the microphone')")


@case()
def test_dictation_on_the_machine_itself_asks_nothing(page, fake, watched):
    page.add_init_script(LISTENER + "window.isLocal = true;")
    page.reload()
    page.wait_for_selector("#dictate:not([hidden])")
    page.click("#dictate")
    until(page, "window.listener?.processLocally === true")
    assert page.locator("dialog").count() == 0
