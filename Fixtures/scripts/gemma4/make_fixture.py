#!/usr/bin/env python3
"""Makes Fixtures/models/gemma4-keqv-tiny: Gemma 4 as in its larger sizes, keys that are also values in full layers.

    python3 make_fixture.py OUT_DIR              # writes the checkpoint and what `logits` below computes from it
    python3 make_fixture.py --check GOLDEN_DIR   # holds `logits` to a golden of another implementation

Needs numpy only. `logits` is written from the description of the architecture, in float64, without a cache.
"""

import json
import pathlib
import struct
import sys

import numpy as np

CONFIG = dict(
    model_type="gemma4_text", hidden_size=64, num_hidden_layers=5, intermediate_size=96, num_attention_heads=4,
    num_key_value_heads=2, num_global_key_value_heads=1, head_dim=16, global_head_dim=32, vocab_size=160,
    num_kv_shared_layers=0, hidden_size_per_layer_input=0, sliding_window=8, final_logit_softcapping=30.0,
    attention_k_eq_v=True, rms_norm_eps=1e-6, max_position_embeddings=4096, tie_word_embeddings=True,
    hidden_activation="gelu_pytorch_tanh", use_bidirectional_attention="vision",
    layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                 "full_attention"],
    rope_parameters=dict(
        full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25),
        sliding_attention=dict(rope_type="default", rope_theta=1e4)))


def rms(x, weight=None):
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return y if weight is None else y * weight


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rope(x, theta, share):
    """x [tokens, heads, size]; the pairs (i, i + size/2) of the first `share` turn."""
    half = x.shape[-1] // 2
    inverse = np.where(np.arange(half) < int(share * half), theta ** (-np.arange(half) / half), 0.0)
    angle = np.arange(len(x))[:, None, None] * inverse
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def attention(q, k, v, window):
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("ihd,jhd->hij", q, np.repeat(k, group, 1))
    distance = np.arange(len(q))[:, None] - np.arange(len(q))
    scores = np.where((distance >= 0) & (distance < window), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", weights, np.repeat(v, group, 1)).reshape(len(q), -1)


def logits(c, w, ids):
    """Logits of every position; w(name) is a tensor as float64."""
    layers, hidden, width = c["num_hidden_layers"], c["hidden_size"], c["hidden_size_per_layer_input"]
    first_shared = layers - c["num_kv_shared_layers"]
    embedding = w("embed_tokens.weight")
    h = embedding[ids] * widen(bf16(np.sqrt(hidden)))
    if width:
        context = (h @ w("per_layer_model_projection.weight").T * hidden**-0.5).reshape(-1, layers, width)
        table = w("embed_tokens_per_layer.weight")[ids].reshape(-1, layers, width) * width**0.5
        second = (rms(context, w("per_layer_projection_norm.weight")) + table) / np.sqrt(2)
    kept = {}
    for i in range(layers):
        p = f"layers.{i}."
        kind = c["layer_types"][i]
        full = kind == "full_attention"
        size = c["global_head_dim"] if full else c["head_dim"]
        angles = c["rope_parameters"][kind]
        turn = lambda x: rope(x, angles["rope_theta"], angles.get("partial_rotary_factor", 1))
        project = lambda name, a: (a @ w(p + f"self_attn.{name}.weight").T).reshape(len(ids), -1, size)
        a = rms(h, w(p + "input_layernorm.weight"))
        q = turn(rms(project("q_proj", a), w(p + "self_attn.q_norm.weight")))
        if i < first_shared:
            keys = project("k_proj", a)
            values = keys if full and c["attention_k_eq_v"] else project("v_proj", a)
            kept[kind] = turn(rms(keys, w(p + "self_attn.k_norm.weight"))), rms(values)
        mixed = attention(q, *kept[kind], np.inf if full else c["sliding_window"])
        h = h + rms(mixed @ w(p + "self_attn.o_proj.weight").T, w(p + "post_attention_layernorm.weight"))
        y = rms(h, w(p + "pre_feedforward_layernorm.weight"))
        m = gelu(y @ w(p + "mlp.gate_proj.weight").T) * (y @ w(p + "mlp.up_proj.weight").T)
        h = h + rms(m @ w(p + "mlp.down_proj.weight").T, w(p + "post_feedforward_layernorm.weight"))
        if width:
            z = gelu(h @ w(p + "per_layer_input_gate.weight").T) * second[:, i]
            h = h + rms(z @ w(p + "per_layer_projection.weight").T, w(p + "post_per_layer_input_norm.weight"))
        h = h * w(p + "layer_scalar")
    cap = c["final_logit_softcapping"]
    return cap * np.tanh(rms(h, w("norm.weight")) @ embedding.T / cap)


def tensors(path):
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    kinds = dict(BF16=np.uint16, U32=np.uint32, F32=np.float32)
    result = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__" and entry["dtype"] in kinds:
            a, b = entry["data_offsets"]
            array = np.frombuffer(data[start + a:start + b], kinds[entry["dtype"]]).reshape(entry["shape"])
            result[name] = widen(array) if entry["dtype"] == "BF16" else array
    return result


def check(folder):
    config = json.loads((folder / "config.json").read_text())["text_config"]
    stored, expected = tensors(folder / "model.safetensors"), json.loads((folder / "expected.json").read_text())

    def weight(name):
        name = "language_model.model." + name
        scales = stored.get(name.removesuffix(".weight") + ".scales")
        if scales is None:
            return stored[name].astype(np.float64)
        packed = stored[name]  # 4 bits, groups of 64
        q = (packed[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(len(packed), -1)
        biases = stored[name.removesuffix(".weight") + ".biases"]
        return q * np.repeat(scales, 64, 1).astype(np.float64) + np.repeat(biases, 64, 1)

    found = logits(config, weight, np.array(expected["text_input_ids"]))
    wanted = tensors(folder / "expected.safetensors")["text_logits"]
    print("largest difference:", np.abs(found - wanted).max())


def make(folder):
    random = np.random.default_rng(4)
    stored = {}

    def add(name, *shape, mean=0.0, deviation=0.05):
        stored[name] = bf16(mean + deviation * random.standard_normal(shape))

    c, hidden = CONFIG, CONFIG["hidden_size"]
    add("embed_tokens.weight", c["vocab_size"], hidden, deviation=0.4)
    # Of either sign, so that a token's likeliest successor is not itself.
    add("norm.weight", hidden, deviation=1)
    for i, kind in enumerate(c["layer_types"]):
        full, p = kind == "full_attention", f"layers.{i}."
        size = c["global_head_dim"] if full else c["head_dim"]
        kv = (c["num_global_key_value_heads"] if full else c["num_key_value_heads"]) * size
        for name in ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"]:
            add(p + name + ".weight", hidden, mean=1, deviation=0.2)
        add(p + "layer_scalar", 1, mean=0.8)
        add(p + "self_attn.q_proj.weight", c["num_attention_heads"] * size, hidden)
        add(p + "self_attn.k_proj.weight", kv, hidden)
        if not full:
            add(p + "self_attn.v_proj.weight", kv, hidden)
        add(p + "self_attn.o_proj.weight", hidden, c["num_attention_heads"] * size)
        # Scores are not scaled: small norms keep them small.
        add(p + "self_attn.q_norm.weight", size, mean=0.4)
        add(p + "self_attn.k_norm.weight", size, mean=0.4)
        add(p + "mlp.gate_proj.weight", c["intermediate_size"], hidden, deviation=0.2)
        add(p + "mlp.up_proj.weight", c["intermediate_size"], hidden, deviation=0.2)
        add(p + "mlp.down_proj.weight", hidden, c["intermediate_size"])
    header, data = {}, b""
    for name, array in stored.items():
        header["model." + name] = dict(
            dtype="BF16", shape=list(array.shape), data_offsets=[len(data), len(data) + array.nbytes])
        data += array.tobytes()
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")

    weight = lambda name: widen(stored[name]).astype(np.float64)
    ids = [int(x) for x in random.integers(0, c["vocab_size"], 24)]
    rows = logits(c, weight, np.array(ids))
    text = list(ids)
    for _ in range(8):
        text.append(int(logits(c, weight, np.array(text))[-1].argmax()))
    (folder / "expected.json").write_text(json.dumps(dict(
        input_ids=ids, logits_first=[round(float(x), 6) for x in rows[0]],
        logits_last=[round(float(x), 6) for x in rows[-1]], argmax_each=[int(x) for x in rows.argmax(-1)],
        greedy=text[len(ids):])) + "\n")


if sys.argv[1] == "--check":
    check(pathlib.Path(sys.argv[2]))
else:
    make(pathlib.Path(sys.argv[1]))
