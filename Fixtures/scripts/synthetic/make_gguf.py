#!/usr/bin/env python3
"""Writes the shapes of make_checkpoint.py as GGUF with random weights, for measuring llama.cpp beside mlxserve.

    python3 make_gguf.py qwen3-0.6b OUT.gguf [--seed 0] [--layers N] [--mix q4_k_m]

Matrices are Q4_0, or a mix of Q4_K and Q6_K as llama-quantize makes it; those of gpt-oss are Q8_0 and its experts MXFP4, as
its published file has them. Needs numpy and gguf.
The vocabulary is a list of made-up words: only token ids are ever fed.
"""

import argparse

import gguf
import numpy as np

from make_checkpoint import SHAPES, head_size, is_recurrent, linear_shapes

ARCHITECTURES = {"qwen3": "qwen3", "qwen3_moe": "qwen3moe", "llama": "llama", "phi3": "phi3", "qwen3_5_text": "qwen35", "lfm2": "lfm2",
                 "gemma2": "gemma2", "gemma4_text": "gemma4", "gpt_oss": "gpt-oss"}
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.out_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.out_proj": "ssm_out",
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
    "mlp.router": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.gate": "ffn_gate_inp", "mlp.switch_mlp.gate_proj": "ffn_gate_exps", "mlp.switch_mlp.up_proj": "ffn_up_exps",
    "mlp.switch_mlp.down_proj": "ffn_down_exps",
}
# Matrices that llama.cpp wants as floats.
FLOATS = {"mlp.router", "mlp.gate"}
Type = gguf.GGMLQuantizationType


def blocks(random, kind, rows, columns):
    """Random blocks of one type: scales that keep activations finite around the elements."""

    def half(value):
        return np.float16(value / np.sqrt(columns)).tobytes()

    # Eight groups with scales and minima of 32, in six bits each.
    thirties = bytes([160] * 8 + [0] * 4)
    numbers, before, size, after = {
        Type.Q4_0: (32, half(0.2), 16, b""),  # w = scale * (q - 8)
        Type.Q8_0: (32, half(0.013), 32, b""),  # w = scale * q
        Type.Q4_K: (256, half(1 / 147) + half(7.5 / 147) + thirties, 128, b""),  # w = 32 * scale * q - 32 * minimum
        Type.Q6_K: (256, b"", 192, bytes([32] * 16) + half(1 / 592)),  # w = 32 * scale * (q - 32)
        Type.MXFP4: (32, bytes([127 + round(np.log2(1 / np.sqrt(8.6 * columns)))]), 16, b""),  # w = 2^(scale - 127) * e2m1
    }[kind]
    count = (*rows, columns // numbers)
    out = np.empty((*count, len(before) + size + len(after)), np.uint8)
    out[..., :len(before)] = np.frombuffer(before, np.uint8)
    out[..., len(before):len(before) + size] = random.integers(0, 256, (*count, size), np.uint8)
    out[..., len(before) + size:] = np.frombuffer(after, np.uint8)
    return out.reshape(*rows, -1)


def has_more_bits(name, layers):
    """Whether llama-quantize gives a matrix six bits in the mix Q4_K_M: the head, and every third of two kinds, all at either end."""
    if not name.startswith("blk."):
        return True
    layer, eighth = int(name.split(".")[1]), layers // 8
    return name.endswith(("attn_v.weight", "ffn_down.weight")) and (
        layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2)


def add_settings(writer, config, layers):
    arch, hidden = ARCHITECTURES[config["model_type"]], config["hidden_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    rope = config.get("rope_parameters", {})
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    ffn = config["intermediate_size"]
    if config.get("use_double_wide_mlp"):
        ffn = [ffn * (2 if layer >= layers - config["num_kv_shared_layers"] else 1) for layer in range(layers)]
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", config.get("norm_eps")))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    writer.add_vocab_size(config["vocab_size"])
    if "original_max_position_embeddings" in config:
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
    if arch == "lfm2":
        kv_heads = [0 if kind == "conv" else kv_heads for kind in config["layer_types"][:layers]]
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    writer.add_head_count_kv(kv_heads)
    partial = config.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1))
    if arch == "qwen35":
        values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_inner_size(values)
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_full_attention_interval(config["full_attention_interval"])
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    if arch == "gemma4":
        is_sliding = [kind == "sliding_attention" for kind in config["layer_types"][:layers]]
        writer.add_shared_kv_layers(config["num_kv_shared_layers"])
        writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
        writer.add_key_length_swa(head_dim)
        writer.add_value_length_swa(head_dim)
        writer.add_rope_dimension_count_swa(head_dim)
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        writer.add_sliding_window_pattern(is_sliding)
        head_dim, rope = config["global_head_dim"], rope["full_attention"]
    if arch == "qwen3moe":
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if arch == "gpt-oss":
        writer.add_expert_count(config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
        writer.add_rope_scaling_orig_ctx_len(config["rope_scaling"]["original_max_position_embeddings"])
    if "sliding_window" in config:
        writer.add_sliding_window(config["sliding_window"])
    if "attn_logit_softcapping" in config:
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if "final_logit_softcapping" in config:
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim if arch == "gemma4" else int(head_dim * partial))
    writer.add_rope_freq_base(config.get("rope_theta", rope.get("rope_theta")))


def add_vocabulary(writer, config):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{index}" for index in range(config["vocab_size"])])
    writer.add_token_types([gguf.TokenType.NORMAL] * config["vocab_size"])
    writer.add_token_merges(["w 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=[name for name in SHAPES if SHAPES[name]["model_type"] in ARCHITECTURES])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mix", choices=["q4_k_m"], help="of types, in place of Q4_0")
    parser.add_argument("--layers", type=int, help="instead of the model's own number: a large one in small")
    arguments = parser.parse_args()
    config = dict(SHAPES[arguments.shape])
    layers = config["num_hidden_layers"] = arguments.layers or config["num_hidden_layers"]
    arch, hidden = ARCHITECTURES[config["model_type"]], config["hidden_size"]
    random = np.random.default_rng(arguments.seed)
    usual = Type.Q8_0 if arch == "gpt-oss" else Type.Q4_0

    writer = gguf.GGUFWriter(arguments.out, arch)
    add_settings(writer, config, layers)
    add_vocabulary(writer, config)

    def floats(name, values):
        writer.add_tensor(name, np.asarray(values, np.float32))

    def matrix(name, rows, columns):
        rows = rows if isinstance(rows, tuple) else (rows,)
        kind = Type.MXFP4 if arch == "gpt-oss" and len(rows) == 2 else usual
        if arguments.mix:
            kind = Type.Q6_K if has_more_bits(name, layers) else Type.Q4_K
        writer.add_tensor(name, blocks(random, kind, rows, columns), raw_dtype=kind)

    matrix("token_embd.weight", config["vocab_size"], hidden)
    floats("token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight", np.ones(hidden))
    if not config["tie_word_embeddings"]:
        matrix("output.weight", config["vocab_size"], hidden)
    if arch == "phi3":
        head_dim = hidden // config["num_attention_heads"]
        for name in ("long", "short"):
            floats(f"rope_factors_{name}.weight", np.ones(int(head_dim * config["partial_rotary_factor"]) // 2))
    if arch == "gemma4":
        width = config["hidden_size_per_layer_input"]
        matrix("per_layer_token_embd.weight", config["vocab_size"], layers * width)
        matrix("per_layer_model_proj.weight", layers * width, hidden)
        floats("per_layer_proj_norm.weight", np.ones(width))
        # Only a part of the angles turns: the others are divided away.
        full = config["global_head_dim"] // 2
        turned = int(full * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
        floats("rope_freqs.weight", np.where(np.arange(full) < turned, 1.0, 1e30))
    for layer in range(layers):
        prefix = f"blk.{layer}."
        floats(prefix + "attn_norm.weight", np.ones(hidden))
        second = "post_attention_norm" if arch in ("qwen35", "gpt-oss") else "ffn_norm"
        floats(f"{prefix}{second}.weight", np.ones(hidden))
        if arch in ("gemma2", "gemma4"):
            floats(prefix + "post_attention_norm.weight", np.ones(hidden))
            floats(prefix + "post_ffw_norm.weight", np.ones(hidden))
        if arch == "gemma4":
            floats(prefix + "post_norm.weight", np.ones(hidden))
        recurs = arch == "qwen35" and is_recurrent(config, layer)
        is_conv = arch == "lfm2" and config["layer_types"][layer] == "conv"
        if recurs:
            heads, size = config["linear_num_value_heads"], config["linear_value_head_dim"]
            channels = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + heads * size
            taps = config["linear_conv_kernel_dim"]
            floats(prefix + "ssm_conv1d.weight", random.uniform(-1, 1, (channels, taps)) * np.sqrt(3 / taps))
            floats(prefix + "ssm_a", -random.uniform(1, 16, heads))
            floats(prefix + "ssm_dt.bias", np.full(heads, -6.0))
            floats(prefix + "ssm_norm.weight", np.ones(size))
        elif is_conv:
            taps = config["conv_L_cache"]
            floats(prefix + "shortconv.conv.weight", random.uniform(-1, 1, (hidden, taps)) * np.sqrt(3 / taps))
        elif arch in ("qwen3", "qwen3moe", "qwen35", "lfm2", "gemma4"):
            size = head_size(config, layer)
            # Gemma 4 does not scale scores.
            gain = size ** -0.25 if arch == "gemma4" else 1.0
            floats(prefix + "attn_q_norm.weight", np.full(size, gain))
            if arch != "gemma4" or layer < layers - config["num_kv_shared_layers"]:
                floats(prefix + "attn_k_norm.weight", np.full(size, gain))
        if arch == "gpt-oss":
            floats(prefix + "attn_sinks.weight", np.zeros(config["num_attention_heads"]))
        for name, rows, columns in linear_shapes(config, layer):
            if arch == "gpt-oss":
                floats(f"{prefix}{NAMES[name]}.bias", np.zeros(rows))
            if name in FLOATS:
                floats(f"{prefix}{NAMES[name]}.weight", random.standard_normal((rows, columns)) * columns**-0.5)
            else:
                matrix(f"{prefix}{NAMES[name]}.weight", rows, columns)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
