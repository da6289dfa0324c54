"""Talking to a model on the page: sending, stopping, branches, errors, models, keys."""

import json
import re
import threading
import time

from . import fake as fakes
from .browser import ask, begin, case, go, last, real, send, set_setting, until
from .fake import Answer

TABLE = ["| a | b |\n", "|---|--:|\n", "| 1 | 2 |\n"]


@real
def test_the_page_is_served_with_its_policy(page, server, watched):
    html = "Accept: text/html,*/*;q=0.8"
    status, headers, body = server.get("/", [html])
    assert status == 200 and headers["content-security-policy"] == fakes.policy(), headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert server.get("/", [html, f"If-None-Match: {headers['etag']}"])[0] == 304
    assert server.get("/ui/app.js", ["Accept-Encoding: gzip"])[2][:2] == b"\x1f\x8b"
    assert page.title() == "mlxserve"


@real
def test_a_streamed_answer_is_the_answer_of_the_api(page, server, watched):
    set_setting(page, "temperature", "0")
    question = "What is your name?"
    page.select_option("#effort", "none") if page.locator("#effort-label").is_visible() else None
    shown = ask(page, question)
    expected = server.chat(question).choices[0].message.content
    assert shown.split() == expected.split(), (shown, expected)
    assert "tokens/s" in page.locator(".meters").last.inner_text()


@real
def test_stop_ends_the_generation_on_the_server(page, server, watched):
    # Takes as long as the context lasts, which a very busy browser may miss. Then it asks again.
    set_setting(page, "schema", '{"type": "string", "minLength": 100000}')
    for attempt in range(5):
        begin(page, "Write.")
        page.keyboard.press("Escape")
        page.wait_for_selector(".message.assistant:last-of-type:not(.running)")
        if "Stopped." in page.locator(".note").last.inner_text():
            break
    else:
        raise AssertionError(page.locator(".note").last.inner_text())
    end = time.monotonic() + 1
    while not re.search(rb"(?m)^vllm:num_requests_running\S* 0$", server.get("/metrics")[2]):
        assert time.monotonic() < end, "the engine is still busy"
        time.sleep(0.05)


@case()
def test_nothing_is_fetched_from_elsewhere_and_the_console_is_empty(page, fake, watched):
    assert ask(page, "Hi") == "Hello there."
    assert page.locator(".message.user .bubble").inner_text() == "Hi"
    body = fake.bodies()[0]
    assert body["input"] == [{"role": "user", "content": "Hi"}] and body["model"] == "demo", body
    assert body["background"] and body["stream"] and body["store"]
    # What the server has kept for a network that breaks is deleted when the answer is here.
    end = time.monotonic() + 5
    while ("DELETE", "/v1/responses/resp_0", None) not in fake.requests:
        assert time.monotonic() < end
        page.wait_for_timeout(20)


@case()
def test_dots_wait_for_the_first_token_and_tokens_are_counted_live(page, fake, watched):
    hold = threading.Event()
    fake.answers.append(Answer(*["word "] * 40, pace=0.03, hold=hold))
    send(page, "Hi")
    page.wait_for_selector(".waiting:not([hidden]) .dots")
    assert page.get_attribute("#send", "aria-label") == "Stop"
    hold.set()
    until(page, "/[\\d.]+ tokens\\/s · \\d+ tokens/.test(document.querySelector('.running .meters')?.textContent)")
    page.wait_for_selector(".message.assistant:not(.running)")
    assert not page.locator(".dots").last.is_visible()


@case()
def test_a_long_prompt_says_how_long_it_is_read_in_every_language(page, fake, watched):
    sentences = {
        "en": "Reading 14,200 tokens, 31 s left", "de": "14.200 Token werden gelesen, noch 31 s",
        "pt-BR": "Lendo 14.200 tokens, faltam 31 s", "zh-Hans": "正在读取 14,200 个词元，还剩 31 秒",
        "tl": "Binabasa ang 14,200 token, 31 s pa"}
    reading = {"total": 15_000, "cache": 800, "processed": 9_000, "time_ms": 20_000, "remaining_ms": 30_400}
    for number, (language, sentence) in enumerate(sentences.items()):
        page.click("#open-settings")
        page.select_option("#language", language)
        page.keyboard.press("Escape")
        hold = threading.Event()
        fake.answers.append(Answer("word", hold=hold, reading=reading))
        send(page, f"Hi {number}")
        until(page, f"document.querySelector('.running .waiting:not([hidden]) .waiting-text')?.textContent === {json.dumps(sentence)}")
        assert [body["return_progress"] for method, path, body in fake.requests if path == "/v1/responses"] == [True] * (number + 1)
        hold.set()
        page.wait_for_selector(".message.assistant:not(.running)")
        assert not page.locator(".waiting").last.is_visible()
    # What takes no time is not worth a word.
    hold = threading.Event()
    fake.answers.append(Answer("word", hold=hold, reading={**reading, "time_ms": 1, "remaining_ms": 300}))
    send(page, "Hi")
    page.wait_for_selector(".running .waiting:not([hidden]) .dots")
    assert page.locator(".running .waiting-text").inner_text() == ""
    hold.set()
    page.wait_for_selector(".message.assistant:not(.running)")


@case()
def test_usage_is_shown_as_the_server_says_it_and_the_context_turns_amber(page, fake, watched):
    usage = {"input_tokens": 3000, "input_tokens_details": {"cached_tokens": 2900}, "output_tokens": 400,
             "output_tokens_details": {"reasoning_tokens": 0}}
    fake.answers.append(Answer("ok", usage=usage))
    ask(page, "Hi")
    meters = page.locator(".meters").last.inner_text()
    assert "400 tokens" in meters and "prompt 3,000 tokens (2,900 cached)" in meters, meters
    assert page.inner_text("#context-text") == "3,400 / 4,096"
    assert page.locator("#context.amber").count() == 1


@case()
def test_stop_keeps_what_was_said_and_continue_joins_it(page, fake, watched):
    fake.answers += [Answer(*["one ", "two ", "thr"], *["x"] * 400, pace=0.05), Answer("ee", " four")]
    send(page, "Count")
    until(page, "document.querySelector('.running .prose:not(.thought-text)')?.textContent.includes('thr')")
    page.click("#send")
    page.wait_for_selector(".message.assistant:not(.running)")
    kept = last(page)
    assert kept.startswith("one two thr") and "Stopped." in page.locator(".note").last.inner_text()
    page.wait_for_timeout(200)
    assert any(path.endswith("/cancel") for method, path, _ in fake.requests if method == "POST")
    page.get_by_role("button", name="Continue").click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent.endsWith('four')")
    body = fake.bodies("/v1/chat/completions")[0]
    assert body["continue_final_message"] and body["messages"][-1]["role"] == "assistant"
    assert last(page) == kept + "ee four"


@case()
def test_regenerating_and_editing_make_branches_that_outlive_a_reload(page, fake, watched):
    fake.answers += [Answer("first"), Answer("second"), Answer("other")]
    ask(page, "Hi")
    page.get_by_role("button", name="Regenerate").click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'second'")
    assert page.locator(".branches").inner_text() == "2/2"
    page.get_by_role("button", name="Previous version").click()
    until(page, "document.querySelector('.message.assistant .prose:not(.thought-text)')?.textContent === 'first'")
    page.locator(".message.user").hover()
    page.locator(".message.user").get_by_role("button", name="Edit").click()
    page.fill(".edit-box", "Hello")
    page.get_by_role("button", name="Send").first.click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'other'")
    assert [body["input"][-1]["content"] for body in fake.bodies()] == ["Hi", "Hi", "Hello"]
    page.reload()
    page.wait_for_selector(".message.assistant:not(.running)")
    until(page, "document.querySelector('.message.assistant .prose:not(.thought-text)')?.textContent === 'other'")
    assert page.locator(".message.user .bubble").inner_text() == "Hello"
    page.locator(".message.user").get_by_role("button", name="Previous version").click()
    until(page, "document.querySelector('.message.user .bubble')?.textContent === 'Hi'")


@case()
def test_reasoning_is_folded_timed_and_not_copied(page, fake, watched):
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    hold = threading.Event()
    fake.answers.append(Answer("The **answer**.", reasoning=["Let me ", "think."], pace=1.2, hold=hold))
    send(page, "Hi")
    hold.set()
    until(page, "/Thinking… \\d+ s/.test(document.querySelector('.thought')?.textContent)")
    page.wait_for_selector(".message.assistant:not(.running)")
    title = page.locator(".thought summary").inner_text()
    assert title.startswith("Thought for ") and title.endswith("(2 tokens)"), title
    assert not page.locator(".thought-text").is_visible()
    page.click(".thought summary")
    until(page, "document.querySelector('.thought-text').innerText === 'Let me think.'")
    page.locator(".message.assistant").get_by_role("button", name="Copy").first.click()
    page.wait_for_timeout(200)
    assert page.evaluate("navigator.clipboard.readText()") == "The **answer**."


@case()
def test_a_stream_that_the_network_cuts_is_taken_up_again(page, fake, watched):
    watched.expected += ["ERR_"]
    text = [f"{number} " for number in range(40)]
    fake.answers.append(Answer(*text, pace=0.01, cut_after=10))
    shown = ask(page, "Count")
    assert shown.split() == [str(number) for number in range(40)], shown
    again = [path for method, path, _ in fake.requests if method == "GET" and "/v1/responses/" in path]
    # What was under way when it broke may be lost too.
    assert again and 1 <= int(again[0].rpartition("=")[2]) <= 9, again


@case()
def test_an_answer_goes_on_after_a_reload(page, fake, watched):
    text = [f"{number} " for number in range(60)]
    fake.answers.append(Answer(*text, pace=0.05))
    send(page, "Count")
    until(page, "document.querySelector('.running .prose:not(.thought-text)')?.textContent.includes('5')")
    page.reload()
    page.wait_for_selector(".message.assistant:not(.running)", timeout=15_000)
    assert last(page).split() == [str(number) for number in range(60)]
    assert len(fake.bodies()) == 1


@case()
def test_a_server_that_goes_away_keeps_the_part_and_the_question(page, fake, watched):
    watched.expected += ["ERR_", "404"]
    fake.answers.append(Answer("some ", "words", *["x"] * 50, pace=0.02, cut_after=3))
    send(page, "Hi")
    until(page, "document.querySelector('.running .prose:not(.thought-text)')?.textContent.includes('some')")
    fake.responses.clear()
    page.wait_for_selector(".error")
    assert last(page).startswith("some")
    fake.answers.append(Answer("whole"))
    page.get_by_role("button", name="Try again").click()
    until(page, "document.querySelector('.message.assistant:not(.running) .prose:not(.thought-text)')?.textContent === 'whole'")


@case()
def test_a_refusal_is_shown_with_its_code_and_counts_down(page, fake, watched):
    watched.expected += ["429", "400"]
    fake.answers += [
        Answer(status=429, error={"code": "rate_limit_exceeded", "message": "The queue is full."}, retry_after=2),
        Answer(status=400, error={"code": "invalid_value", "message": "It cannot be <b>so</b>."})]
    send(page, "Hi")
    page.wait_for_selector(".error")
    text = page.inner_text(".error")
    assert "The server is busy." in text and "429 · rate_limit_exceeded" in text and "Try again in" in text, text
    assert page.locator(".error button").is_disabled()
    until(page, "!document.querySelector('.error button').disabled")
    page.click(".error button")
    until(page, "document.querySelector('.error')?.textContent.includes('It cannot be <b>so</b>.')")
    assert page.locator(".error b").count() == 0 and page.locator(".message.assistant").count() == 1


@case()
def test_a_key_is_asked_for_and_kept_no_longer_than_wanted(page, fake, watched):
    watched.expected += ["401"]
    fake.key = "sk-right"
    page.reload()
    page.wait_for_selector("dialog.key")
    page.fill("dialog.key input[type=password]", "sk-wrong")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('dialog.key')?.textContent.includes('did not accept')")
    page.fill("dialog.key input[type=password]", "sk-right")
    page.keyboard.press("Enter")
    page.wait_for_selector("#model[data-state=loaded]")
    assert ask(page, "Hi") == "Hello there."
    assert page.evaluate("JSON.stringify(localStorage)").find("sk-right") < 0
    assert "sk-right" in page.evaluate("JSON.stringify(sessionStorage)")
    # Remembered when that is asked for, and forgotten again.
    page.click("#open-settings")
    page.get_by_role("button", name="Forget the API key").click()
    page.wait_for_selector("dialog.key")
    page.fill("dialog.key input[type=password]", "sk-right")
    page.check("dialog.key input[type=checkbox]")
    page.keyboard.press("Enter")
    until(page, "JSON.stringify(localStorage).includes('sk-right')")
    page.click("#open-settings")
    page.get_by_role("button", name="Forget the API key").click()
    page.wait_for_selector("dialog.key")
    assert "sk-right" not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert not any("sk-" in address for address in watched.addresses)


@case()
def test_a_model_that_is_loading_is_a_state_and_no_error(page, fake, watched):
    watched.expected += ["503"]
    fake.loading = True
    page.reload()
    page.wait_for_selector(".banner.loading")
    until(page, "/Loading the model… [1-9] sec/.test(document.querySelector('#banner').innerText.replace(/\\s+/g, ' '))")
    assert page.locator("#banner progress").count() == 0
    said = page.evaluate_handle("document.querySelector('#banner').firstChild")
    for part, words in ((0.0, "0%"), (0.457, "46%")):
        fake.loading = part or 1e-9
        until(page, "words => document.querySelector('#banner').innerText.includes(words)", words)
        assert abs(float(page.get_attribute("#banner progress", "value")) - part) < 1e-6
    # What changes every second is not read aloud, and what is read aloud is the same node all the time.
    assert page.locator("#banner [aria-hidden=true]").inner_text() == "46%"
    assert page.evaluate("node => node === document.querySelector('#banner').firstChild", said)
    page.fill("#box", "I can write already")
    fake.loading = False
    page.wait_for_selector("#model[data-state=loaded]")
    assert page.input_value("#box") == "I can write already" and page.locator("#banner").is_hidden()


@case()
def test_models_are_chosen_loaded_and_unloaded(page, fake, watched):
    page.click("#model")
    page.wait_for_selector(".model-row")
    rows = page.locator(".model-row")
    assert rows.count() == 2 and "1.2 MB" in rows.nth(0).inner_text() and "Not loaded" in rows.nth(1).inner_text()
    fake.load_seconds = 2.5
    rows.nth(1).get_by_role("button", name="Load", exact=True).click()
    until(page, "/Loading [1-9] sec/.test(document.querySelector('.model-row:nth-child(2)').textContent)")
    assert rows.nth(1).locator("progress").get_attribute("value") is None
    fake.models[1]["status"]["progress"] = 0.25
    until(page, "/Loading 25%/.test(document.querySelector('.model-row:nth-child(2)').textContent)")
    assert rows.nth(1).locator("progress").get_attribute("value") == "0.25"
    rows.nth(1).get_by_role("button", name="big").click()
    page.wait_for_selector("#model[data-state=loaded]")
    assert page.inner_text("#model-name") == "big"
    ask(page, "Hi")
    assert fake.bodies()[0]["model"] == "big"
    page.click("#model")
    page.locator(".model-row").nth(0).get_by_role("button", name="Unload").click()
    until(page, "document.querySelector('.model-row').textContent.includes('Not loaded')")
    fake.models[0]["status"] = {"value": "unloaded", "failed": True, "error": "<img src=x onerror=alert(1)>"}
    page.keyboard.press("Escape")
    page.click("#model")
    until(page, "document.querySelector('.failed')?.textContent.includes('<img src=x')")


@case()
def test_models_that_make_vectors_are_shown_and_not_chatted_with(page, fake, watched):
    fake.models.insert(0, {**fakes.model("minilm"), "task": "embed"})
    page.reload()
    page.wait_for_selector("#model[data-state=loaded]")
    assert page.inner_text("#model-name") == "demo"
    page.click("#model")
    page.wait_for_selector(".model-row")
    row = page.locator(".model-row", has_text="minilm")
    assert "for search, not for chats" in row.inner_text() and row.locator(".model-choose").is_disabled()


@case()
def test_a_download_is_begun_by_name_and_its_progress_shown(page, fake, watched):
    gate, asked = threading.Event(), []

    def pull(handler, body):
        asked.append(body)
        handler.events()
        name = body["model"]
        handler.event({"event": "plan", "model": name, "total_bytes": 4_000_000_000, "missing_bytes": 4_000_000_000})
        handler.event({"event": "progress", "done_bytes": 1_000_000_000, "total_bytes": 4_000_000_000, "bytes_per_second": 50_000_000, "seconds_left": 60})
        gate.wait(20)
        if name == "a/none":
            handler.event({"error": {"message": "There is no <b>such</b> model.", "code": "x"}})
        else:
            fake.models.append(fakes.model(name, status="unloaded"))
            handler.event({"event": "done", "folder": "/x"})
        handler.wfile.write(b"0\r\n\r\n")

    fake.extra = {"/models/pull": pull}
    page.reload()
    page.wait_for_selector("#model[data-state=loaded]")
    page.wait_for_timeout(200)
    page.click("#model")
    for name in ("a/model", "a/none"):
        page.fill(".pull input", name)
        page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.pull-row progress[value]').length === 2")
    assert "1 GB of 4 GB · 50 MB/s · 60 s left" in page.inner_text(".pull-row >> nth=0"), page.inner_text(".pull-row >> nth=0")
    page.keyboard.press("Escape")
    page.click("#model")
    page.wait_for_selector(".pull-row")
    until(page, "document.querySelectorAll('.pull-row').length === 2")
    assert sorted(body["model"] for body in asked) == ["a/model", "a/none"] and all(len(body) == 1 for body in asked), asked
    gate.set()
    page.wait_for_selector(".model-row:has-text('a/model')")
    until(page, "document.querySelector('.pull-row .failed')?.textContent === 'There is no <b>such</b> model.'")


@case()
def test_a_server_that_fetches_its_model_says_how_far_it_is(page, fake, watched):
    watched.expected += ["503"]
    fake.loading = "downloading a/model: 52 %"
    page.reload()
    until(page, "[...document.querySelector('#banner').children].map((part) => part.textContent).join('|') === 'downloading a/model|52 %'")


@case()
def test_settings_reach_the_request_and_can_be_reset(page, fake, watched):
    page.click("#tune")
    values = {"temperature": "0.5", "top_p": "0.9", "top_k": "40", "min_p": "0.05", "max_output_tokens": "99", "seed": "7",
              "repetition_penalty": "1.1", "presence_penalty": "0.2", "frequency_penalty": "-0.3"}
    for name, value in values.items():
        page.fill(f"[data-setting={name}]", value)
    page.fill("dialog textarea >> nth=0", "Be brief.")
    page.fill("dialog textarea >> nth=1", "END\nSTOP")
    page.fill("[data-setting=schema]", '{"type": "object"}')
    page.fill("[data-setting=tools]", '[{"type":"function","function":{"name":"f"}}]')
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    page.select_option("#effort", "low")
    ask(page, "Hi")
    body = fake.bodies()[0]
    assert all(body[name] == json.loads(value) for name, value in values.items()), body
    assert body["instructions"] == "Be brief." and body["stop"] == ["END", "STOP"] and body["reasoning"] == {"effort": "low"}
    assert body["text"]["format"]["schema"] == {"type": "object"} and body["tools"] == [{"type": "function", "name": "f"}]
    names = {"temperature", "instructions", "text", "tools", "seed", "stop"}
    page.click("#new-chat")
    ask(page, "Another chat")
    page.locator(".chat a", has_text="Hi").click()
    until(page, "document.querySelector('.message.user')?.textContent.includes('Hi') ?? false")
    ask(page, "The first again")
    assert not names & fake.bodies()[1].keys() and names <= fake.bodies()[2].keys()
    page.click("#tune")
    page.get_by_role("button", name="Reset").click()
    page.keyboard.press("Escape")
    ask(page, "Again")
    assert not names & fake.bodies()[3].keys()
    page.click("#tune")
    page.fill("[data-setting=schema]", '{"type": ')
    page.keyboard.press("Tab")
    until(page, "document.querySelector('dialog .failed:not(:empty)')?.textContent.startsWith('This is not JSON')")


@case()
def test_a_link_fills_the_box_and_sends_nothing(page, fake, watched):
    go(page, fake.url + "?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.input_value("#box") == "<script>alert(1)</script>"
    page.wait_for_timeout(200)
    assert not fake.bodies() and page.locator(".message").count() == 0


@case()
def test_enter_of_an_input_method_sends_nothing(page, fake, watched):
    page.fill("#box", "にほん")
    page.evaluate("""document.querySelector('#box').dispatchEvent(new KeyboardEvent('keydown',
      {key: 'Enter', isComposing: true, bubbles: true, cancelable: true}))""")
    page.evaluate("""document.querySelector('#box').dispatchEvent(new KeyboardEvent('keydown',
      {key: 'Enter', keyCode: 229, bubbles: true, cancelable: true}))""")
    page.wait_for_timeout(100)
    assert not fake.bodies() and page.input_value("#box") == "にほん"
    page.keyboard.press("Shift+Enter")
    assert page.input_value("#box") == "にほん\n"


@case(viewport={"width": 320, "height": 568}, has_touch=True, is_mobile=True)
def test_a_small_phone_needs_no_sideways_scrolling(page, fake, watched):
    fake.answers.append(Answer("# Title\n\n", "`" + "long" * 60 + "`\n\n", "| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n| wide cell | wide cell | wide cell | wide cell | wide cell | wide cell |\n\n```\n" + "x" * 300 + "\n```\n"))
    page.fill("#box", "line")
    page.keyboard.press("Enter")
    assert page.input_value("#box") == "line\n" and not fake.bodies()
    page.tap("#send")
    page.wait_for_selector(".message.assistant:not(.running)")
    widths = page.evaluate("[document.documentElement.scrollWidth, document.querySelector('#scroll').scrollWidth]")
    assert max(widths) <= 320, widths
    page.tap("#side-open")
    page.wait_for_selector(".side.open")
    page.tap(".chat a")
    page.wait_for_selector(".side:not(.open)", state="attached")


@case()
def test_the_reader_who_scrolls_up_stays_there(page, fake, watched):
    fake.answers += [Answer(*["paragraph\n\n"] * 60), Answer(*["more\n\n"] * 100, pace=0.02)]
    ask(page, "Hi")
    send(page, "Again")
    until(page, "document.querySelectorAll('.running p').length > 5")
    page.mouse.move(700, 300)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(300)
    place = page.evaluate("document.querySelector('#scroll').scrollTop")
    page.wait_for_timeout(600)
    assert page.evaluate("document.querySelector('#scroll').scrollTop") == place
    page.click("#to-end")
    until(page, "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 30)(document.querySelector('#scroll'))")
    page.wait_for_selector(".message.assistant:not(.running)")
    assert page.evaluate("(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#scroll'))") < 30


@case()
def test_history_is_found_renamed_pinned_deleted_and_brought_back(page, fake, watched):
    for text in ("Über Zürich", "日本語の話", "plain words"):
        page.keyboard.press("Control+Shift+O")
        ask(page, text)
    assert page.locator(".chat").count() == 3
    page.keyboard.press("Control+k")
    for query, title in (("zurich", "Über Zürich"), ("日本", "日本語の話"), ("there plain", "plain words")):
        page.fill("#search", query)
        until(page, "title => [...document.querySelectorAll('.chat-title')].map(n => n.textContent).join() === title", title)
    page.fill("#search", "")
    row = page.locator(".chat", has_text="日本語の話")
    row.hover()
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Pin").click()
    until(page, "document.querySelector('.chat-title').textContent === '日本語の話'")
    row = page.locator(".chat", has_text="plain words")
    row.hover()
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.fill(".rename", "<b>new</b> name")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chat-title:text('<b>new</b> name')")
    row = page.locator(".chat", has_text="Zürich")
    row.hover()
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Delete").click()
    until(page, "document.querySelectorAll('.chat').length === 2")
    page.get_by_role("button", name="Undo").click()
    until(page, "document.querySelectorAll('.chat').length === 3")
    page.locator(".chat a", has_text="Zürich").click()
    until(page, "document.querySelector('.message.user .bubble')?.innerText === 'Über Zürich'")


@case()
def test_tool_calls_are_shown_and_their_results_sent(page, fake, watched):
    fake.answers += [Answer(calls=[("get_weather", '{"city":"Köln","days":2}')]), Answer("It rains.")]
    ask(page, "Weather?")
    assert page.locator(".call strong").inner_text() == "get_weather"
    assert page.locator(".call pre").inner_text() == '{\n  "city": "Köln",\n  "days": 2\n}'
    page.fill(".call textarea", "rain")
    page.get_by_role("button", name="Send the results").click()
    until(page, "document.querySelectorAll('.message.assistant:not(.running)').length === 2")
    items = fake.bodies()[1]["input"]
    assert items[1]["type"] == "function_call" and items[2] == {"type": "function_call_output", "call_id": items[1]["call_id"], "output": "rain"}
    assert last(page) == "It rains."


@case()
def test_chats_live_in_memory_where_storage_is_blocked(page, fake, watched):
    page.add_init_script("Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('no', 'SecurityError') } })")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".toast span:text('does not let the page store')")
    assert ask(page, "Hi") == "Hello there."
    page.click("#new-chat")
    page.locator(".chat a").click()
    page.wait_for_selector(".message.assistant")
    assert last(page) == "Hello there."


@case()
def test_what_is_being_written_outlives_a_reload_in_its_chat(page, fake, watched):
    ask(page, "Hi")
    page.fill("#box", "half a thou")
    page.click("#new-chat")
    assert page.input_value("#box") == ""
    page.fill("#box", "something new")
    page.locator(".chat a").click()
    until(page, "document.querySelector('#box').value === 'half a thou'")
    page.reload()
    page.wait_for_selector(".message.assistant")
    assert page.input_value("#box") == "half a thou"
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.message.assistant:not(.running)').length === 2")
    page.reload()
    page.wait_for_selector(".message.assistant")
    assert page.input_value("#box") == ""
    page.click("#new-chat")
    assert page.input_value("#box") == "something new"
