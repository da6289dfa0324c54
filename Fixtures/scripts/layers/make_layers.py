#!/usr/bin/env python3
"""Writes layers.json into folders of checkpoints: the hidden state after every layer, as mlx-lm computes it.

    python3 make_layers.py FOLDER ...

Written with mlx 0.32.4 (CPU) and mlx-lm 0.32.2. Parameters are widened to float32. The folder's expected.json gives the
prompt, and its logits hold mlx-lm to the reference that made it: where they differ by more than 1e-3, nothing is written.
"""

import json
import pathlib
import sys
from importlib.metadata import version

import mlx.core as mx
from mlx_lm.utils import load_model

# The beginning, a position inside of every window, and the end, after windows and original contexts.
POSITIONS = (0, 5, -1)


def watch(layers, found):
    """Lets every layer leave its result in `found`, in the order in which they run."""
    for kind in {type(layer) for layer in layers}:
        def call(self, *args, run=kind.__call__, **options):
            result = run(self, *args, **options)
            found[id(self)] = result[0] if isinstance(result, tuple) else result
            return result
        kind.__call__ = call


def make(folder):
    expected = json.loads((folder / "expected.json").read_text())
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    found = {}
    watch(model.layers, found)
    ids = expected["input_ids"]
    logits = model(mx.array([ids]))[0].tolist()
    for row, wanted in ((logits[0], expected["logits_first"]), (logits[-1], expected["logits_last"])):
        difference = max(abs(a - b) for a, b in zip(row, wanted, strict=True))
        if difference > 1e-3:
            return f"not written: its logits differ from expected.json's by {difference:.2g}"
    rows = [position % len(ids) for position in POSITIONS]
    layers = [found[id(layer)][0].tolist() for layer in model.layers]
    document = dict(
        note=f"mlx-lm {version('mlx-lm')}, float32: the residual stream after every layer at these positions",
        positions=rows,
        layers=[[[round(value, 5) for value in layer[row]] for row in rows] for layer in layers])
    (folder / "layers.json").write_text(json.dumps(document) + "\n")
    return f"{len(layers)} layers, magnitudes up to {max(abs(v) for layer in layers for row in layer for v in row):.3g}"


def main():
    for name in sys.argv[1:]:
        print(name, make(pathlib.Path(name)))


if __name__ == "__main__":
    main()
