"""Answers whose tokens are not the tokenizer's: the next turn finds what was computed with them, also after a restart."""

import json
import pathlib
import tempfile

from server import DEMO, Server

ANSWER = "the harbour master keeps eleven lanterns and writes into his book every evening"
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def served(s, place, *flags):
    """The demo model with a template that shows answers as they were written."""
    folder = pathlib.Path(place, "model")
    if not folder.is_dir():
        folder.mkdir()
        for file in DEMO.iterdir():
            if file.name != "chat_template.jinja":
                (folder / file.name).symlink_to(file)
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return Server(s.binary, *flags, model=folder)


def letters(server):
    """What makes an answer of single letters, which the tokenizer would join."""
    ids = [json.loads(server.post("/tokenize", {"content": letter})[2])["tokens"] for letter in sorted(set(ANSWER))]
    return {"logit_bias": {id: 100 for one in ids for id in one}, "structured_outputs": {"choice": [ANSWER]}}


def test_an_answer_that_comes_back_as_text_is_found(s):
    with tempfile.TemporaryDirectory() as place, served(s, place) as server:
        messages = [{"role": "user", "content": "Spell a long word."}]
        first = server.client.chat.completions.create(
            model=server.model, messages=messages, max_tokens=200, extra_body=letters(server))
        answer = first.choices[0].message.content
        assert answer == ANSWER
        _, _, tokens = server.post("/tokenize", {"content": answer})
        count = first.usage.completion_tokens
        assert count >= len(ANSWER) > len(json.loads(tokens)["tokens"]) + 32, (count, tokens)
        for text, found in ((answer, True), (answer[:1].upper() + answer[1:], False)):
            turn = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": "And another one?"}]
            usage = server.chat(turn, max_tokens=1).usage
            cached = usage.prompt_tokens_details.cached_tokens
            known = first.usage.prompt_tokens + len(ANSWER) - 1
            assert (cached >= known - 32) == found, (text, usage, known)


def test_a_stored_answer_is_found_after_a_restart(s):
    with tempfile.TemporaryDirectory() as place:
        flags = ["--state-dir", place + "/state", "--prefix-cache-dir", place + "/prompts"]
        with served(s, place, *flags) as server:
            conversation = server.client.conversations.create().id
            more = letters(server)
            first = server.client.responses.create(
                model=server.model, input="Spell a long word.", max_output_tokens=200, extra_body=more)
            other = server.client.responses.create(
                model=server.model, input="Spell one more.", max_output_tokens=200, conversation=conversation, extra_body=more)
        with served(s, place, *flags) as server:
            for before, link in ((first, {"previous_response_id": first.id}), (other, {"conversation": conversation})):
                usage = server.client.responses.create(
                    model=server.model, input="And another one?", max_output_tokens=1, **link).usage
                assert before.output_text == ANSWER
                known = before.usage.input_tokens + len(ANSWER) - 1
                assert usage.input_tokens_details.cached_tokens >= known - 32, (usage, known)
