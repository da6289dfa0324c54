"""Transcripts, end to end: the SDK, every format, streams, refusals and the command line, with a model that writes the same
two sentences of every window that is not silent."""

import io
import json
import math
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import wave

import openai

from audio_test import wav
from embeddings_test import served
from openapi_test import document, problems
from server import DEMO, ROOT

SPEECH = ROOT / "Fixtures" / "speech" / "demo"
TEXT = "Hello world. Again."


def file(data, name="a.wav"):
    return (name, data, "audio/wav")


def create(s, data, **options):
    return s.client.audio.transcriptions.create(file=file(data), model="demo", **options)


def refusal(call, *args, **options):
    try:
        call(*args, **options)
    except openai.APIStatusError as error:
        return error.status_code, error.body
    raise AssertionError("not refused")


def form(s, path, *parts):
    """A form by hand: name, value, and a file's name or None."""
    mark = b"mark-of-the-test"
    body = b""
    for name, value, filename in parts:
        body += b"--" + mark + b'\r\nContent-Disposition: form-data; name="' + name.encode() + b'"'
        if filename:
            body += b'; filename="' + filename.encode() + b'"'
        body += b"\r\n\r\n" + value + b"\r\n"
    body += b"--" + mark + b"--\r\n"
    return s.post(path, body, ["Content-Type: multipart/form-data; boundary=" + mark.decode()])


def noise_and_silence(seconds, silence):
    sound = wave.open(io.BytesIO(wav(seconds)))
    out = io.BytesIO()
    with wave.open(out, "wb") as target:
        target.setparams(sound.getparams())
        target.writeframes(sound.readframes(sound.getnframes()) + bytes(2 * 16000 * silence))
    return out.getvalue()


def test_every_format_is_what_the_sdk_types(server):
    with served(server, models=(SPEECH,)) as s:
        sound = wav(3.21)
        plain = create(s, sound)
        assert plain.text == TEXT and plain.usage.type == "duration" and plain.usage.seconds == 4
        assert create(s, sound, response_format="text") == TEXT + "\n"
        srt = create(s, sound, response_format="srt")
        assert srt == ("1\n00:00:00,000 --> 00:00:01,200\nHello world.\n\n2\n00:00:01,200 --> 00:00:02,000\nAgain.\n\n")
        vtt = create(s, sound, response_format="vtt")
        assert vtt == (
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.200\nHello world.\n\n00:00:01.200 --> 00:00:02.000\nAgain.\n\n")
        whole = create(s, sound, response_format="verbose_json")
        assert (whole.language, whole.duration, whole.text, whole.words) == ("english", 3.21, TEXT, None)
        assert [(x.id, x.start, x.end, x.text) for x in whole.segments] == [
            (0, 0, 1.2, " Hello world."), (1, 1.2, 2, " Again.")]
        assert whole.segments[0].avg_logprob > -0.1 and whole.segments[0].no_speech_prob < 0.1
        for granularities in ["word"], ["segment"], ["word", "segment"]:
            one = create(s, sound, response_format="verbose_json", timestamp_granularities=granularities)
            assert (one.words is not None) == ("word" in granularities)
            assert (one.segments is not None) == ("segment" in granularities)
            if one.words:
                assert [word.word for word in one.words] == ["Hello", "world.", "Again."]
                times = [t for word in one.words for t in (word.start, word.end)]
                assert times == sorted(times) and 0 <= times[0] and times[-1] <= 3.21
        logprobs = create(s, sound, include=["logprobs"]).logprobs
        assert b"".join(bytes(int(b) for b in x.bytes) for x in logprobs).decode() == " Hello world. Again."
        assert all(-0.1 < x.logprob <= 0 for x in logprobs)
        english = s.client.audio.translations.create(file=file(sound), model="demo", response_format="verbose_json")
        assert english.language == "english" and english.text.endswith("Again.")
        answers = document(s)["paths"]["/v1/audio/transcriptions"]["post"]["responses"]["200"]["content"]
        for options in {}, {"response_format": "verbose_json"}, {"include": ["logprobs"]}:
            answer = s.lenient.audio.transcriptions.with_raw_response.create(
                file=file(sound), model="demo", **options).text
            assert not problems(s, answers["application/json"]["schema"], json.loads(answer)), answer


def test_streams_end_in_the_whole_text(server):
    with served(server, models=(SPEECH,)) as s:
        for format in "json", "text":
            events = list(create(s, wav(40), stream=True, response_format=format))
            deltas = [e for e in events if e.type == "transcript.text.delta"]
            assert len(deltas) == 4 and events[-1].type == "transcript.text.done"
            assert "".join(e.delta for e in deltas) == events[-1].text
            assert events[-1].text.split() == (TEXT + " " + TEXT).split()
            assert events[-1].usage.output_tokens == 34
        events = list(create(s, wav(2), stream=True, include=["logprobs"]))
        assert len(events[-1].logprobs) == sum(len(e.logprobs) for e in events[:-1])


def test_long_sounds_silence_and_other_rates(server):
    with served(server, models=(SPEECH,)) as s:
        assert create(s, wav(65)).text == " ".join([TEXT] * 3)
        # Nothing is written of silence, wherever it stands.
        assert create(s, noise_and_silence(0, 75)).text == ""
        assert create(s, noise_and_silence(20, 100)).text == TEXT
        assert create(s, wav(3, rate=44100, channels=2)).text == TEXT
        assert create(s, wav(3, rate=8000, width=1)).text == TEXT
        again = [create(s, wav(3), temperature=0.5, extra_body={"seed": 3}).text for _ in range(2)]
        assert again[0] == again[1]
        assert create(s, wav(3), prompt="word " * 1000).text is not None


def test_languages_names_and_lists(server):
    with served(server, models=(SPEECH,)) as s:
        sound = wav(2)
        for language in "de", "German", "EN", "english":
            create(s, sound, language=language)
        status, body = refusal(create, s, sound, language="xx")
        assert status == 400 and body["param"] == "language" and "xx" in body["message"]
        for name in "whisper-1", "gpt-4o-transcribe":
            assert s.client.audio.transcriptions.create(file=file(sound), model=name).text == TEXT
        both = form(s, "/v1/audio/transcriptions", ("file", sound, None), ("model", b"demo", None),
                    ("response_format", b"verbose_json", None), ("timestamp_granularities", b"word", None),
                    ("timestamp_granularities[]", b"segment", None), ("hotwords", b"x", None))
        answer = json.loads(both[2])
        assert both[0] == 200 and answer["words"] and answer["segments"], both
        assert both[1]["x-mlxserve-ignored"] == "hotwords"


def test_what_is_refused_is_named(server):
    with served(server, models=(SPEECH,)) as s:
        sound = wav(2)
        cases = [
            (dict(response_format="diarized_json"), "response_format"),
            (dict(timestamp_granularities=["word"]), "timestamp_granularities"),
            (dict(response_format="verbose_json", timestamp_granularities=["letter"]), "timestamp_granularities"),
            (dict(response_format="srt", stream=True), "stream"),
            (dict(response_format="text", include=["logprobs"]), "include"),
            (dict(temperature=3), "temperature"),
            (dict(known_speaker_names=["a"]), "known_speaker_names"),
        ]
        for options, param in cases:
            status, body = refusal(create, s, sound, **options)
            assert status == 400 and body["param"] == param, (options, body)
        for data, code in [(b"", "invalid_value"), (sound[:44], "invalid_value"), (wav(0), "audio_too_short"), (b"hello " * 100, "invalid_value"),
                           (wav(0.05), "audio_too_short"), (b"ID3" + bytes(200), "invalid_value")]:
            status, body = refusal(create, s, data)
            assert (status, body["param"], body["code"]) == (400, "file", code), body
        assert form(s, "/v1/audio/transcriptions", ("model", b"demo", None))[0] == 400
        assert s.post("/v1/audio/transcriptions", {"model": "demo"})[0] == 400
        for call in (
            lambda: s.client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "hi"}]),
            lambda: s.client.completions.create(model="demo", prompt="hi"),
            lambda: s.client.responses.create(model="demo", input="hi"),
            lambda: s.client.embeddings.create(model="demo", input="hi"),
        ):
            status, body = refusal(call)
            assert status == 400 and "transcriptions" in body["message"], body
        model = s.client.models.retrieve("demo")
        assert model.task == "transcribe" and model.input_modalities == ["audio"]
        about = json.loads(s.get("/v1/capabilities")[2])["data"][0]
        assert about["transcription"]["languages"] == ["de", "en"] and about["chat"] is False
    status, body = refusal(
        server.client.audio.transcriptions.create, file=file(wav(2)), model=server.model)
    assert status == 400 and "does not transcribe" in body["message"], body


def test_beside_a_chat_model_and_cancelled(server):
    with served(server, "--test-hooks", "--step-delay-ms", "20", models=(DEMO, f"speech={SPEECH}")) as s:
        body = wav(600)
        started = time.monotonic()

        name = "speech"
        try:
            s.client.with_options(timeout=1.0).audio.transcriptions.create(file=file(body), model=name)
        except openai.APITimeoutError:
            pass
        # The next one does not wait for the ten minutes of the one that has left.
        assert s.client.audio.transcriptions.create(file=file(wav(2)), model=name).text == TEXT
        assert time.monotonic() - started < 30
        assert s.chat("Hello!", max_tokens=4).choices[0].message.content


def test_the_command_line(server):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in "a.wav", "b.wav":
            (folder / name).write_bytes(wav(33))

        def run(*words):
            return subprocess.run(
                [server.binary, "transcribe", *map(str, words), "--model", str(SPEECH)], capture_output=True, text=True,
                timeout=60)

        plain = run(folder / "a.wav")
        assert plain.returncode == 0 and plain.stdout.split() == (TEXT + " " + TEXT).split(), plain
        both = run(folder / "a.wav", folder / "b.wav", "--format", "srt", "--beside")
        assert both.returncode == 0 and both.stdout == "", both
        assert (folder / "a.srt").read_text() == (folder / "b.srt").read_text()
        assert "00:00:30,000 --> 00:00:31,200" in (folder / "a.srt").read_text()
        out = run(folder / "a.wav", "--format", "json", "--words", "--output", folder / "out.json")
        answer = json.loads((folder / "out.json").read_text())
        assert out.returncode == 0 and answer["language"] == "en" and answer["segments"][0]["words"], answer
        assert run(folder / "missing.wav").returncode != 0
        (folder / "c.txt").write_text("no sound")
        wrong = run(folder / "c.txt")
        assert wrong.returncode != 0 and "c.txt" in wrong.stderr, wrong
        chat = subprocess.run(
            [server.binary, "transcribe", folder / "a.wav", "--model", str(DEMO)], capture_output=True, text=True)
        assert chat.returncode != 0 and "Whisper" in chat.stderr, chat
