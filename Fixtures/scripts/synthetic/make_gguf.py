#!/usr/bin/env python3
"""Writes the shapes of make_checkpoint.py as GGUF with random Q4_0 weights, for measuring llama.cpp beside mlxserve.

    python3 make_gguf.py qwen3-0.6b OUT.gguf [--seed 0]

Needs numpy and gguf. The vocabulary is a list of made-up words: only token ids are ever fed.
"""

import argparse

import gguf
import numpy as np

from make_checkpoint import SHAPES, linear_shapes

ARCHITECTURES = {"qwen3": "qwen3", "llama": "llama", "phi3": "phi3"}
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def q4_0(random, outputs, inputs):
    """Blocks of 32: a float16 scale and 16 bytes of nibbles, w = scale * (q - 8)."""
    blocks = np.empty((outputs, inputs // 32, 18), np.uint8)
    scale = np.full((outputs, inputs // 32), 0.2 / np.sqrt(inputs), np.float16)
    blocks[:, :, :2] = scale.view(np.uint8).reshape(outputs, -1, 2)
    blocks[:, :, 2:] = random.integers(0, 256, (outputs, inputs // 32, 16), np.uint8)
    return blocks.reshape(outputs, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=[name for name in SHAPES if SHAPES[name]["model_type"] in ARCHITECTURES])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    config = SHAPES[arguments.shape]
    random = np.random.default_rng(arguments.seed)
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)

    writer = gguf.GGUFWriter(arguments.out, ARCHITECTURES[config["model_type"]])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(int(head_dim * config.get("partial_rotary_factor", 1)))
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_vocab_size(config["vocab_size"])
    if "original_max_position_embeddings" in config:
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{index}" for index in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.NORMAL] * config["vocab_size"])
    writer.add_token_merges(["w 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    def matrix(name, outputs, inputs):
        writer.add_tensor(name, q4_0(random, outputs, inputs), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    matrix("token_embd.weight", config["vocab_size"], hidden)
    writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    if "rope_scaling" in config and config["model_type"] == "phi3":
        factors = np.ones(int(head_dim * config["partial_rotary_factor"]) // 2, np.float32)
        writer.add_tensor("rope_factors_long.weight", factors)
        writer.add_tensor("rope_factors_short.weight", factors)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"blk.{layer}."
        writer.add_tensor(prefix + "attn_norm.weight", np.ones(hidden, np.float32))
        writer.add_tensor(prefix + "ffn_norm.weight", np.ones(hidden, np.float32))
        if config["model_type"] == "qwen3":
            writer.add_tensor(prefix + "attn_q_norm.weight", np.ones(head_dim, np.float32))
            writer.add_tensor(prefix + "attn_k_norm.weight", np.ones(head_dim, np.float32))
        for name, outputs, inputs in linear_shapes(config, layer):
            matrix(prefix + NAMES[name] + ".weight", outputs, inputs)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
