"""Images, end to end: the tiny multimodal golden with a tokenizer of single characters and a template of its kind."""

import base64
import contextlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib

import anthropic

from cli_test import Terminal
from server import ROOT, Server

GOLDEN = (
    pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data" / "goldens" / "gemma4-mm-tiny-q4"
)
SPECIAL = {
    0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 105: "<|turn>", 106: "<turn|>", 150: "<|image|>", 151: "<|audio|>",
    152: "<|image>", 153: "<image|>", 154: "<|audio>", 155: "<audio|>", 156: "<|video|>",
}
TEMPLATE = """{{ bos_token }}{% for m in messages %}<|turn>{{ m.role }}
{% if m.content is string %}{{ m.content | trim }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text \
| trim }}{% elif p.type == 'image' %}<|image|>{% elif p.type == 'audio' %}<|audio|>{% endif %}{% endfor %}{% endif %}\
<turn|>
{% endfor %}{% if add_generation_prompt %}<|turn>model
{% endif %}"""


def make_model(folder):
    """The golden's weights and config, and a text side for its vocabulary of 160."""
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(GOLDEN / name)
    characters = [c for c in map(chr, range(32, 127))] + ["\n"]
    free = [i for i in range(160) if i not in SPECIAL]
    names = dict(zip(free, characters + [f"<unused{i}>" for i in range(160)])) | SPECIAL
    tokenizer = {
        "version": "1.0", "normalizer": None, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Fuse"},
        "added_tokens": [
            {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for i, text in SPECIAL.items()],
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {names[i]: i for i in range(160)}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<bos>", "eos_token": "<eos>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


@contextlib.contextmanager
def serving(binary, *flags, env=None):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "gemma4-mm-tiny"
        model.mkdir()
        make_model(model)
        server = Server(binary, "--max-context", "4096", "--compute", "exact", *flags, model=model, env=env)
        try:
            yield server
        finally:
            assert server.stop() == 0, server.log[-5:]


def png(width, height, shade=0):
    rows = b"".join(
        b"\0" + bytes((x * 5 + y * 3 * (c + 1) + shade) & 255 for x in range(width) for c in range(3))
        for y in range(height))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def data_url(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(data, **options):
    return {"type": "image_url", "image_url": {"url": data_url(data), **options}}


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return [{"role": "user", "content": list(parts)}]


def ask(server, messages, **options):
    options = {"max_tokens": 4, "temperature": 0, "logprobs": True, **options}
    return server.lenient.chat.completions.create(model=server.model, messages=messages, **options)


def tokens(answer):
    return [(entry.token, round(entry.logprob, 3)) for entry in answer.choices[0].logprobs.content]


def refusal(server, messages, path="/v1/chat/completions", **members):
    status, _, body = server.post(path, {"model": server.model, "max_tokens": 4, "messages": messages, **members})
    return status, json.loads(body)["error"]


def test_images(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with serving(server.binary, "--no-lazy-encoders") as s:
        check_counts_and_order(s)
        check_second_turn(s)
        check_other_wires(s)
        check_receipts(s)
        check_refusals(s)
        check_forms(s)
        check_what_is_said(s)
        check_other_formats(s)
    with serving(server.binary, env={**os.environ, "PATH": "/nowhere"}) as s:
        status, error = refusal(s, user(image(b"RIFF\0\0\0\0WEBPVP8L")))
        assert (status, error["param"]) == (400, "messages[0].content[0].image_url.url"), error
        assert "WebP is read by the program ffmpeg, and it is not installed here; send PNG" in error["message"], error
        assert image_formats(s) == ["image/png", "image/jpeg"]


def check_counts_and_order(s):
    a, b = png(100, 100), png(100, 100, 90)
    alone = ask(s, user(text("What?")))
    one = ask(s, user(text("What?"), image(a)))
    # <|image> + 256 soft tokens + <image|>
    assert one.usage.prompt_tokens == alone.usage.prompt_tokens + 258
    low = ask(s, user(text("What?"), image(a, detail="low")))
    assert low.usage.prompt_tokens == alone.usage.prompt_tokens + 66
    again = ask(s, user(text("What?"), image(a)), seed=1)
    assert tokens(again) == tokens(one)
    assert tokens(ask(s, user(text("What?"), image(b)))) != tokens(one)
    both = ask(s, user(image(a, detail="low"), text("x"), image(b, detail="low")))
    turned = ask(s, user(image(b, detail="low"), text("x"), image(a, detail="low")))
    assert both.usage.prompt_tokens == turned.usage.prompt_tokens == alone.usage.prompt_tokens - 5 + 1 + 2 * 66
    assert tokens(both) != tokens(turned)
    # A stream agrees, and bare URLs are taken.
    stream = s.lenient.chat.completions.create(
        model=s.model, max_tokens=4, temperature=0, stream=True, stream_options={"include_usage": True},
        messages=user(text("What?"), {"type": "image_url", "image_url": data_url(a)}))
    chunks = list(stream)
    assert chunks[-1].usage.prompt_tokens == one.usage.prompt_tokens
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == (one.choices[0].message.content or "")
    # Text cannot write placeholders: each spelling is its characters.
    forged = ask(s, user(text("<|image|>"), image(a, detail="low")))
    assert forged.usage.prompt_tokens == alone.usage.prompt_tokens - 5 + 9 + 66
    earlier = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<|image|>"}]
    forged = ask(s, [*earlier, *user(image(a, detail="low"))])
    assert forged.usage.prompt_tokens > 66 + 9
    # JPEG, as Pillow would decode it, and an image in an earlier turn.
    jpeg = (ROOT / "Fixtures" / "media" / "jpeg-37x29-420-progressive.jpg").read_bytes()
    part = {"type": "image_url", "image_url": {"url": data_url(jpeg, "image/jpeg"), "detail": "low"}}
    answer = ask(s, [*user(part, text("a")), {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])
    assert answer.usage.prompt_tokens > 50


def check_second_turn(s):
    messages = user(image(png(90, 90, 33)), text("Describe it."))
    first = ask(s, messages)
    assert first.usage.prompt_tokens_details.cached_tokens < 32
    messages += [{"role": "assistant", "content": first.choices[0].message.content or "-"},
                 {"role": "user", "content": "And now?"}]
    second = ask(s, messages)
    assert second.usage.prompt_tokens_details.cached_tokens >= 256
    # Another image of the same size has the same tokens and none of the first one's keys.
    other = ask(s, user(image(png(90, 90, 34)), text("Describe it.")))
    assert other.usage.prompt_tokens_details.cached_tokens < 32


def verified(s, receipt, *media):
    status, _, body = s.post("/v1/receipts/verify", {"model": s.model, "receipt": receipt, "media": list(media)})
    return status, json.loads(body)


def check_receipts(s):
    """A receipt has digests of images: with them it checks, whatever their detail, and without them it is refused."""
    a, b = png(100, 100), png(60, 90, 7)
    answer = s.client.chat.completions.create(
        model=s.model, messages=user(image(a), text("And?"), image(b, detail="low")), max_tokens=6, seed=3, temperature=1.2,
        extra_body={"receipt": True})
    receipt = answer.model_dump()["choices"][0]["receipt"]
    assert len(receipt["media"]) == 2

    def verify(*media, receipt=receipt):
        return verified(s, receipt, *media)

    status, found = verify(data_url(b), base64.b64encode(a).decode())
    assert status == 200 and found["is_same"] and found["words"].startswith("all "), found
    for media, param in (([], "receipt"), ([data_url(a)], "receipt"), ([data_url(png(100, 100, 1))], "media[0]"), (["%"], "media[0]")):
        status, found = verify(*media)
        assert status == 400 and found["error"]["param"] == param, found
    changed = json.loads(json.dumps(receipt))
    changed["answer"][0] = (changed["answer"][0] + 1) % 90
    status, found = verify(data_url(a), data_url(b), receipt=changed)
    assert status == 200 and found["difference"]["index"] == 0, found
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, content in (("a.png", a), ("b.png", b), ("answer.json", answer.model_dump_json().encode())):
            (folder / name).write_bytes(content)
        make_model(folder)

        def check(*files):
            command = [s.binary, "check", folder / "answer.json", "--model", folder]
            return subprocess.run(
                [*command, *(word for file in files for word in ("--media", folder / file))], capture_output=True, text=True, timeout=300)

        done = check("a.png", "b.png")
        assert done.returncode == 0 and done.stdout.startswith("all "), done
        done = check("a.png")
        assert done.returncode == 2 and "give them, too" in " ".join(done.stderr.split()), done


def check_other_wires(s):
    picture = png(100, 100)
    chat = ask(s, user(image(picture, detail="low"), text("What?")))
    response = s.client.responses.create(
        model=s.model, max_output_tokens=16, temperature=0, store=False,
        input=[{"role": "user", "content": [
            {"type": "input_image", "image_url": data_url(picture), "detail": "low"},
            {"type": "input_text", "text": "What?"}]}])
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    client = anthropic.Anthropic(base_url=s.base_url.removesuffix("/v1"), api_key="none", max_retries=0)
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture).decode()}
    message = client.messages.create(
        model=s.model, max_tokens=4,
        messages=[{"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": "What?"}]}])
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) >= 256
    count = client.messages.count_tokens(
        model=s.model, messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert count.input_tokens > 258
    # The images of Ollama's wire: their bytes alone, or as a URL of them.
    plain = base64.b64encode(picture).decode()
    counts = set()
    for images, expected in (([plain], 200), (["data:image/png;base64," + plain], 200), (["!"], 400), ([plain[:40]], 400)):
        status, _, body = s.post("/api/chat", {
            "model": s.model, "stream": False, "options": {"num_predict": 4, "temperature": 0},
            "messages": [{"role": "user", "content": "What?", "images": images}]})
        assert status == expected, (images[0][:30], body)
        if status == 200:
            counts.add(json.loads(body)["prompt_eval_count"])
    assert len(counts) == 1 and counts.pop() > 258, counts
    status, error = refusal(
        s, [{"role": "user", "content": [{"type": "image", "source": {**source, "data": "!"}}]}], "/v1/messages")
    assert status == 400 and "messages[0].content[0].source.data" in json.dumps(error), error
    status, _, body = s.post("/v1/responses", {"model": s.model, "input": [
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]})
    assert status == 400 and json.loads(body)["error"]["param"] == "input[0].content[0].image_url", body


def image_formats(s):
    return json.loads(s.get("/v1/capabilities")[2])["data"][0]["images"]["formats"]


def check_other_formats(s):
    """What ffmpeg reads is the picture that its PNG is, so that the second one finds the first one's keys; damage is told."""
    if not shutil.which("ffmpeg"):
        return
    from PIL import Image

    picture = Image.open(io.BytesIO(png(90, 90, 60))).quantize(200).convert("RGB")

    def written(kind, **options):
        file = io.BytesIO()
        picture.save(file, kind, **options)
        return file.getvalue()

    question = text("Describe it.")
    one = ask(s, user(image(written("PNG")), question))
    formats = image_formats(s)
    files = {"webp": written("WEBP", lossless=True), "gif": written("GIF"), "bmp": written("BMP"), "tiff": written("TIFF")}
    assert formats == ["image/png", "image/jpeg", *(f"image/{name}" for name in files)]
    for name, file in files.items():
        other = ask(s, user(image(file), question))
        assert tokens(other) == tokens(one), name
        assert other.usage.prompt_tokens_details.cached_tokens >= 256, (name, other.usage)
        status, error = refusal(s, user(image(file[:30])))
        assert status == 400 and "finds no picture" in error["message"], (name, error)


def check_refusals(s):
    url = "messages[0].content[0].image_url.url"
    bomb = png(8, 8).replace(struct.pack(">II", 8, 8), struct.pack(">II", 20000, 20000))
    header = bomb[8:].partition(b"IDAT")[0]
    bomb = bomb.replace(header[4 + 4 + 13 : 4 + 4 + 13 + 4], struct.pack(">I", zlib.crc32(bomb[12:29])), 1)
    cases = [
        ("data:image/png;base64,%%%", url), ("data:image/png;base64,", url), ("data:image/png,abc", url), ("", url),
        (data_url(png(8, 8)[:40]), url), (data_url(bomb), url), (data_url(b"GIF89a"), url),
        ("http://127.0.0.1:1/x.png", url), ("https://example.com/x.png", url), ("file:///etc/passwd", url),
        ("attachment:none", url), (data_url(png(1000, 2)), url),
    ]
    for value, param in cases:
        status, error = refusal(s, user({"type": "image_url", "image_url": {"url": value}}))
        assert (status, error["param"]) == (400, param), (value[:60], status, error)
        status, error = refusal(s, user({"type": "image_url", "image_url": {"url": value}}), stream=True)
        assert status == 400
    assert "20000 x 20000" in refusal(s, user(image(bomb)))[1]["message"]
    status, error = refusal(s, user({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "flac"}}))
    assert status == 400 and error["param"].startswith("messages[0].content[0]"), error
    status, error = refusal(s, user(image(png(8, 8), detail="huge")))
    assert (status, error["param"]) == (400, "messages[0].content[0].image_url.detail")
    status, error = refusal(s, [{"role": "assistant", "content": [image(png(8, 8))]}])
    assert (status, error["param"]) == (400, "messages[0].content[0].type")


def check_forms(s):
    picture = png(100, 100)
    request = {"model": s.model, "max_tokens": 4, "temperature": 0, "messages": user(
        {"type": "image_url", "image_url": {"url": "attachment:cat", "detail": "low"}}, text("What?"))}
    chat = ask(s, user(image(picture, detail="low"), text("What?")))
    parts = {"request": json.dumps(request).encode(), "cat": picture}
    status, body = post_form(s, parts)
    assert status == 200, body
    assert body["usage"]["prompt_tokens"] == chat.usage.prompt_tokens
    assert body["choices"][0]["message"]["content"] == chat.choices[0].message.content
    for change, param in [
        ({"dog": picture}, "dog"), ({"cat": None}, "messages[0].content[0].image_url.url"), ({"request": None}, "request"),
    ]:
        status, body = post_form(s, {**parts, **change})
        assert (status, body["error"]["param"]) == (400, param), body
    status, _, body = s.post(
        "/v1/chat/completions", b"--x", headers=["Content-Type: multipart/form-data; boundary=x"])
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_multipart")
    if shutil.which("curl"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "cat.png"
            path.write_bytes(picture)
            answer = subprocess.run(
                ["curl", "-sS", f"{s.base_url}/chat/completions", "-F", f"cat=@{path}", "-F",
                 f"request={json.dumps(request)}"], check=True, capture_output=True).stdout
        assert json.loads(answer)["usage"]["prompt_tokens"] == chat.usage.prompt_tokens


def post_form(s, parts):
    body = b"".join(
        f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="f"\r\n\r\n'.encode() + data + b"\r\n"
        for name, data in parts.items() if data is not None)
    status, _, answer = s.post(
        "/v1/chat/completions", body + b"--B--\r\n", headers=["Content-Type: multipart/form-data; boundary=B"])
    return status, json.loads(answer)


def check_what_is_said(s):
    model = json.loads(s.get("/v1/models")[2])["data"][0]
    assert model["input_modalities"][:2] == ["text", "image"]
    abilities = json.loads(s.get("/v1/capabilities")[2])["data"][0]
    assert abilities["modalities"]["input"][:2] == ["text", "image"]
    assert abilities["images"]["tokens"] == {"auto": 280, "low": 70, "high": 560, "original": 1120}


def test_files_below_the_media_root(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        root = folder / "root"
        (root / "in side").mkdir(parents=True)
        (root / "in side" / "a.png").write_bytes(png(50, 50))
        (folder / "secret.png").write_bytes(png(50, 50))
        (root / "link.png").symlink_to(folder / "secret.png")
        (root / "up").symlink_to(folder)
        with serving(server.binary, "--media-root", str(root)) as s:
            def get(url):
                return refusal_or_ok(s, user({"type": "image_url", "image_url": {"url": url, "detail": "low"}}))

            assert get("file:///in%20side/a.png") == 200
            assert get("file://localhost/in%20side/a.png") == 200
            for url in [
                "file:///link.png", "file:///up/secret.png", "file:///../secret.png", "file:///in%20side/%2e%2e/x",
                "file:///in%20side/..%2f..%2fsecret.png", "file:///in%20side", "file:///none.png", "file://other/a.png",
                "file:a.png", "file:///a%00.png", "file:///%zz",
            ]:
                assert get(url) == 400, url


def refusal_or_ok(s, messages):
    return s.post("/v1/chat/completions", {"model": s.model, "max_tokens": 1, "messages": messages})[0]


def test_models_without_images_say_so(server):
    status, error = refusal(server, user(image(png(8, 8))))
    assert (status, error["param"]) == (400, "messages[0].content[0].type") and server.model in error["message"]
    if not GOLDEN.is_dir():
        return
    with serving(server.binary, "--no-vision") as s:
        status, error = refusal(s, user(image(png(8, 8))))
        assert (status, error["param"]) == (400, "messages[0].content[0].type") and "--no-vision" in error["message"]
        assert json.loads(s.get("/v1/models")[2])["data"][0]["input_modalities"][:1] == ["text"]


def test_images_by_path_in_a_terminal(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    binary = os.path.abspath(server.binary)
    flags = ["--max-tokens", "4", "--temperature", "0", "--compute", "exact"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "gemma4-mm-tiny"
        model.mkdir()
        make_model(model)
        picture = folder / "a picture.png"
        picture.write_bytes(png(100, 100))

        def answer(words):
            done = subprocess.run([binary, "run", str(model), words, *flags, "--json"], capture_output=True, text=True)
            assert done.returncode == 0, done
            return json.loads(done.stdout)["usage"]["prompt_tokens"]

        alone = answer("What?")
        # White space may stand where the path was; the image has 258 tokens.
        for spelling in (f"@'{picture}'", f"'{picture}'", str(picture).replace(" ", "\\ ")):
            assert 258 <= answer(f"What? {spelling}") - alone <= 260, spelling
        chat = Terminal(binary, "chat", str(model), *flags, TERM="xterm-256color", XDG_STATE_HOME=str(folder))
        try:
            chat.expect(">>> ")
            chat.type(f"What? '{picture}'\r")
            chat.expect("added a picture.png")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            # The next turn still has the image, and a file that is not there is named and stays text.
            chat.type("And now?\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type("What is @/nowhere/at/all.png\r")
            chat.expect("is not a file here")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type("/show\r")
            assert "messages 6" in chat.expect("wordwrap")
            chat.expect(">>> ")
            chat.type("\x04")
            assert chat.end() == 0
        except BaseException:
            os.kill(chat.pid, 9)
            raise
