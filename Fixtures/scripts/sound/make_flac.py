"""Makes Fixtures/sound/flac: small WAV files and what the program `flac` makes of them, one for each way to code a channel."""

import math
import pathlib
import random
import struct
import subprocess
import wave

OUT = pathlib.Path(__file__).resolve().parents[2] / "sound" / "flac"
draw = random.Random(3)


def tone(n, hertz, rate, height=1.0):
    return height * math.sin(2 * math.pi * hertz * n / rate)


def write(name, rate, width, channels, flags, frames, sample):
    scale = (1 << (8 * width - 1)) - 1
    data = bytearray()
    for n in range(frames):
        for x in sample(n):
            value = max(-scale - 1, min(scale, round(x * scale)))
            data += (value + 128).to_bytes(1, "little") if width == 1 else value.to_bytes(width, "little", signed=True)
    with wave.open(str(OUT / f"{name}.wav"), "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        out.writeframes(bytes(data))
    subprocess.run(["flac", "--silent", "--force", "--no-padding", "--no-seektable", *flags, "-o", OUT / f"{name}.flac",
                    OUT / f"{name}.wav"], check=True)


def noise(height=1.0):
    return height * draw.uniform(-1, 1)


OUT.mkdir(parents=True, exist_ok=True)
write("lpc", 16000, 2, 1, ["-8"], 5000, lambda n: [tone(n, 300 + n / 20, 16000, 0.5)])
write("fixed", 16000, 2, 1, ["-0", "-l", "0"], 3000, lambda n: [tone(n, 200, 16000, 0.5) + noise(0.001)])
write("verbatim", 16000, 2, 1, ["-5"], 1500, lambda n: [noise()])
write("constant", 8000, 1, 1, ["-5"], 4000, lambda n: [0.25])
write("wasted", 16000, 2, 1, ["-8"], 2000, lambda n: [(round(tone(n, 250, 16000, 0.9) * 100) * 256) / 32767])
write("middle", 44100, 2, 2, ["-8"], 3000,
      lambda n: (lambda x, d: [x + d, x - d])(tone(n, 440, 44100, 0.5), noise(0.01)))
write("left", 44100, 2, 2, ["-8"], 3000, lambda n: (lambda x: [x, x + noise(0.0003)])(tone(n, 440, 44100, 0.5)))
write("right", 44100, 2, 2, ["-8"], 3000,
      lambda n: (lambda x: [x + noise(0.0003), x])(tone(n, 440, 44100, 0.5) + noise(0.02)))
write("deep", 48000, 3, 2, ["-8"], 2000, lambda n: [tone(n, 500, 48000, 0.8), noise(0.9)])
