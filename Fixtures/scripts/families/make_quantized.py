#!/usr/bin/env python3
"""Makes tiny random checkpoints in MLX's layout, quantized, and what mlx-lm computes from them in float32.

    python3 make_quantized.py OUT_DIR [NAME ...]

Written with mlx 0.32.4 (CPU) and mlx-lm 0.32.2. Stored parameters are bfloat16 and affine 4 bits in groups of 32; the
reference runs on the same parameters widened to float32. For hunyuanmoe-tiny-q4 mlx-lm has to divide the weights of the
chosen experts by their sum (`scores` in its hunyuan.py), as transformers and the original code do.
"""

import importlib
import json
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

mx.set_default_device(mx.cpu)

BASE = dict(vocab_size=160, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            rms_norm_eps=1e-5, max_position_embeddings=8192, rope_theta=10000.0, tie_word_embeddings=False)
SPECS = {
    "olmoe-tiny-q4": dict(
        BASE, num_key_value_heads=4, model_type="olmoe", intermediate_size=32, num_experts=8,
        num_experts_per_tok=3, norm_topk_prob=False, attention_bias=False, clip_qkv=None),
    "mimo-tiny-q4": dict(
        BASE, rope_theta=640000.0, model_type="mimo", intermediate_size=128, num_nextn_predict_layers=1,
        attention_bias=True, head_dim=16, use_sliding_window=False, max_window_layers=3, sliding_window=32768),
    "internlm3-tiny-q4": dict(
        BASE, rope_theta=50000000.0, model_type="internlm3", intermediate_size=128, head_dim=16, bias=False,
        qkv_bias=False, rope_scaling={"factor": 6.0, "rope_type": "dynamic"}),
    "exaonemoe-tiny-q4": dict(
        BASE, num_hidden_layers=4, rope_theta=1000000.0, model_type="exaone_moe", intermediate_size=128,
        moe_intermediate_size=32, head_dim=16, num_experts=8, num_experts_per_tok=3, num_shared_experts=1,
        sliding_window=16, sliding_window_pattern="LLLG", layer_types=["sliding_attention", "sliding_attention",
        "sliding_attention", "full_attention"], is_moe_layer=[False, True, True, True], first_k_dense_replace=1,
        n_group=1, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True, scoring_func="sigmoid",
        topk_method="noaux_tc", num_nextn_predict_layers=1),
    "hunyuanmoe-tiny-q4": dict(
        BASE, tie_word_embeddings=True, model_type="hunyuan", intermediate_size=32, moe_intermediate_size=[32,
        32, 32], attention_bias=False, attention_head_dim=16, moe_topk=[3, 3, 3], num_experts=8,
        num_shared_expert=[1, 1, 1], use_mixed_mlp_moe=True, use_qk_norm=True, use_cla=False,
        cla_share_factor=2, moe_layer_num_skipped=0, norm_topk_prob=True, rope_scaling={"alpha": 1000.0,
        "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type":
        "dynamic"}),
    "solaropen-tiny-q4": dict(
        BASE, rope_theta=1000000.0, model_type="solar_open", intermediate_size=128, moe_intermediate_size=32,
        head_dim=16, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, first_k_dense_replace=0,
        norm_topk_prob=True, routed_scaling_factor=1.0, partial_rotary_factor=1.0, n_group=1, topk_group=1,
        use_qk_norm=False, attention_bias=False),
    "dots1-tiny-q4": dict(
        BASE, model_type="dots1", intermediate_size=128, moe_intermediate_size=32, head_dim=16,
        n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, first_k_dense_replace=1,
        norm_topk_prob=True, routed_scaling_factor=2.5, scoring_func="noaux_tc", n_group=1, topk_group=1,
        attention_bias=False),
    "afmoe-tiny-q4": dict(
        BASE, num_hidden_layers=4, model_type="afmoe", intermediate_size=128, moe_intermediate_size=32,
        head_dim=16, num_experts=8, num_experts_per_tok=3, num_shared_experts=1, num_dense_layers=1,
        route_norm=True, route_scale=2.826, score_func="sigmoid", n_group=1, topk_group=1, sliding_window=16,
        mup_enabled=True, global_attn_every_n_layers=4, layer_types=["sliding_attention", "sliding_attention",
        "sliding_attention", "full_attention"]),
    "nemotronh-latent-tiny-q4": dict(
        {k: v for k, v in BASE.items() if k != "rms_norm_eps"}, num_hidden_layers=6, model_type="nemotron_h", intermediate_size=96, head_dim=16,
        layer_norm_epsilon=1e-05, hybrid_override_pattern="ME*EME", mamba_num_heads=8, mamba_head_dim=8,
        ssm_state_size=16, n_groups=2, conv_kernel=4, use_conv_bias=True, mamba_proj_bias=False, use_bias=False,
        attention_bias=False, mlp_bias=False, mamba_hidden_act="silu", mlp_hidden_act="relu2",
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, moe_latent_size=32,
        n_shared_experts=1, moe_shared_expert_intermediate_size=64, n_group=1, topk_group=1,
        norm_topk_prob=True, routed_scaling_factor=5.0, num_nextn_predict_layers=1,
        mtp_hybrid_override_pattern="*E", time_step_limit=None),
    "deepseek-tiny-q4": dict(
        BASE, num_hidden_layers=2, num_key_value_heads=4, model_type="deepseek", intermediate_size=96,
        moe_intermediate_size=32, n_routed_experts=6, n_shared_experts=2, num_experts_per_tok=2,
        first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
        attention_bias=False, aux_loss_alpha=0.001, seq_aux=True),
    "exaone-tiny-q4": dict(
        {k: v for k, v in BASE.items() if k not in ("num_hidden_layers", "rms_norm_eps")}, rope_theta=1000000.0,
        tie_word_embeddings=True, model_type="exaone", num_layers=2, layer_norm_epsilon=1e-05,
        activation_function="silu", intermediate_size=96, rope_scaling={"rope_type": "llama3", "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
    "internlm2-tiny-q4": dict(
        BASE, num_hidden_layers=2, rope_theta=1000000.0, model_type="internlm2", intermediate_size=96,
        bias=True, rope_scaling={"type": "dynamic", "factor": 2.0}),
    "minicpm-tiny-q4": dict(
        BASE, num_hidden_layers=2, model_type="minicpm", intermediate_size=96, scale_emb=12, scale_depth=1.4,
        dim_model_base=16),
}


def drawn(name, shape, model_type):
    """The values of a parameter: enough contrast that positions differ."""
    noise = mx.random.normal(shape)
    if "norm" in name or "ln_" in name:
        return 1 + 0.2 * noise
    if name.endswith("A_log"):
        return mx.log(1 + 7 * mx.random.uniform(shape=shape))
    if name.endswith("dt_bias"):
        return noise * 0.5 - 2
    if name.endswith(".D"):
        return 1 + 0.1 * noise
    if name.endswith("bias"):
        return 0.1 * noise
    if any(word in name for word in ("embed", "wte")):
        return noise * (0.1 if model_type in ("afmoe", "minicpm") else 0.4)
    return noise * (0.5 if "conv1d" in name else 1.3 / shape[-1] ** 0.5)


def widened(model):
    pairs = tree_flatten(model.parameters())
    model.update(tree_unflatten(
        [(name, value.astype(mx.float32) if mx.issubdtype(value.dtype, mx.floating) else value) for name, value in pairs]))


def make(name, folder):
    config = dict(SPECS[name])
    architecture = importlib.import_module("mlx_lm.models." + config["model_type"])
    model = architecture.Model(architecture.ModelArgs.from_dict(config))
    mx.random.seed(sum(map(ord, name)))
    exact = ("e_score_correction", "expert_bias", "A_log")
    values = [(key, drawn(key, value.shape, config["model_type"])) for key, value in tree_flatten(model.parameters())]
    model.update(tree_unflatten(
        [(key, value if any(word in key for word in exact) else value.astype(mx.bfloat16)) for key, value in values]))
    model.eval()
    settings = dict(group_size=32, bits=4, mode="affine")

    def rule(path, module):
        if not hasattr(module, "to_quantized") or module.weight.shape[-1] % 32:
            return False
        chosen = model.quant_predicate(path, module) if getattr(model, "quant_predicate", None) else True
        if isinstance(chosen, dict):
            chosen = settings[path] = dict(chosen, group_size=32)
        return chosen

    nn.quantize(model, 32, 4, class_predicate=rule)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    config |= dict(quantization=settings, quantization_config=settings)
    (folder / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not None}, indent=1) + "\n")
    widened(model)
    ids = [(i * 37 + 11) % 160 for i in range(96)]
    logits = model(mx.array([ids]))[0]
    tokens = list(ids)
    for _ in range(8):
        tokens.append(int(model(mx.array([tokens]))[0, -1].argmax()))

    def row(position):
        return [round(value, 6) for value in logits[position].tolist()]

    expected = dict(
        note="mlx-lm 0.32.2", input_ids=ids, dtype="float32 activations; bf16 stored params upcast to f32",
        logits_first=row(0), logits_last=row(-1), logits_at={str(at): row(at) for at in (15, 16, 63, 64)},
        argmax_each=logits.argmax(-1).tolist(), greedy=tokens[len(ids):])
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(name, f"{size / 1024:.0f} KiB", expected["greedy"], len(set(expected["argmax_each"])))


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or SPECS:
        make(name, out / name)


if __name__ == "__main__":
    main()
