"""Makes Fixtures/sound/resampled.json: pieces of sine sweeps at 16 kHz as soxr resamples them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r Fixtures/scripts/sound/requirements.txt
    /tmp/venv/bin/python Fixtures/scripts/sound/make_resampled.py

Every piece is checked against scipy's polyphase resampler with a filter of its own before it is written, so what the
Swift tests compare with is what two libraries agree on.
"""

import json
import math
import pathlib

import numpy as np
import scipy.signal
import soxr

TARGET = 16_000
FIRST, COUNT = 5600, 800


def sweep(rate: int, end: float) -> np.ndarray:
    t = np.arange(rate // 2) / rate
    return (0.5 * np.sin(2 * np.pi * (50 * t + (end - 50) * t * t))).astype(np.float32)


def by_scipy(x: np.ndarray, rate: int) -> np.ndarray:
    divisor = math.gcd(rate, TARGET)
    up, down = TARGET // divisor, rate // divisor
    most = max(up, down)
    taps = scipy.signal.firwin(2 * 80 * most + 1, 0.955 / most, window=("kaiser", 10.0))
    return scipy.signal.resample_poly(x.astype(np.float64), up, down, window=taps)


def decibels(found: np.ndarray, exact: np.ndarray) -> float:
    return 10 * math.log10(np.sum(exact**2) / max(1e-30, np.sum((found - exact) ** 2)))


def main() -> None:
    cases = []
    for rate in (8000, 11_025, 22_050, 44_100, 48_000, 96_000):
        end = round(0.44 * min(rate, TARGET))
        x = sweep(rate, end)
        y = soxr.resample(x, rate, TARGET, quality="VHQ")[FIRST : FIRST + COUNT].astype(np.float64)
        agreement = decibels(by_scipy(x, rate)[FIRST : FIRST + COUNT], y)
        assert agreement > 80, (rate, agreement)
        print(f"{rate} Hz: soxr and scipy agree to {agreement:.0f} dB")
        cases.append(
            {"rate": rate, "sweep_to": end, "first": FIRST, "samples": [float(f"{v:.7g}") for v in y]}
        )
    path = pathlib.Path(__file__).parents[2] / "sound" / "resampled.json"
    path.write_text(json.dumps({"cases": cases}, separators=(",", ":")) + "\n")


main()
