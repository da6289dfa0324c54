#!/usr/bin/env python3
"""Trains a model of a golden's own configuration on a text, character by character, and writes it in MLX's 4 bits.

    python3 train_small.py GOLDEN_DIR TEXT OUT_DIR [--minutes 4]

What for: weights that are drawn at random make distributions that follow small errors far more than learned ones do.
OUT_DIR gets config.json, model.safetensors and ids.json, the last twentieth of the text, which was not trained on:

    mlxserve perplexity --model OUT_DIR --ids OUT_DIR/ids.json --context 128 --tokens 4000 --compare

Used with torch 2.13.0 (CPU), transformers 5.24.0, safetensors, numpy. Matrices with whole groups are quantized; tensors with
the weights of all experts stay floats.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from safetensors.numpy import save_file

WINDOW, BATCH, RATE = 128, 16, 3e-3


def quantized(weight, group):
    """Codes, scales and biases of `w = scale * code + bias`."""
    groups = weight.reshape(weight.shape[0], -1, group)
    low, high = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
    scales = np.maximum((high - low) / 15, 1e-4).astype(np.float16)
    biases = low.astype(np.float16)
    codes = np.rint((groups - biases[..., None].astype(np.float32)) / scales[..., None].astype(np.float32))
    codes = np.clip(codes, 0, 15).astype(np.uint32).reshape(weight.shape[0], -1, 8)
    return np.bitwise_or.reduce(codes << (4 * np.arange(8, dtype=np.uint32)), axis=-1), scales, biases


def trained(model, ids, minutes):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.05)
    begin, step = time.monotonic(), 0
    while (share := (time.monotonic() - begin) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, step / 50) * (0.51 + 0.49 * math.cos(math.pi * share))
        starts = torch.randint(0, len(ids) - WINDOW - 1, (BATCH,))
        rows = torch.stack([ids[start:start + WINDOW + 1] for start in starts])
        logits = model(input_ids=rows[:, :-1], use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.3f} nats", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=4)
    arguments = parser.parse_args()
    torch.manual_seed(0)

    config = json.loads((arguments.golden / "config.json").read_text())
    group = config["quantization"]["group_size"]
    config = {name: value for name, value in config.get("text_config", config).items()
              if name not in ("quantization", "quantization_config")}
    settings = {name: value for name, value in config.items() if name != "model_type"}
    tokens = {name: 0 for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config["model_type"], **settings | tokens)).float()

    text = arguments.text.read_text()
    characters = sorted(set(text))[:config["vocab_size"] - 3]
    ids = [3 + characters.index(c) for c in text if c in characters]
    border = len(ids) - len(ids) // 20
    trained(model, torch.tensor(ids[:border]), arguments.minutes)

    # In the names of published checkpoints, which those inside of transformers are not.
    model.save_pretrained(arguments.out)
    tensors = {}
    for name, value in load_file(arguments.out / "model.safetensors").items():
        value = value.float().numpy()
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        is_matrix = name.endswith(".weight") and value.ndim == 2 and value.shape[1] % group == 0
        if is_matrix and "conv" not in name and "router" not in name and not name.endswith(".gate.weight"):
            module = name.removesuffix(".weight")
            for part, array in zip(("weight", "scales", "biases"), quantized(value, group)):
                tensors[f"{module}.{part}"] = array
        else:
            tensors[name] = value
    save_file(tensors, arguments.out / "model.safetensors", metadata={"format": "mlx"})
    config["quantization"] = {"group_size": group, "bits": 4, "mode": "affine"}
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (arguments.out / "ids.json").write_text(json.dumps(ids[border:border + 8192]) + "\n")


if __name__ == "__main__":
    main()
