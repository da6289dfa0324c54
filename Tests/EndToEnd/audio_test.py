"""Sound, end to end: WAV files through the SDK to the tiny multimodal golden."""

import base64
import io
import json
import math
import struct
import wave

from media_test import GOLDEN, ask, image, png, refusal, serving, text, tokens, user, verified

PLACE = "messages[0].content[0]"


def wav(seconds, rate=16000, channels=1, hertz=440, width=2):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        scale = 0.4 * (1 << (8 * width - 1))
        frames = bytearray()
        for n in range(int(seconds * rate)):
            value = int(scale * math.sin(2 * math.pi * hertz * n / rate)) + (128 if width == 1 else 0)
            frames += value.to_bytes(width, "little", signed=width > 1) * channels
        out.writeframes(bytes(frames))
    return file.getvalue()


def sound(data, format="wav"):
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": format}}


def soft(seconds):
    """Tokens of a sound: a frame every 10 ms but for the last, a token for every four."""
    return -(-((int(seconds * 16000) - 161) // 160 + 1) // 4)


def test_sounds(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with serving(server.binary) as s:
        check_counts_and_order(s)
        check_second_turn(s)
        check_other_wires(s)
        check_receipts(s)
        check_refusals(s)
        check_what_is_said(s)


def check_counts_and_order(s):
    a, b = wav(1.0), wav(1.0, hertz=900)
    alone = ask(s, user(text("What?")))
    assert "audio_tokens" not in alone.usage.prompt_tokens_details.model_dump(exclude_none=True)
    for seconds in (0.02, 1.0, 2.345, 30):
        one = ask(s, user(text("What?"), sound(wav(seconds))))
        assert one.usage.prompt_tokens == alone.usage.prompt_tokens + soft(seconds) + 2, seconds
        assert one.usage.prompt_tokens_details.audio_tokens == soft(seconds)
    one = ask(s, user(text("What?"), sound(a)))
    assert tokens(ask(s, user(text("What?"), sound(a)))) == tokens(one)
    assert tokens(ask(s, user(text("What?"), sound(b)))) != tokens(one)
    # Other rates, widths and numbers of channels of the same length have as many tokens.
    for options in ({"rate": 48000}, {"rate": 8000}, {"channels": 2, "rate": 44100}, {"width": 1}, {"width": 3}):
        answer = ask(s, user(text("What?"), sound(wav(1.0, **options))))
        assert answer.usage.prompt_tokens == one.usage.prompt_tokens, options
    # With an image beside it, either order.
    both = ask(s, user(sound(a), text("x"), image(png(100, 100), detail="low")))
    turned = ask(s, user(image(png(100, 100), detail="low"), text("x"), sound(a)))
    assert both.usage.prompt_tokens == turned.usage.prompt_tokens
    assert tokens(both) != tokens(turned)
    assert both.usage.prompt_tokens_details.audio_tokens == soft(1.0)
    # A stream agrees.
    chunks = list(s.lenient.chat.completions.create(
        model=s.model, max_tokens=4, temperature=0, stream=True, stream_options={"include_usage": True},
        messages=user(text("What?"), sound(a))))
    assert chunks[-1].usage.prompt_tokens == one.usage.prompt_tokens
    assert chunks[-1].usage.prompt_tokens_details.audio_tokens == soft(1.0)
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == (one.choices[0].message.content or "")
    # Text cannot write placeholders.
    forged = ask(s, user(text("<|audio|>"), sound(a)))
    assert forged.usage.prompt_tokens == one.usage.prompt_tokens - 5 + 9


def check_second_turn(s):
    messages = user(sound(wav(3.0, hertz=300)), text("What was that?"))
    first = ask(s, messages)
    assert first.usage.prompt_tokens_details.cached_tokens < 32
    messages += [{"role": "assistant", "content": first.choices[0].message.content or "-"},
                 {"role": "user", "content": "And now?"}]
    assert ask(s, messages).usage.prompt_tokens_details.cached_tokens >= 64
    # Another sound of the same length has the same tokens and none of the first one's keys.
    other = ask(s, user(sound(wav(3.0, hertz=301)), text("What was that?")))
    assert other.usage.prompt_tokens_details.cached_tokens < 32


def check_other_wires(s):
    data = wav(1.0)
    chat = ask(s, user(sound(data), text("What?")))
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "wav"}}
    body = {"model": s.model, "max_output_tokens": 16, "store": False, "input": [
        {"role": "user", "content": [part, {"type": "input_text", "text": "What?"}]}]}
    status, _, answer = s.post("/v1/responses", body)
    assert status == 200 and json.loads(answer)["usage"]["input_tokens"] == chat.usage.prompt_tokens, answer
    part["input_audio"]["format"] = "mp3"
    status, _, answer = s.post("/v1/responses", body)
    error = json.loads(answer)["error"]
    assert (status, error["param"]) == (400, "input[0].content[0].input_audio.format"), error
    request = {"model": s.model, "max_tokens": 4, "temperature": 0, "messages": user(
        {"type": "input_audio", "input_audio": {"data": "attachment:note", "format": "wav"}}, text("What?"))}
    parts = [("request", json.dumps(request).encode()), ("note", data)]
    form = b"".join(
        b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), body)
        for name, body in parts) + b"--B--\r\n"
    status, _, answer = s.post(
        "/v1/chat/completions", form, ["Content-Type: multipart/form-data; boundary=B"])
    assert status == 200, answer
    assert json.loads(answer)["usage"]["prompt_tokens"] == chat.usage.prompt_tokens
    assert json.loads(answer)["choices"][0]["message"]["content"] == chat.choices[0].message.content


def check_receipts(s):
    """A receipt has digests of sounds, as of images, and checks with the files alone."""
    a, b, picture = wav(1.0), wav(0.7, rate=44100, channels=2, hertz=900), png(60, 90)
    answer = s.client.chat.completions.create(
        model=s.model, messages=user(sound(a), text("And?"), image(picture, detail="low"), sound(b)), max_tokens=8, seed=3,
        temperature=1.2, extra_body={"receipt": True})
    receipt = answer.model_dump()["choices"][0]["receipt"]
    files = [base64.b64encode(data).decode() for data in (b, picture, a)]
    status, found = verified(s, receipt, *files)
    assert status == 200 and found["is_same"] and found["words"].startswith("all "), found
    status, found = verified(s, receipt, *files[1:])
    assert (status, found["error"]["param"]) == (400, "receipt") and "give them" in found["error"]["message"], found
    other = base64.b64encode(wav(1.0, hertz=441)).decode()
    status, found = verified(s, receipt, *files[:2], other)
    assert (status, found["error"]["param"]) == (400, "media[2]"), found
    receipt["media"].reverse()
    assert not verified(s, receipt, *files)[1].get("is_same")


def check_refusals(s):
    good = wav(0.5)
    floats = struct.pack("<4sI4s4sIHHIIHH4sI2f", b"RIFF", 44, b"WAVE", b"fmt ", 16, 3, 1, 16000, 64000, 4, 32, b"data",
                         8, 0.0, float("nan"))
    cases = [
        (b"ID3\x04\0\0", "MP3"), (b"fLaC\0\0\0\x22", "FLAC"), (b"OggS" + bytes(60), "Ogg"), (b"\0\0\0 ftypM4A ", "M4A"),
        (b"\x1aE\xdf\xa3", "WebM"), (b"FORM\0\0\0\0AIFF", "AIFF"), (b"", "not a WAV"), (good[:100], "only 56 are left"),
        (good[:30], "fmt "), (wav(30.01), "at most 30"), (wav(0.005), "at least 11"), (floats, "nan"),
        (good.replace(struct.pack("<I", 16000), struct.pack("<I", 100)), "sample rate is 100"),
    ]
    for data, words in cases:
        status, error = refusal(s, user(sound(data)))
        assert (status, error["param"]) == (400, PLACE + ".input_audio.data"), (words, status, error)
        assert words in error["message"], (words, error)
    for format in ("mp3", "flac", "m4a", "opus", "webm", "aiff"):
        status, error = refusal(s, user(sound(good, format)))
        assert (status, error["param"]) == (400, PLACE + ".input_audio.format"), error
        assert format in error["message"] and "wav" in error["message"], error
    status, error = refusal(s, user({"type": "input_audio", "input_audio": {"data": "%%", "format": "wav"}}))
    assert (status, error["param"]) == (400, PLACE + ".input_audio.data"), error
    status, error = refusal(s, [{"role": "system", "content": [sound(good)]}])
    assert (status, error["param"]) == (400, PLACE + ".type"), error


def check_what_is_said(s):
    assert json.loads(s.get("/v1/models")[2])["data"][0]["input_modalities"] == ["text", "image", "audio"]
    abilities = json.loads(s.get("/v1/capabilities")[2])["data"][0]
    assert abilities["modalities"]["input"] == ["text", "image", "audio"]
    assert abilities["sounds"] == {"formats": ["audio/wav"], "seconds": 30, "bytes": 32 << 20}


def test_models_without_sound_say_so(server):
    status, error = refusal(server, user(sound(wav(0.1))))
    assert (status, error["param"]) == (400, PLACE + ".type") and server.model in error["message"]
    if not GOLDEN.is_dir():
        return
    with serving(server.binary, "--no-audio") as s:
        status, error = refusal(s, user(sound(wav(0.1))))
        assert (status, error["param"]) == (400, PLACE + ".type") and "--no-audio" in error["message"]
        assert json.loads(s.get("/v1/models")[2])["data"][0]["input_modalities"] == ["text", "image"]
        assert json.loads(s.get("/v1/capabilities")[2])["data"][0]["sounds"] is None
