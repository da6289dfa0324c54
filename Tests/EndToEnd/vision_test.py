"""Models that see beside Gemma 4: tiny checkpoints with a tokenizer of single characters and templates of their kinds."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

from media_test import ask, image, png, refusal, text, tokens, user
from server import ROOT, Server

TILES = {f"<row_{r}_col_{c}>": 302 + 4 * (r - 1) + c for r in range(1, 5) for c in range(1, 5)}
SMOLVLM = {
    "folder": "smolvlm-tiny",
    "special": {"<|im_start|>": 1, "<end_of_utterance>": 2, "<image>": 300, "<fake_token_around_image>": 301,
                "<global-img>": 302, **TILES},
    "bos": "<|im_start|>", "eos": "<end_of_utterance>",
    "template": """<|im_start|>{% for m in messages %}{{ m.role | capitalize }}: {% if m.content is string %}{{ m.content }}\
{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p.type == 'image' %}<image>{% endif %}\
{% endfor %}{% endif %}<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}""",
}
GEMMA = {
    "folder": "gemma3vl-tiny",
    "special": {"<eos>": 1, "<bos>": 2, "<image_soft_token>": 300, "<start_of_image>": 301, "<end_of_image>": 302,
                "<start_of_turn>": 303, "<end_of_turn>": 304},
    "bos": "<bos>", "eos": "<end_of_turn>",
    "template": """{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{% if m.content is string %}{{ m.content | trim }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text \
| trim }}{% elif p.type == 'image' %}<start_of_image>{% endif %}{% endfor %}{% endif %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}""",
}

QWEN = {
    "folder": "qwen3vl-tiny",
    "special": {"<|im_start|>": 1, "<|im_end|>": 2, "<|image_pad|>": 300, "<|video_pad|>": 301, "<|vision_start|>": 302,
                "<|vision_end|>": 303},
    "bos": "<|im_start|>", "eos": "<|im_end|>",
    "template": """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}\
{% elif p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}""",
}


def make_model(family, folder):
    for name in ("config.json", "model.safetensors", "preprocessor_config.json"):
        shutil.copy(ROOT / "Fixtures" / "vision" / family["folder"] / name, folder / name)
    special = {i: name for name, i in family["special"].items()} | {0: "<unk>"}
    # Two and three line feeds are tokens of their own, as in Gemma's vocabulary.
    characters = [*map(chr, range(32, 127)), "\n", "\n\n", "\n\n\n"]
    free = [i for i in range(320) if i not in special]
    names = dict(zip(free, characters + [f"<unused{i}>" for i in range(320)])) | special
    tokenizer = {
        "version": "1.0", "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"},
        "added_tokens": [
            {"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for i, name in special.items()],
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False,
                  "merges": [["\n", "\n"], ["\n\n", "\n"]], "vocab": {names[i]: i for i in range(320)}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": family["bos"], "eos_token": family["eos"]}))
    (folder / "chat_template.jinja").write_text(family["template"])


@contextlib.contextmanager
def serving(binary, family, *flags):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / family["folder"]
        folder.mkdir()
        make_model(family, folder)
        server = Server(binary, "--compute", "exact", *flags, model=folder)
        try:
            yield server
        finally:
            assert server.stop() == 0, server.log[-5:]


def cached(answer):
    return answer.usage.prompt_tokens_details.cached_tokens


def test_tiles(server):
    """SmolVLM: tiles and the whole, four soft tokens each, between marks that the vocabulary has."""
    with serving(server.binary, SMOLVLM, "--no-lazy-encoders") as s:
        alone = ask(s, user(text("What?"))).usage.prompt_tokens
        wide, small = png(90, 60), png(1, 1)
        for picture, detail, tiles, rows in ((wide, "auto", 4, 2), (wide, "low", 0, 0), (small, "high", 4, 2)):
            # Each tile has two marks; a row ends with a line feed, the last with two, which are one token; the whole has
            # three marks.
            expected = tiles * 6 + max(0, rows) + (4 + 3)
            used = ask(s, user(text("What?"), image(picture, detail=detail))).usage.prompt_tokens
            assert used == alone + expected, (detail, used - alone, expected)
        check_conversation(s, wide, png(90, 60, 80))
        said = json.loads(s.get("/v1/capabilities")[2])["data"][0]
        assert said["modalities"]["input"] == ["text", "image"]
        assert said["images"]["tokens"] == {"auto": 20, "low": 4, "high": 20, "original": 20}, said["images"]


def test_a_square(server):
    """Gemma 3: one square between blank lines, which merge with the line feeds beside them."""
    with serving(server.binary, GEMMA, "--no-lazy-encoders") as s:
        alone = ask(s, user(text("What?"))).usage.prompt_tokens
        behind = ask(s, user(text("What?"), image(png(90, 60)))).usage.prompt_tokens
        assert behind == alone + 16 + 2 + 2, behind - alone
        # The template's line feed before the image and two of the processor's are one token.
        before = ask(s, user(image(png(1, 1)), text("What?"))).usage.prompt_tokens
        assert before == alone + 16 + 2 + 1, before - alone
        check_conversation(s, png(90, 60), png(90, 60, 80))
        assert json.loads(s.get("/v1/capabilities")[2])["data"][0]["images"]["tokens"]["auto"] == 16


def test_rows_and_columns(server):
    """Qwen3-VL: the image in its own shape, whose tokens turn by row and column, so that text after it stands nearer."""
    with serving(server.binary, QWEN, "--no-lazy-encoders") as s:
        alone = ask(s, user(text("What?"))).usage.prompt_tokens
        counts = []
        for size, detail, columns, rows in (
                ((320, 320), "low", 8, 8), ((320, 320), "auto", 10, 10), ((640, 480), "high", 18, 13), ((1, 1), "auto", 2, 2),
                ((1, 200), "auto", 1, 29)):
            used = ask(s, user(text("What?"), image(png(*size), detail=detail))).usage.prompt_tokens
            assert used == alone + columns * rows + 2, (size, detail, used - alone)
            counts.append(used)
        status, error = refusal(s, user(image(png(1, 201))))
        assert status == 400 and "more than 200 times" in error["message"], error
        check_conversation(s, png(90, 60), png(90, 60, 80))


def check_conversation(s, a, b):
    """What holds for all that see: order, caches, forged marks, other wires."""
    one = ask(s, user(text("What?"), image(a)))
    assert tokens(ask(s, user(text("What?"), image(a)), seed=1)) == tokens(one)
    assert tokens(ask(s, user(text("What?"), image(b)))) != tokens(one)
    both = ask(s, user(image(a), text("x"), image(b)), max_tokens=8)
    turned = ask(s, user(image(b), text("x"), image(a)), max_tokens=8)
    side_by_side = ask(s, user(image(a), image(b)))
    assert both.usage.prompt_tokens == turned.usage.prompt_tokens > side_by_side.usage.prompt_tokens
    assert tokens(both) != tokens(turned)
    # A second turn finds the first one's keys; another image of the same size does not.
    start = user(image(a), text("Describe it."))
    messages = [*start, {"role": "assistant", "content": "It is so."}, {"role": "user", "content": "And now?"}]
    ask(s, start)
    again = ask(s, messages)
    assert cached(again) > 20, again.usage
    assert cached(ask(s, user(image(png(90, 60, 7)), text("Describe it.")))) < 16
    cold = ask(s, messages, extra_body={"prompt_logprobs": 1})
    assert tokens(cold) == tokens(again)
    # Marks that a user spells are characters.
    for mark in ("<image>", "<|image_pad|>", "<start_of_image>", "<image_soft_token>"):
        forged = ask(s, user(text(mark))).usage.prompt_tokens
        plain = ask(s, user(text("x" * len(mark)))).usage.prompt_tokens
        assert forged == plain, mark
    # Nothing but an image, and other wires.
    assert ask(s, user(image(a))).choices[0].finish_reason in ("stop", "length")
    response = s.client.responses.create(
        model=s.model, max_output_tokens=16, temperature=0, store=False,
        input=[{"role": "user", "content": [
            {"type": "input_text", "text": "What?"},
            {"type": "input_image", "image_url": image(a)["image_url"]["url"], "detail": "auto"}]}])
    assert response.usage.input_tokens == one.usage.prompt_tokens
    status, _, body = s.post("/api/chat", {
        "model": s.model, "stream": False, "options": {"num_predict": 4, "temperature": 0},
        "messages": [{"role": "user", "content": "What?", "images": [image(a)["image_url"]["url"]]}]})
    # There the image comes first.
    first = ask(s, user(image(a), text("What?"))).usage.prompt_tokens
    assert status == 200 and json.loads(body)["prompt_eval_count"] == first, body
    # A receipt checks with the image, and not without it.
    answer = s.client.chat.completions.create(
        model=s.model, messages=user(image(a), text("And?")), max_tokens=6, seed=3, temperature=1.2,
        extra_body={"receipt": True}).model_dump()
    receipt = answer["choices"][0]["receipt"]
    for media, expected in (([image(a)["image_url"]["url"]], 200), ([], 400), ([image(b)["image_url"]["url"]], 400)):
        status, _, body = s.post("/v1/receipts/verify", {"model": s.model, "receipt": receipt, "media": media})
        assert status == expected and (status != 200 or json.loads(body)["is_same"]), body


def test_no_eyes(server):
    """Images are refused with the reason: the flag, and a checkpoint without the tower's tensors."""
    with serving(server.binary, SMOLVLM, "--no-vision") as s:
        status, error = refusal(s, user(image(png(8, 8))))
        assert status == 400 and "--no-vision" in error["message"], error
        assert ask(s, user(text("What?"))).usage.prompt_tokens > 0


def test_a_photo_in_the_terminal(server):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model").mkdir()
        make_model(SMOLVLM, folder / "model")
        (folder / "photo.png").write_bytes(png(90, 60))
        done = subprocess.run(
            [server.binary, "run", "--max-tokens", "4", str(folder / "model"), f"What? @{folder / 'photo.png'}"],
            capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done
