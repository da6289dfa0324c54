"""Decoders and resamplers against Pillow and soxr, on the fixtures and on files that are made anew from fixed seeds."""

import io
import json
import math
import pathlib
import random
import struct
import subprocess
import tempfile
import warnings

from server import ROOT

FIXTURES = ROOT / "Fixtures" / "media"


def media(binary, path, *flags):
    return subprocess.run(
        [binary, "media", "--file", path, *flags], capture_output=True, text=True, errors="replace", timeout=60)


def picture(source, mode):
    """Smooth colours with noise: every filter and coefficient has work."""
    from PIL import Image

    width, height = source.choice([(1, 1), (2, 9), (8, 8), (16, 17), (source.randrange(1, 140), source.randrange(1, 140))])
    size = (source.randrange(1, 9), source.randrange(1, 9))
    bands = []
    for _ in Image.new("RGB" if mode in ("1", "P") else mode, (1, 1)).getbands():
        smooth = Image.frombytes("L", size, source.randbytes(size[0] * size[1])).resize((width, height), Image.BICUBIC)
        noise = Image.frombytes("L", (width, height), source.randbytes(width * height))
        bands.append(Image.blend(smooth, noise, source.choice([0, 0.05, 0.4])))
    if mode in ("1", "P"):
        colours = Image.merge("RGB", bands)
        return colours.convert("1") if mode == "1" else colours.quantize(source.choice([2, 4, 15, 100, 256]))
    return Image.merge(mode, bands)


def made_jpeg(source):
    mode = source.choice(["L", "RGB", "RGB", "RGB", "CMYK"])
    options = {"quality": source.randrange(1, 101), "progressive": source.random() < 0.5, "optimize": source.random() < 0.3}
    if mode == "RGB":
        options |= {"subsampling": source.randrange(3), "keep_rgb": source.random() < 0.1}
        if options["keep_rgb"]:
            options["subsampling"] = 0
    if source.random() < 0.3:
        options["restart_marker_blocks"] = source.randrange(1, 20)
    return saved(picture(source, mode), "JPEG", options)


def made_png(source):
    options = {"compress_level": source.randrange(10)}
    image = picture(source, source.choice(["1", "L", "LA", "P", "P", "RGB", "RGBA"]))
    if image.mode == "P" and source.random() < 0.5:
        options["transparency"] = source.randrange(2)
    return saved(image, "PNG", options)


def saved(image, format, options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def as_pillow(data):
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        # That a palette's transparency is lost is meant.
        warnings.simplefilter("ignore", UserWarning)
        return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def check_image(binary, folder, name, data, resized):
    from PIL import Image

    path, out = folder / "image", folder / "raw"
    path.write_bytes(data)
    run = media(binary, path, "--raw", out, *(["--resized", "--image-tokens", "70"] if resized else []))
    expected = as_pillow(data)
    assert run.returncode == 0, (name, run.stderr)
    facts = json.loads(run.stdout)
    assert (facts["width"], facts["height"]) == expected.size, name
    if resized:
        expected = expected.resize((facts["resized_width"], facts["resized_height"]), Image.BICUBIC)
    assert out.read_bytes() == expected.tobytes(), (name, expected.size)


def test_images_are_those_of_Pillow(server, count=120):
    source = random.Random(20)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Pillow makes white of 16-bit grey.
        files = [p for p in sorted(FIXTURES.glob("*.[jp]*g")) if "png-0-16" not in p.name]
        for path in files:
            check_image(server.binary, folder, path.name, path.read_bytes(), False)
        for number in range(count):
            data = made_jpeg(source) if number % 2 else made_png(source)
            check_image(server.binary, folder, number, data, number % 3 == 0)
    return f"{len(files)} fixtures, {count} made"


def test_damaged_images_and_sounds_are_refused_or_read(server, count=120):
    """Whatever a file holds, the end is a picture or a line of words, and never that of the process."""
    source = random.Random(21)
    read = 0
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "file"
        for number in range(count):
            make = (made_png, made_jpeg, lambda source: wav(source, *made_signal(source)))[number % 3]
            data = bytearray(make(source))
            for _ in range(source.choice([1, 1, 5])):
                place = source.randrange(len(data))
                match source.randrange(4):
                    case 0: data[place] ^= 1 << source.randrange(8)
                    case 1: data[place:place + 4] = source.randbytes(4)
                    case 2: del data[place:]
                    case 3: data[place:place] = data[:source.randrange(64)]
                if not data:
                    break
            path.write_bytes(data)
            run = media(server.binary, path)
            assert run.returncode in (0, 2), (number, run.returncode, run.stderr[-300:])
            assert run.returncode == 0 or (run.stderr.startswith("mlxserve: ") and run.stderr.count("\n") == 1), run.stderr
            read += run.returncode == 0
    assert 0 < read < count
    return f"{read} of {count} could be read"


# Sounds.

RATES = [1000, 8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 17001, 63999]


def made_signal(source):
    """A rate, and half a second of sines below the band edge of both rates."""
    rate = source.choice(RATES)
    edge = 0.45 * min(rate, 16000)
    waves = [(source.uniform(20, edge), source.uniform(0, 2 * math.pi)) for _ in range(6)]
    return rate, [
        sum(math.sin(2 * math.pi * hertz * n / rate + phase) for hertz, phase in waves) * 0.15 for n in range(rate // 2)]


def wav(source, rate, samples, width=None, channels=1):
    """PCM of a width in bytes, or 32-bit floats for width 0."""
    width = source.choice([0, 2, 3, 4]) if width is None else width
    frame = channels * (width or 4)
    if width:
        scale = (1 << (8 * width - 1)) - 1
        body = b"".join(round(x * scale).to_bytes(width, "little", signed=True) * channels for x in samples)
    else:
        body = b"".join(struct.pack("<f", x) * channels for x in samples)
    head = struct.pack("<HHIIHH", 1 if width else 3, channels, rate, rate * frame, frame, 8 * (width or 4))
    return (b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data"
            + struct.pack("<I", len(body)) + body)


def test_sounds_are_those_of_soxr(server):
    import numpy
    import soxr

    source = random.Random(22)
    worst = math.inf
    with tempfile.TemporaryDirectory() as name:
        path, out = pathlib.Path(name) / "sound.wav", pathlib.Path(name) / "raw"
        for number in range(2 * len(RATES)):
            rate, samples = made_signal(source)
            width = (0, 2, 3, 4)[number % 4]
            path.write_bytes(wav(source, rate, samples, width, channels=1 + number % 2))
            run = media(server.binary, path, "--raw", out)
            assert run.returncode == 0, run.stderr
            found = numpy.frombuffer(out.read_bytes(), "<f4").astype(float)
            expected = soxr.resample(numpy.array(samples), rate, 16000, quality="VHQ")
            assert abs(len(found) - len(expected)) <= 1, (rate, len(found), len(expected))
            # At both ends filters reach beyond the input.
            margin = 100 * 16000 // min(rate, 16000)
            inner = slice(margin, min(len(found), len(expected)) - margin)
            error = found[inner] - expected[inner]
            decibels = 10 * math.log10(numpy.mean(expected[inner] ** 2) / max(numpy.mean(error ** 2), 1e-30))
            worst = min(worst, decibels)
            assert decibels > 60, (rate, width, decibels)
    return f"at least {worst:.0f} dB"
