#!/usr/bin/env python3
"""Writes a checkpoint with the exact shapes of a well-known model and random weights, for measuring speed.

    python3 make_checkpoint.py qwen3-0.6b OUT_DIR [--bits 4] [--group-size 64] [--seed 0] [--layers N]

MLX affine quantization (models that `mlxserve bench` opens; there is no tokenizer, so nothing can be served).
Needs numpy only. The values are random but sane: activations stay finite through all layers.
"""

import argparse
import json
import pathlib
import struct

import numpy as np

SHAPES = {
    "qwen3-0.6b": dict(
        model_type="qwen3", hidden_size=1024, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, intermediate_size=3072, vocab_size=151936,
        rope_theta=1e6, rms_norm_eps=1e-6, max_position_embeddings=40960, tie_word_embeddings=True),
    "qwen3-30b-a3b": dict(
        model_type="qwen3_moe", hidden_size=2048, num_hidden_layers=48, num_attention_heads=32,
        num_key_value_heads=4, head_dim=128, intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
        num_experts_per_tok=8, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], vocab_size=151936,
        rope_theta=1e6, rms_norm_eps=1e-6, max_position_embeddings=40960, tie_word_embeddings=False),
    "llama-3.2-1b": dict(
        model_type="llama", hidden_size=2048, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, intermediate_size=8192, vocab_size=128256,
        rope_theta=5e5, rms_norm_eps=1e-5, max_position_embeddings=131072, tie_word_embeddings=True,
        rope_scaling=dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                          original_max_position_embeddings=8192)),
    "phi-4-mini": dict(
        model_type="phi3", hidden_size=3072, num_hidden_layers=32, num_attention_heads=24,
        num_key_value_heads=8, intermediate_size=8192, vocab_size=200064,
        rope_theta=1e4, rms_norm_eps=1e-5, max_position_embeddings=131072,
        original_max_position_embeddings=4096, partial_rotary_factor=0.75, tie_word_embeddings=True,
        rope_scaling=dict(type="longrope", short_factor=[1.0] * 48, long_factor=[1.0] * 48)),
    "gemma-4-e2b": dict(
        model_type="gemma4_text", hidden_size=1536, num_hidden_layers=35, num_attention_heads=8,
        num_key_value_heads=1, head_dim=256, global_head_dim=512, intermediate_size=6144, vocab_size=262144,
        hidden_size_per_layer_input=256, num_kv_shared_layers=20, use_double_wide_mlp=True, sliding_window=512,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7, final_logit_softcapping=30.0,
        hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, max_position_embeddings=131072,
        tie_word_embeddings=True, rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=1e4),
            full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25))),
}


def head_size(config, layer):
    if "global_head_dim" in config and config["layer_types"][layer] == "full_attention":
        return config["global_head_dim"]
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def linear_shapes(config, layer):
    """(name, outputs, inputs) of every matrix of a layer, in checkpoint order; of experts, (experts, outputs)."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = head_size(config, layer)
    if config["model_type"] == "gemma4_text":
        shares = layer >= config["num_hidden_layers"] - config["num_kv_shared_layers"]
        ffn, width = ffn * (2 if shares else 1), config["hidden_size_per_layer_input"]
        keys = [] if shares else [("self_attn.k_proj", kv_heads * head_dim, hidden),
                                  ("self_attn.v_proj", kv_heads * head_dim, hidden)]
        return [("self_attn.q_proj", heads * head_dim, hidden), *keys,
                ("self_attn.o_proj", hidden, heads * head_dim),
                ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden), ("mlp.down_proj", hidden, ffn),
                ("per_layer_input_gate", width, hidden), ("per_layer_projection", hidden, width)]
    if config["model_type"] == "phi3":
        return [("self_attn.qkv_proj", (heads + 2 * kv_heads) * head_dim, hidden),
                ("self_attn.o_proj", hidden, heads * head_dim),
                ("mlp.gate_up_proj", 2 * ffn, hidden), ("mlp.down_proj", hidden, ffn)]
    attention = [("self_attn.q_proj", heads * head_dim, hidden), ("self_attn.k_proj", kv_heads * head_dim, hidden),
                 ("self_attn.v_proj", kv_heads * head_dim, hidden), ("self_attn.o_proj", hidden, heads * head_dim)]
    if config["model_type"] == "qwen3_moe":
        experts, width = config["num_experts"], config["moe_intermediate_size"]
        return [*attention, ("mlp.gate", experts, hidden), ("mlp.switch_mlp.gate_proj", (experts, width), hidden),
                ("mlp.switch_mlp.up_proj", (experts, width), hidden),
                ("mlp.switch_mlp.down_proj", (experts, hidden), width)]
    return [*attention, ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden), ("mlp.down_proj", hidden, ffn)]


def bf16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


class Writer:
    """Collects tensors, then writes one safetensors file."""

    def __init__(self):
        self.header, self.parts, self.offset = {"__metadata__": {"format": "mlx"}}, [], 0

    def add(self, name, dtype, array):
        data = array.tobytes()
        self.header[name] = {"dtype": dtype, "shape": list(array.shape),
                             "data_offsets": [self.offset, self.offset + len(data)]}
        self.parts.append(data)
        self.offset += len(data)

    def save(self, path):
        header = json.dumps(self.header, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for part in self.parts:
                file.write(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, help="instead of the model's own number: a large one in small")
    arguments = parser.parse_args()

    config = dict(SHAPES[arguments.shape])
    config["num_hidden_layers"] = arguments.layers or config["num_hidden_layers"]
    quantization = {"group_size": arguments.group_size, "bits": arguments.bits}
    random = np.random.default_rng(arguments.seed)
    writer = Writer()

    def add_matrix(name, rows, columns):
        rows = rows if isinstance(rows, tuple) else (rows,)
        words = random.integers(0, 2**32, (*rows, columns * arguments.bits // 32), np.uint32)
        # Uniform q in 0 ..< 2^bits around a bias of minus the middle: zero mean, variance 1 / columns.
        levels = 2 ** arguments.bits
        scale = np.sqrt(12 / (levels**2 - 1) / columns)
        groups = (*rows, columns // arguments.group_size)
        writer.add(name + ".weight", "U32", words)
        writer.add(name + ".scales", "BF16", np.full(groups, bf16(scale), np.uint16))
        writer.add(name + ".biases", "BF16", np.full(groups, bf16(-scale * (levels - 1) / 2), np.uint16))

    def add_norm(name, count, suffix=".weight", value=1.0):
        writer.add(name + suffix, "BF16", np.full(count, bf16(value), np.uint16))

    hidden = config["hidden_size"]
    add_matrix("model.embed_tokens", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        add_norm(prefix + "input_layernorm", hidden)
        add_norm(prefix + "post_attention_layernorm", hidden)
        if config["model_type"] == "gemma4_text":
            add_norm(prefix + "pre_feedforward_layernorm", hidden)
            add_norm(prefix + "post_feedforward_layernorm", hidden)
            add_norm(prefix + "post_per_layer_input_norm", hidden)
            add_norm(prefix + "layer_scalar", 1, suffix="")
        if config["model_type"] in ("qwen3", "qwen3_moe", "gemma4_text"):
            # Gemma 4 does not scale scores.
            value = head_size(config, layer) ** -0.25 if config["model_type"] == "gemma4_text" else 1.0
            add_norm(prefix + "self_attn.q_norm", head_size(config, layer), value=value)
            add_norm(prefix + "self_attn.k_norm", head_size(config, layer), value=value)
        for name, rows, columns in linear_shapes(config, layer):
            add_matrix(prefix + name, rows, columns)
    add_norm("model.norm", hidden)
    if config["model_type"] == "gemma4_text":
        width = config["hidden_size_per_layer_input"]
        add_matrix("model.embed_tokens_per_layer", config["vocab_size"], config["num_hidden_layers"] * width)
        add_matrix("model.per_layer_model_projection", config["num_hidden_layers"] * width, hidden)
        add_norm("model.per_layer_projection_norm", width)

    arguments.out.mkdir(parents=True, exist_ok=True)
    writer.save(arguments.out / "model.safetensors")
    config.update(quantization=quantization, quantization_config=quantization)
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{arguments.out}: {arguments.shape}, {writer.offset / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
