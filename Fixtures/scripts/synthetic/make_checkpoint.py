#!/usr/bin/env python3
"""Writes a checkpoint with the exact shapes of a well-known model and random weights, for measuring speed.

    python3 make_checkpoint.py qwen3-0.6b OUT_DIR [--bits 4] [--group-size 64] [--seed 0] [--layers N] [--towers]
                            [--weights mxfp4]

MLX affine quantization, or its floating modes, or plain floats (models that `mlxserve bench` opens; there is no
tokenizer, so nothing can be served). Needs numpy only, and memory for one tensor. The values are random but sane: activations stay finite through all
layers. `--towers` adds the encoders of images and sounds to gemma-4-e2b, as the released checkpoint has them (bf16).
"""

import argparse
import json
import pathlib
import struct

import numpy as np

# What the sizes of a family have in common.
QWEN35 = dict(
    head_dim=256, vocab_size=248320, rms_norm_eps=1e-6, max_position_embeddings=262144, linear_num_key_heads=16,
    linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, full_attention_interval=4,
    attn_output_gate=True, rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25))

QWEN3 = dict(
    model_type="qwen3", num_key_value_heads=8, head_dim=128, vocab_size=151936, rope_theta=1e6, rms_norm_eps=1e-6,
    max_position_embeddings=40960, tie_word_embeddings=True)
LLAMA3 = dict(
    model_type="llama", num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, rope_theta=5e5,
    rms_norm_eps=1e-5, max_position_embeddings=131072)
GEMMA4 = dict(
    model_type="gemma4_text", num_attention_heads=8, head_dim=256, global_head_dim=512, vocab_size=262144,
    hidden_size_per_layer_input=256, sliding_window=512, final_logit_softcapping=30.0,
    hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, max_position_embeddings=131072, tie_word_embeddings=True,
    rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=1e4),
        full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25)))


def llama3_scaling(factor):
    return dict(rope_type="llama3", factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192)


SHAPES = {
    "qwen3-0.6b": dict(
        QWEN3, hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, intermediate_size=3072),
    "qwen3-4b": dict(
        QWEN3, hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, intermediate_size=9728),
    "qwen3-30b-a3b": dict(
        model_type="qwen3_moe", hidden_size=2048, num_hidden_layers=48, num_attention_heads=32,
        num_key_value_heads=4, head_dim=128, intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
        num_experts_per_tok=8, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], vocab_size=151936,
        rope_theta=1e6, rms_norm_eps=1e-6, max_position_embeddings=40960, tie_word_embeddings=False),
    # The sizes of 0.8B and 4B are assumed: only those of the 9B are published in the reference's defaults.
    "qwen3.5-0.8b": dict(
        QWEN35, model_type="qwen3_5_text", hidden_size=1024, num_hidden_layers=24, num_attention_heads=8,
        num_key_value_heads=2, intermediate_size=3584, linear_num_value_heads=16, tie_word_embeddings=True),
    "qwen3.5-4b": dict(
        QWEN35, model_type="qwen3_5_text", hidden_size=2560, num_hidden_layers=32, num_attention_heads=16,
        num_key_value_heads=4, intermediate_size=9216, linear_num_value_heads=32, tie_word_embeddings=True),
    # Meant for some layers, as gpt-oss-20b: every fourth is attention.
    "qwen3.5-35b-a3b": dict(
        QWEN35, model_type="qwen3_5_moe_text", hidden_size=2048, num_hidden_layers=40, num_attention_heads=16,
        num_key_value_heads=2, intermediate_size=512, moe_intermediate_size=512, shared_expert_intermediate_size=512,
        num_experts=256, num_experts_per_tok=8, norm_topk_prob=True, linear_num_value_heads=32,
        tie_word_embeddings=False),
    "lfm2-1.2b": dict(
        model_type="lfm2", hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
        intermediate_size=8192, block_auto_adjust_ff_dim=False, conv_L_cache=3, conv_bias=False, vocab_size=65536,
        layer_types=["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)],
        rope_theta=1e6, norm_eps=1e-5, max_position_embeddings=128000, tie_word_embeddings=True),
    "gemma-2-2b": dict(
        model_type="gemma2", hidden_size=2304, num_hidden_layers=26, num_attention_heads=8, num_key_value_heads=4,
        head_dim=256, intermediate_size=9216, vocab_size=256000, sliding_window=4096, query_pre_attn_scalar=256,
        attn_logit_softcapping=50.0, final_logit_softcapping=30.0, hidden_activation="gelu_pytorch_tanh",
        rope_theta=1e4, rms_norm_eps=1e-6, max_position_embeddings=8192, tie_word_embeddings=True),
    # Meant for some layers: --layers 4. The experts are MXFP4, the rest 8 bits, as MLX's conversion has them.
    "gpt-oss-20b": dict(
        model_type="gpt_oss", hidden_size=2880, num_hidden_layers=24, num_attention_heads=64, num_key_value_heads=8,
        head_dim=64, intermediate_size=2880, num_local_experts=32, num_experts_per_tok=4, vocab_size=201088,
        sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 12, attention_bias=True,
        swiglu_limit=7.0, rope_theta=150000.0, rms_norm_eps=1e-5, max_position_embeddings=131072,
        tie_word_embeddings=False, rope_scaling=dict(
            rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=4096,
            truncate=False)),
    "llama-3.2-1b": dict(
        LLAMA3, hidden_size=2048, num_hidden_layers=16, head_dim=64, intermediate_size=8192, tie_word_embeddings=True,
        rope_scaling=llama3_scaling(32.0)),
    "llama-3.1-8b": dict(
        LLAMA3, hidden_size=4096, num_hidden_layers=32, head_dim=128, intermediate_size=14336, tie_word_embeddings=False,
        rope_scaling=llama3_scaling(8.0)),
    "phi-4-mini": dict(
        model_type="phi3", hidden_size=3072, num_hidden_layers=32, num_attention_heads=24,
        num_key_value_heads=8, intermediate_size=8192, vocab_size=200064,
        rope_theta=1e4, rms_norm_eps=1e-5, max_position_embeddings=131072,
        original_max_position_embeddings=4096, partial_rotary_factor=0.75, tie_word_embeddings=True,
        rope_scaling=dict(type="longrope", short_factor=[1.0] * 48, long_factor=[1.0] * 48)),
    "gemma-4-e2b": dict(
        GEMMA4, hidden_size=1536, num_hidden_layers=35, num_key_value_heads=1, intermediate_size=6144,
        num_kv_shared_layers=20, use_double_wide_mlp=True,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7),
    "gemma-4-e4b": dict(
        GEMMA4, hidden_size=2560, num_hidden_layers=42, num_key_value_heads=2, intermediate_size=10240,
        num_kv_shared_layers=18, use_double_wide_mlp=False,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 7),
}

# What `--towers` adds around the config of gemma-4-e2b.
TOWERS = dict(
    model_type="gemma4", image_token_id=258880, audio_token_id=258881, boi_token_id=255999, eoi_token_id=258882,
    boa_token_id=256000, eoa_token_id=258883, vision_config=dict(
        model_type="gemma4_vision", hidden_size=768, intermediate_size=3072, num_hidden_layers=16,
        num_attention_heads=12, num_key_value_heads=12, head_dim=64, patch_size=16, position_embedding_size=10240,
        pooling_kernel_size=3, use_clipped_linears=True, rms_norm_eps=1e-6, default_output_length=280,
        standardize=False, rope_parameters=dict(rope_theta=100.0, rope_type="default")),
    audio_config=dict(
        model_type="gemma4_audio", hidden_size=1024, num_hidden_layers=12, num_attention_heads=8,
        subsampling_conv_channels=[128, 32], conv_kernel_size=5, output_proj_dims=1536, attention_context_left=13,
        attention_context_right=0, attention_logit_cap=50.0, residual_weight=0.5, use_clipped_linears=True,
        rms_norm_eps=1e-6))


def head_size(config, layer):
    if "global_head_dim" in config and config["layer_types"][layer] == "full_attention":
        return config["global_head_dim"]
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def is_recurrent(config, layer):
    return "full_attention_interval" in config and (layer + 1) % config["full_attention_interval"] != 0


def linear_shapes(config, layer):
    """(name, outputs, inputs) of every matrix of a layer, in checkpoint order; of experts, (experts, outputs)."""
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    if config["model_type"] == "lfm2":
        mlp = [("feed_forward.w1", ffn, hidden), ("feed_forward.w3", ffn, hidden), ("feed_forward.w2", hidden, ffn)]
        if config["layer_types"][layer] == "conv":
            return [("conv.in_proj", 3 * hidden, hidden), ("conv.out_proj", hidden, hidden), *mlp]
        width = config["num_key_value_heads"] * head_size(config, layer)
        return [("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", width, hidden),
                ("self_attn.v_proj", width, hidden), ("self_attn.out_proj", hidden, hidden), *mlp]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = head_size(config, layer)
    if config["model_type"] == "gemma4_text":
        shares = layer >= config["num_hidden_layers"] - config["num_kv_shared_layers"]
        ffn *= 2 if shares and config["use_double_wide_mlp"] else 1
        width = config["hidden_size_per_layer_input"]
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
    mlp = [("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden), ("mlp.down_proj", hidden, ffn)]
    if "moe_intermediate_size" in config:
        experts, width = config["num_experts"], config["moe_intermediate_size"]
        mlp = [("mlp.gate", experts, hidden), ("mlp.switch_mlp.gate_proj", (experts, width), hidden),
               ("mlp.switch_mlp.up_proj", (experts, width), hidden),
               ("mlp.switch_mlp.down_proj", (experts, hidden), width)]
    if "shared_expert_intermediate_size" in config:
        width = config["shared_expert_intermediate_size"]
        mlp += [("mlp.shared_expert.gate_proj", width, hidden), ("mlp.shared_expert.up_proj", width, hidden),
                ("mlp.shared_expert.down_proj", hidden, width), ("mlp.shared_expert_gate", 1, hidden)]
    if is_recurrent(config, layer):
        keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
        values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
        return [("linear_attn.in_proj_qkv", 2 * keys + values, hidden), ("linear_attn.in_proj_z", values, hidden),
                ("linear_attn.in_proj_b", config["linear_num_value_heads"], hidden),
                ("linear_attn.in_proj_a", config["linear_num_value_heads"], hidden),
                ("linear_attn.out_proj", hidden, values), *mlp]
    queries = heads * head_dim * (2 if config.get("attn_output_gate") else 1)
    attention = [("self_attn.q_proj", queries, hidden), ("self_attn.k_proj", kv_heads * head_dim, hidden),
                 ("self_attn.v_proj", kv_heads * head_dim, hidden), ("self_attn.o_proj", hidden, heads * head_dim)]
    if config["model_type"] == "gpt_oss":
        experts = config["num_local_experts"]
        return [*attention, ("mlp.router", experts, hidden), ("mlp.experts.gate_proj", (experts, ffn), hidden),
                ("mlp.experts.up_proj", (experts, ffn), hidden), ("mlp.experts.down_proj", (experts, hidden), ffn)]
    return [*attention, *mlp]


# MLX's floating modes; `square` is the mean square of their random codes.
MX = {
    "mxfp4": dict(group_size=32, bits=4, scale="e8m0", square=8.6),
    "mxfp8": dict(group_size=32, bits=8, scale="e8m0", square=0.4),
    "nvfp4": dict(group_size=16, bits=4, scale="e4m3", square=8.6),
}


def bf16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


FLOATS = {
    "bf16": ("BF16", bf16),
    "f16": ("F16", lambda values: values.astype(np.float16)),
    "f32": ("F32", lambda values: values),
}


class Writer:
    """Writes tensors one after the other behind the room for a header, which is filled in at the end."""

    ROOM = 1 << 20

    def __init__(self, path):
        self.header, self.offset = {"__metadata__": {"format": "mlx"}}, 0
        self.file = open(path, "wb")
        self.file.seek(self.ROOM)

    def add(self, name, dtype, array):
        array = np.asarray(array)
        self.header[name] = {"dtype": dtype, "shape": list(array.shape),
                             "data_offsets": [self.offset, self.offset + array.nbytes]}
        array.tofile(self.file)
        self.offset += array.nbytes

    def close(self):
        header = json.dumps(self.header, separators=(",", ":")).encode()
        assert len(header) <= self.ROOM - 8
        self.file.seek(0)
        self.file.write(struct.pack("<Q", self.ROOM - 8) + header.ljust(self.ROOM - 8))
        self.file.close()


def add_towers(config, random, add_matrix, add):
    """The encoders of images and sounds: matrices of halves that clamp what goes in and comes out."""
    def halves(name, *shape):
        columns = shape[-1] if len(shape) < 3 else shape[1] * shape[2] * shape[3]
        add(name, random.uniform(-1, 1, shape) * np.sqrt(3 / columns))

    def gains(prefix, names, count):
        for name in names:
            add(f"{prefix}.{name}.weight", np.ones(count))

    def clamped(name, rows, columns):
        halves(name + ".linear.weight", rows, columns)
        for bound in ("input", "output"):
            add(f"{name}.{bound}_min", np.array(-50.0))
            add(f"{name}.{bound}_max", np.array(50.0))

    vision = config["vision_config"]
    hidden, ffn = vision["hidden_size"], vision["intermediate_size"]
    halves("vision_tower.patch_embedder.input_proj.weight", hidden, 3 * vision["patch_size"] ** 2)
    add("vision_tower.patch_embedder.position_embedding_table",
        random.uniform(-1, 1, (2, vision["position_embedding_size"], hidden)))
    for layer in range(vision["num_hidden_layers"]):
        prefix = f"vision_tower.encoder.layers.{layer}"
        gains(prefix, ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                       "post_feedforward_layernorm"), hidden)
        for name in ("q_norm", "k_norm"):
            add(f"{prefix}.self_attn.{name}.weight", np.full(vision["head_dim"], vision["head_dim"] ** -0.25))
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            clamped(f"{prefix}.self_attn.{name}", hidden, hidden)
        clamped(prefix + ".mlp.gate_proj", ffn, hidden)
        clamped(prefix + ".mlp.up_proj", ffn, hidden)
        clamped(prefix + ".mlp.down_proj", hidden, ffn)
    add_matrix("embed_vision.embedding_projection", config["text_config"]["hidden_size"], hidden)

    audio = config["audio_config"]
    hidden, channels = audio["hidden_size"], audio["subsampling_conv_channels"]
    prefix = "audio_tower.subsample_conv_projection"
    for layer, inputs, outputs in ((0, 1, channels[0]), (1, channels[0], channels[1])):
        halves(f"{prefix}.layer{layer}.conv.weight", outputs, 3, 3, inputs)
        gains(f"{prefix}.layer{layer}", ("norm",), outputs)
    # 128 bands, halved twice.
    halves(prefix + ".input_proj_linear.weight", hidden, 32 * channels[1])
    for layer in range(audio["num_hidden_layers"]):
        prefix = f"audio_tower.layers.{layer}"
        for block in ("feed_forward1", "feed_forward2"):
            gains(f"{prefix}.{block}", ("pre_layer_norm", "post_layer_norm"), hidden)
            clamped(f"{prefix}.{block}.ffw_layer_1", 4 * hidden, hidden)
            clamped(f"{prefix}.{block}.ffw_layer_2", hidden, 4 * hidden)
        gains(prefix, ("norm_pre_attn", "norm_post_attn", "norm_out"), hidden)
        gains(prefix + ".lconv1d", ("pre_layer_norm", "conv_norm"), hidden)
        for name in ("q_proj", "k_proj", "v_proj", "post"):
            clamped(f"{prefix}.self_attn.{name}", hidden, hidden)
        halves(prefix + ".self_attn.relative_k_proj.weight", hidden, hidden)
        add(prefix + ".self_attn.per_dim_scale", np.zeros(hidden // audio["num_attention_heads"]))
        clamped(prefix + ".lconv1d.linear_start", 2 * hidden, hidden)
        clamped(prefix + ".lconv1d.linear_end", hidden, hidden)
        add(prefix + ".lconv1d.depthwise_conv1d.weight",
            random.uniform(-0.5, 0.5, (hidden, audio["conv_kernel_size"], 1)))
    halves("audio_tower.output_proj.weight", audio["output_proj_dims"], hidden)
    add("audio_tower.output_proj.bias", np.zeros(audio["output_proj_dims"]))
    add_matrix("embed_audio.embedding_projection", config["text_config"]["hidden_size"], audio["output_proj_dims"])


# What config.json says of experts in MXFP4.
MX_CONFIG = {"group_size": 32, "bits": 4, "mode": "mxfp4"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=64)
    parser.add_argument("--weights", choices=["affine", *MX, *FLOATS], default="affine",
                        help="how weights are stored; --bits and --group-size are for affine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, help="instead of the model's own number: a large one in small")
    parser.add_argument("--towers", action="store_true", help="of gemma-4-e2b: encoders of images and sounds too")
    arguments = parser.parse_args()
    if arguments.towers and arguments.shape != "gemma-4-e2b":
        parser.error("only gemma-4-e2b has towers")

    config = dict(SHAPES[arguments.shape])
    config["num_hidden_layers"] = arguments.layers or config["num_hidden_layers"]
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:config["num_hidden_layers"]]
    is_gpt_oss = config["model_type"] == "gpt_oss"
    quantization = {"group_size": arguments.group_size, "bits": arguments.bits}
    random = np.random.default_rng(arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)
    writer = Writer(arguments.out / "model.safetensors")

    def add_matrix(name, rows, columns):
        rows = rows if isinstance(rows, tuple) else (rows,)
        bits = arguments.bits
        if name.endswith((".mlp.gate", ".shared_expert_gate")):
            # MLX's default for routers.
            bits = 8
            quantization[name] = {"group_size": arguments.group_size, "bits": bits}
        if is_gpt_oss:
            # Biases of all linear maps, and experts in MXFP4.
            if "layers" in name:
                writer.add(name + ".bias", "BF16", np.zeros(rows, np.uint16))
            if len(rows) == 2:
                return add_floating(name, rows, columns, "mxfp4")
            bits = 8
            quantization[name] = {"group_size": arguments.group_size, "bits": bits}
        if arguments.weights != "affine":
            return add_floating(name, rows, columns, arguments.weights)
        words = random.integers(0, 2**32, (*rows, columns * bits // 32), np.uint32)
        # Uniform q in 0 ..< 2^bits around a bias of minus the middle: zero mean, variance 1 / columns.
        levels = 2 ** bits
        scale = np.sqrt(12 / (levels**2 - 1) / columns)
        groups = (*rows, columns // arguments.group_size)
        writer.add(name + ".weight", "U32", words)
        writer.add(name + ".scales", "BF16", np.full(groups, bf16(scale), np.uint16))
        writer.add(name + ".biases", "BF16", np.full(groups, bf16(-scale * (levels - 1) / 2), np.uint16))

    def add_floating(name, rows, columns, weights):
        if weights in FLOATS:
            values = random.standard_normal((*rows, columns), np.float32) * np.float32(columns**-0.5)
            kind, convert = FLOATS[weights]
            return writer.add(name + ".weight", kind, convert(values))
        form = MX[weights]
        # Of a byte of E4M3 one bit of the exponent stays clear: no NaN, values below 2.
        words = random.integers(0, 2**32, (*rows, columns * form["bits"] // 32), np.uint32)
        words &= np.uint32(0xFFFFFFFF if form["bits"] == 4 else 0xBFBFBFBF)
        scale = 1 / np.sqrt(form["square"] * columns)
        code = 127 + round(np.log2(scale)) if form["scale"] == "e8m0" else max(1, round(scale * 512))
        writer.add(name + ".weight", "U32", words)
        writer.add(name + ".scales", "U8", np.full((*rows, columns // form["group_size"]), code, np.uint8))

    def add_norm(name, count, suffix=".weight", value=1.0):
        writer.add(name + suffix, "BF16", np.full(count, bf16(value), np.uint16))

    model = "language_model.model." if arguments.towers else "model."
    hidden = config["hidden_size"]
    add_matrix(model + "embed_tokens", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"{model}layers.{layer}."
        is_lfm2 = config["model_type"] == "lfm2"
        # Gemma 2 adds 1 to the gains of its norms.
        gain = 0.0 if config["model_type"] == "gemma2" else 1.0
        add_norm(prefix + ("operator_norm" if is_lfm2 else "input_layernorm"), hidden, value=gain)
        add_norm(prefix + ("ffn_norm" if is_lfm2 else "post_attention_layernorm"), hidden, value=gain)
        if config["model_type"] == "gemma2":
            add_norm(prefix + "pre_feedforward_layernorm", hidden, value=gain)
            add_norm(prefix + "post_feedforward_layernorm", hidden, value=gain)
        if is_gpt_oss:
            add_norm(prefix + "self_attn.sinks", config["num_attention_heads"], suffix="", value=0.0)
        if is_lfm2 and config["layer_types"][layer] == "conv":
            taps = config["conv_L_cache"]
            weights = random.uniform(-1, 1, (hidden, taps, 1)) * np.sqrt(3 / taps)
            writer.add(prefix + "conv.conv.weight", "BF16", bf16(weights))
        elif is_lfm2:
            for name in ("q_layernorm", "k_layernorm"):
                add_norm(prefix + "self_attn." + name, head_size(config, layer))
        if config["model_type"] == "gemma4_text":
            add_norm(prefix + "pre_feedforward_layernorm", hidden)
            add_norm(prefix + "post_feedforward_layernorm", hidden)
            add_norm(prefix + "post_per_layer_input_norm", hidden)
            add_norm(prefix + "layer_scalar", 1, suffix="")
        if is_recurrent(config, layer):
            heads, size = config["linear_num_value_heads"], config["linear_value_head_dim"]
            channels = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + heads * size
            taps = config["linear_conv_kernel_dim"]
            weights = random.uniform(-1, 1, (channels, taps, 1)) * np.sqrt(3 / taps)
            writer.add(prefix + "linear_attn.conv1d.weight", "BF16", bf16(weights))
            # States that last for some ten to some thousand tokens.
            writer.add(prefix + "linear_attn.A_log", "F32", np.log(random.uniform(1, 16, heads)).astype(np.float32))
            add_norm(prefix + "linear_attn.dt_bias", heads, suffix="", value=-6.0)
            add_norm(prefix + "linear_attn.norm", size)
        elif config["model_type"] in ("qwen3", "qwen3_moe", "gemma4_text", "qwen3_5_text", "qwen3_5_moe_text"):
            # Gemma 4 does not scale scores.
            value = head_size(config, layer) ** -0.25 if config["model_type"] == "gemma4_text" else 1.0
            add_norm(prefix + "self_attn.q_norm", head_size(config, layer), value=value)
            add_norm(prefix + "self_attn.k_norm", head_size(config, layer), value=value)
        for name, rows, columns in linear_shapes(config, layer):
            add_matrix(prefix + name, rows, columns)
    add_norm(model + ("embedding_norm" if config["model_type"] == "lfm2" else "norm"), hidden,
             value=0.0 if config["model_type"] == "gemma2" else 1.0)
    if not config["tie_word_embeddings"]:
        add_matrix("lm_head", config["vocab_size"], hidden)
    if config["model_type"] == "gemma4_text":
        width = config["hidden_size_per_layer_input"]
        add_matrix(model + "embed_tokens_per_layer", config["vocab_size"], config["num_hidden_layers"] * width)
        add_matrix(model + "per_layer_model_projection", config["num_hidden_layers"] * width, hidden)
        add_norm(model + "per_layer_projection_norm", width)

    if arguments.towers:
        config = dict(TOWERS, text_config=config)
        add_towers(config, random, add_matrix, lambda name, values: writer.add(name, "BF16", bf16(values)))
    writer.close()
    if is_gpt_oss:
        quantization.update(MX_CONFIG)
    elif arguments.weights in MX:
        form = MX[arguments.weights]
        quantization = {"group_size": form["group_size"], "bits": form["bits"], "mode": arguments.weights}
    if arguments.weights not in FLOATS:
        config.update(quantization=quantization, quantization_config=quantization)
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(f"{arguments.out}: {arguments.shape}, {writer.offset / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
