#!/usr/bin/env python3
"""Makes tiny random checkpoints of families and what transformers computes from them in float32.

    python3 make_fixtures.py OUT_DIR [NAME ...]

Written with torch 2.13.0 (CPU), transformers 5.23.0, safetensors 0.8.0, numpy 2.4.6; the models from OLMoE on with
torch 2.15.0 and transformers 5.24.0. Weights are bfloat16; the reference runs on the same weights widened to float32.
Experts are written as MLX stores them, one tensor for all.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SMALL = dict(vocab_size=160, hidden_size=48, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=4096, rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2)
# The factor of Gemma's embeddings is exact: 8.
NARROW = dict(hidden_size=64, intermediate_size=64)
LITTLE = dict(SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16)
ROUTED = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1, first_k_dense_replace=1,
              norm_topk_prob=True, n_group=1, topk_group=1)
LATENT = dict(q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24, head_dim=8)
COHERE = {k: v for k, v in LITTLE.items() if k not in ("rms_norm_eps", "head_dim")} | dict(layer_norm_eps=1e-5)
GEMMA4_LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]

MODELS = {
    # Every fourth layer without positions.
    "smollm3-tiny": ("SmolLM3", dict(
        SMALL, num_hidden_layers=5, tie_word_embeddings=True, rope_theta=1e4, no_rope_layer_interval=4)),
    # All four multipliers, and the biases that Llama's layers may have.
    "granite-tiny": ("Granite", dict(
        SMALL, num_hidden_layers=3, tie_word_embeddings=True, rope_theta=1e4, attention_bias=True, mlp_bias=True,
        embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.22, logits_scaling=8.0)),
    # A head size of its own, yarn, and queries that grow every eight positions.
    "ministral3-tiny": ("Ministral3", dict(
        SMALL, num_hidden_layers=3, head_dim=32, tie_word_embeddings=False, sliding_window=None,
        rope_parameters=dict(
            rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=8, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    # phi-4: all of a head rotates, without scaling, untied.
    "phi4-tiny": ("Phi3", dict(
        SMALL, num_hidden_layers=2, tie_word_embeddings=False, sliding_window=None,
        rope_parameters=dict(rope_type="default", rope_theta=250000.0, partial_rotary_factor=1.0))),
    "mixtral-tiny": ("Mixtral", dict(
        SMALL, hidden_size=32, num_hidden_layers=2, tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=None, rope_theta=1e4)),
    # The second layer has no experts; weights are shares of all experts, not of the chosen.
    "qwen3moe-mixed-tiny": ("Qwen3Moe", dict(
        SMALL, num_hidden_layers=3, head_dim=16, tie_word_embeddings=False, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, norm_topk_prob=False, mlp_only_layers=[1], decoder_sparse_step=1,
        rope_theta=1e4)),
    # Bounded scores and logits; layers 0 and 2 slide.
    "gemma2-tiny": ("Gemma2", dict(
        SMALL | NARROW, num_hidden_layers=3, head_dim=16, tie_word_embeddings=True, sliding_window=8,
        attn_logit_softcapping=2.0, final_logit_softcapping=10.0, query_pre_attn_scalar=12, rope_theta=1e4,
        rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh")),
    "gemma-tiny": ("Gemma", dict(
        SMALL | NARROW, num_hidden_layers=2, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True, rope_theta=1e4,
        rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh")),
    # An MLP beside the experts with a gate of one number; the second layer is dense.
    "qwen2moe-tiny": ("Qwen2Moe", dict(
        SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=3, tie_word_embeddings=False, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48, norm_topk_prob=False,
        mlp_only_layers=[1], decoder_sparse_step=1, rope_theta=1e4)),
    # Sinks, a window, YaRN without rounding, biases everywhere, experts with a clipped SwiGLU.
    "gptoss-tiny": ("GptOss", dict(
        SMALL, hidden_size=32, intermediate_size=32, head_dim=16, num_hidden_layers=2, tie_word_embeddings=False,
        num_local_experts=4, num_experts_per_tok=2, sliding_window=8, attention_bias=True, swiglu_limit=1.0,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(
            rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=128, truncate=False))),
    "seedoss-tiny": ("SeedOss", dict(
        SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16, tie_word_embeddings=False,
        attention_bias=True, attention_out_bias=True, rope_theta=1e7)),
    # Neighbours are rotated; biases on every linear map.
    "ernie45-tiny": ("Ernie4_5", dict(
        SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16, tie_word_embeddings=True, use_bias=True,
        rope_theta=5e5)),
    # Heads are normalised after the rotation; a base raised by alpha.
    "hunyuan-tiny": ("HunYuanDenseV1", dict(
        SMALL, hidden_size=32, intermediate_size=64, num_hidden_layers=2, head_dim=16, tie_word_embeddings=True,
        rope_theta=1e4, rope_scaling=dict(
            type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0))),
    # Gated delta nets with two heads of values to one of keys, and a gated full layer, in the original layout.
    "qwen35-tiny": ("Qwen3_5Text", dict(
        SMALL, num_hidden_layers=4, head_dim=16, tie_word_embeddings=True, full_attention_interval=4,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=12, linear_value_head_dim=20,
        linear_conv_kernel_dim=4,
        rope_parameters=dict(
            rope_type="default", rope_theta=1e4, partial_rotary_factor=0.25, mrope_section=[1, 1, 0],
            mrope_interleaved=True))),
    # The same with experts and one beside them, and fused projections of each head of keys, in MLX's layout.
    "qwen3next-tiny": ("Qwen3Next", dict(
        SMALL, hidden_size=32, intermediate_size=48, num_hidden_layers=4, head_dim=16, tie_word_embeddings=False,
        full_attention_interval=2, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=8, linear_conv_kernel_dim=4, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, shared_expert_intermediate_size=16, norm_topk_prob=True, decoder_sparse_step=1,
        mlp_only_layers=[2],
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.25))),
    # Gated short convolutions, normalised heads, a width of the MLP that is rounded up.
    "lfm2-tiny": ("Lfm2", dict(
        {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}, hidden_size=32, num_hidden_layers=4, norm_eps=1e-5,
        intermediate_size=70, block_ff_dim=70, block_auto_adjust_ff_dim=True, block_multiple_of=16,
        block_ffn_dim_multiplier=1.0, conv_L_cache=3, conv_bias=False, rope_theta=1e4, tie_word_embeddings=True,
        layer_types=["conv", "full_attention", "conv", "conv"])),
    # Mamba 2 with one group, attention without positions, experts and an MLP beside them.
    "granite4-tiny": ("GraniteMoeHybrid", dict(
        SMALL, hidden_size=32, intermediate_size=16, shared_intermediate_size=24, num_hidden_layers=3,
        tie_word_embeddings=True, num_local_experts=4, num_experts_per_tok=2, attention_bias=False,
        embedding_multiplier=6.0, attention_multiplier=0.125, residual_multiplier=0.4, logits_scaling=2.0,
        layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=16, mamba_d_state=12, mamba_d_conv=4,
        mamba_n_groups=1, mamba_expand=2, mamba_conv_bias=True, mamba_proj_bias=False,
        position_embedding_type="nope")),
    # One branch per layer, two groups, experts of two matrices. transformers bounds steps of time below, which
    # published code does not: the bound is so low that it does nothing.
    "nemotronh-tiny": ("NemotronH", dict(
        {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}, hidden_size=32, intermediate_size=48,
        num_hidden_layers=5, head_dim=16, tie_word_embeddings=False, layer_norm_epsilon=1e-5,
        hybrid_override_pattern="M*E-M", mamba_num_heads=4, mamba_head_dim=8, ssm_state_size=12, n_groups=2,
        conv_kernel=4, use_conv_bias=True, mamba_proj_bias=False, mlp_hidden_act="relu2", n_routed_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, moe_shared_expert_intermediate_size=24,
        n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.5, time_step_min=1e-12,
        time_step_floor=1e-12)),
    # Attention beside Mamba 2 in every layer, the gated norm over one group.
    "falconh1-tiny": ("FalconH1", dict(
        SMALL, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=16, tie_word_embeddings=False,
        mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=12, mamba_n_groups=1, mamba_d_conv=4,
        mamba_conv_bias=True, mamba_proj_bias=False, mamba_rms_norm=True, mamba_norm_before_gate=False,
        rope_theta=1e4, embedding_multiplier=1.0, lm_head_multiplier=1.0, key_multiplier=1.0,
        attention_in_multiplier=1.0, attention_out_multiplier=1.0, ssm_in_multiplier=1.0, ssm_out_multiplier=1.0,
        ssm_multipliers=[1.0] * 5, mlp_multipliers=[1.0] * 2)),
    # The delta rule with decays of channels, latent attention without positions, experts after a dense layer.
    "kimilinear-tiny": ("KimiLinear", dict(
        SMALL | dict(num_key_value_heads=4), hidden_size=32, intermediate_size=48, num_hidden_layers=3, head_dim=16,
        tie_word_embeddings=False, linear_attn_config=dict(
            full_attn_layers=[2], kda_layers=[1, 3], head_dim=12, num_heads=3, short_conv_kernel_size=4),
        kv_lora_rank=16, q_lora_rank=None, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=12, mla_use_nope=True,
        num_experts=4, num_experts_per_token=2, moe_intermediate_size=16, num_shared_experts=1, moe_renormalize=True,
        moe_router_activation_func="sigmoid", routed_scaling_factor=1.5, first_k_dense_replace=1, moe_layer_freq=1,
        use_grouped_topk=True, num_expert_group=1, topk_group=1)),
    # Norms after attention and MLP, of all heads together; YaRN on the full layer alone.
    "olmo2-tiny": ("Olmo2", dict(LITTLE, tie_word_embeddings=False, rope_theta=5e5)),
    "olmo3-tiny": ("Olmo3", dict(
        LITTLE, tie_word_embeddings=False, sliding_window=8, layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(
            full_attention=dict(
                rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=64, attention_factor=1.2,
                beta_fast=32.0, beta_slow=1.0),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    # Neighbours rotate in half of each head; four norms, one matrix of gate and up.
    "glm4-tiny": ("Glm4", dict(
        LITTLE, tie_word_embeddings=False, attention_bias=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    "glm4moe-tiny": ("Glm4Moe", dict(
        LITTLE | ROUTED, num_hidden_layers=3, tie_word_embeddings=False, attention_bias=True, use_qk_norm=True,
        routed_scaling_factor=1.5,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    # Latent attention as MLX cuts it, and as DeepSeek stores it.
    "glm4moelite-tiny": ("Glm4MoeLite", dict(
        LITTLE | ROUTED | LATENT, num_key_value_heads=4, tie_word_embeddings=False, rope_theta=1e4,
        routed_scaling_factor=1.8)),
    "deepseekv3-tiny": ("DeepseekV3", dict(
        LITTLE | ROUTED | LATENT, num_key_value_heads=4, tie_word_embeddings=False, n_routed_experts=8, n_group=4, topk_group=2,
        routed_scaling_factor=2.5, rope_scaling=dict(
            type="yarn", rope_type="yarn", rope_theta=1e4, factor=40.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=1.0, original_max_position_embeddings=64))),
    "deepseekv2-tiny": ("DeepseekV2", dict(
        LITTLE | ROUTED | LATENT, num_key_value_heads=4, tie_word_embeddings=False, q_lora_rank=None, topk_method="greedy",
        norm_topk_prob=False, n_shared_experts=2, rope_theta=1e4)),
    # Sliding layers with positions, a full one without.
    "exaone4-tiny": ("Exaone4", dict(
        LITTLE, num_hidden_layers=3, tie_word_embeddings=False, sliding_window=8, rope_theta=1e4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    # Attention and MLP side by side; heads with layer norms of their own.
    "cohere-tiny": ("Cohere", dict(
        COHERE, tie_word_embeddings=True, use_qk_norm=True, logit_scale=0.25, rope_theta=1e4)),
    "cohere2-tiny": ("Cohere2", dict(
        COHERE, head_dim=16, tie_word_embeddings=True, logit_scale=0.5, sliding_window=8, rope_theta=1e4,
        layer_types=["sliding_attention", "full_attention"])),
    # A bias that only the choice of experts adds; two shared experts in one MLP.
    "ernie45moe-tiny": ("Ernie4_5_Moe", dict(
        LITTLE, num_hidden_layers=3, tie_word_embeddings=True, moe_num_experts=6, moe_k=2, moe_intermediate_size=32,
        moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2, moe_layer_interval=1, use_bias=False,
        rope_theta=1e4)),
    "starcoder2-tiny": ("Starcoder2", dict(
        {k: v for k, v in LITTLE.items() if k not in ("rms_norm_eps", "head_dim")}, norm_epsilon=1e-5,
        tie_word_embeddings=True, use_bias=True, sliding_window=8, hidden_act="gelu_pytorch_tanh", rope_theta=1e4)),
    "minimaxm2-tiny": ("MiniMaxM2", dict(
        LITTLE, intermediate_size=32, tie_word_embeddings=False, num_local_experts=6, num_experts_per_tok=2, rotary_dim=8,
        use_qk_norm=True, scoring_func="sigmoid",
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    # Chunks of eight positions, a layer without positions whose queries grow, one expert beside the shared one.
    "llama4-tiny": ("Llama4Text", dict(
        LITTLE, num_hidden_layers=4, tie_word_embeddings=False, intermediate_size=32, intermediate_size_mlp=64,
        num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=8, use_qk_norm=True,
        attn_temperature_tuning=True, floor_scale=8, attn_scale=0.1, no_rope_layers=[1, 1, 1, 0], rope_theta=1e4)),
    "apertus-tiny": ("Apertus", dict(
        LITTLE, tie_word_embeddings=False, hidden_act="xielu", post_norm=False, qk_norm=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e4))),
    # As in the 26B: experts beside the MLP, keys that are also values, no second embedding.
    "gemma4-moe-tiny": ("Gemma4Text", dict(
        {k: v for k, v in SMALL.items() if k not in ("rms_norm_eps", "hidden_size", "intermediate_size")},
        # transformers rounds the factor of embeddings only with the weights: 8 is exact.
        rms_norm_eps=1e-6, num_hidden_layers=3,
        num_global_key_value_heads=1, head_dim=16, global_head_dim=32, num_kv_shared_layers=0,
        hidden_size_per_layer_input=0, sliding_window=8, final_logit_softcapping=30.0, attention_k_eq_v=True,
        tie_word_embeddings=True, use_bidirectional_attention="vision", layer_types=GEMMA4_LAYERS,
        enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24, hidden_size=64,
        intermediate_size=64,
        use_double_wide_mlp=False, rope_parameters=dict(
            full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    # Heads normalised together, experts in every layer, shares of all of them.
    "olmoe-tiny": ("Olmoe", dict(
        {k: v for k, v in LITTLE.items() if k != "head_dim"}, intermediate_size=24, tie_word_embeddings=False, num_experts=6,
        num_experts_per_tok=2, norm_topk_prob=False, clip_qkv=None, rope_theta=1e4)),
    # transformers has no class; MiMo's own code makes Qwen2 draft heads that are not part of the decoder.
    "mimo-tiny": ("Qwen2", dict(
        {k: v for k, v in LITTLE.items() if k != "head_dim"}, model_type="mimo", tie_word_embeddings=False,
        rope_theta=640000.0, use_sliding_window=False, max_window_layers=2, sliding_window=32768,
        num_nextn_predict_layers=1)),
    # Biases everywhere; a base that only sequences beyond the context raise.
    "internlm3-tiny": ("InternLM3", dict(
        LITTLE | dict(head_dim=8), tie_word_embeddings=False, qkv_bias=True, bias=True, rope_theta=1e4,
        rope_scaling=dict(rope_type="dynamic", factor=6.0))),
    # Sliding layers with positions, a full one without, and norms before the branches; a dense layer, groups of experts.
    "exaonemoe-tiny": ("ExaoneMoe", dict(
        LITTLE, num_hidden_layers=3, tie_word_embeddings=False, sliding_window=8, rope_theta=1e4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"], moe_intermediate_size=16, num_experts=8, num_experts_per_tok=2,
        num_shared_experts=1, n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5)),
    # Heads normalised after the rotation, a raised base, experts whose shares add up to 1 and an MLP beside them.
    "hunyuanmoe-tiny": ("HunYuanMoEV1", dict(
        LITTLE | dict(head_dim=8, intermediate_size=24), tie_word_embeddings=True, num_experts=6, moe_topk=[2, 3], num_shared_expert=[1, 1],
        moe_intermediate_size=[24, 24], use_mixed_mlp_moe=True, use_qk_norm=True, use_cla=False, rope_theta=1e4,
        rope_scaling=dict(
            type="dynamic", alpha=1000.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0))),
    # No dense layer and no norms of heads; YaRN over the whole head.
    "solaropen-tiny": ("SolarOpen", dict(
        {k: v for k, v in (LITTLE | ROUTED).items() if k not in ("intermediate_size", "first_k_dense_replace")},
        moe_intermediate_size=24, tie_word_embeddings=False, routed_scaling_factor=1.0, rope_theta=1e6,
        rope_scaling=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=64))),
    # Normalised heads, a dense layer, two shared experts in one MLP.
    "dots1-tiny": ("Dots1", dict(
        LITTLE | ROUTED, tie_word_embeddings=False, n_shared_experts=2, moe_intermediate_size=24, routed_scaling_factor=2.5,
        rope_theta=1e4)),
    # Norms around both branches, a gate of attention in a matrix of its own, positions in sliding layers alone.
    "afmoe-tiny": ("Afmoe", dict(
        LITTLE, num_hidden_layers=3, tie_word_embeddings=False, sliding_window=8, rope_theta=1e4,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], num_dense_layers=1,
        moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, num_shared_experts=1, route_scale=2.826,
        mup_enabled=True)),
    # Nemotron 3 Super: experts between two maps to a smaller width.
    "nemotronh-latent-tiny": ("NemotronH", dict(
        {k: v for k, v in SMALL.items() if k != "rms_norm_eps"}, hidden_size=32, intermediate_size=48,
        num_hidden_layers=3, head_dim=16, tie_word_embeddings=False, layer_norm_epsilon=1e-5,
        hybrid_override_pattern="M*E", mamba_num_heads=4, mamba_head_dim=8, ssm_state_size=12, n_groups=2,
        conv_kernel=4, use_conv_bias=True, mamba_proj_bias=False, mlp_hidden_act="relu2", n_routed_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, moe_latent_size=16, n_shared_experts=1,
        moe_shared_expert_intermediate_size=24, n_group=1, topk_group=1, norm_topk_prob=True,
        routed_scaling_factor=2.5, time_step_min=1e-12, time_step_floor=1e-12)),
}


def randomise(model):
    """Weights with enough contrast that a token's likeliest successor is not itself, rounded to bfloat16."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if not tensor.is_floating_point() or any(word in name for word in ("inv_freq", "embed_scale", "mup_vector")):
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if "norm" in name and "linear_attn" not in name and hasattr(model.config, "linear_num_key_heads"):
                # Stored as what the gain adds to 1; the sum has to fit bfloat16 too.
                value = ((1 if name.endswith("model.norm.weight") else 0.2) * noise * 32).round() / 32
            elif name.endswith("model.norm.weight"):
                value = noise - (1 if model.config.model_type in ("gemma", "gemma2") else 0)
            elif "norm" in name or "scale" in name or "scalar" in name:
                value = 1 + 0.2 * noise
            elif "embed_tokens" in name:
                # Gemma multiplies by 8; in the older sizes nothing else keeps a token from being its own successor.
                value = (0.03 if model.config.model_type in ("gemma", "gemma2") else 0.4) * noise
            elif name.endswith("bias"):
                value = 0.1 * noise
            elif name.endswith("sinks"):
                value = noise
            elif "act_fn" in name:
                value = 0.5 + 0.2 * noise if "alpha" in name else tensor
            else:
                value = noise / tensor.shape[-1] ** 0.5
            tensor.copy_(value.to(torch.bfloat16).float())


RECURRENT = ("Qwen3_5Text", "Qwen3Next", "Lfm2", "GraniteMoeHybrid", "NemotronH", "FalconH1", "KimiLinear")

# Kinds whose experts MLX calls `switch_mlp`, in the same place.
SWITCH_MLP = ("DeepseekV2", "DeepseekV3", "Ernie4_5_Moe", "ExaoneMoe", "Glm4Moe", "Glm4MoeLite", "HunYuanMoEV1",
              "KimiLinear", "MiniMaxM2", "Olmoe", "Qwen2Moe", "Qwen3Moe", "Qwen3Next", "SolarOpen")


def absorbed(stem, value, config):
    """The heads' keys turned over, and their values, as MLX stores them."""
    heads = value.view(config.num_attention_heads, -1, config.kv_lora_rank)
    keys, values = heads.split([config.qk_nope_head_dim, config.v_head_dim], 1)
    return {stem + "embed_q.weight": keys.transpose(1, 2), stem + "unembed_out.weight": values}


def gpt_oss_experts(name, value):
    """Gate and up in turns, and outputs last, to one matrix of rows each."""
    bias = name.endswith("_bias")
    stem, part = name.removesuffix("_bias").rsplit(".", 1)
    end = ".bias" if bias else ".weight"
    value = value if bias else value.transpose(1, 2)
    if part == "down_proj":
        return {f"{stem}.down_proj{end}": value}
    return {f"{stem}.gate_proj{end}": value[:, ::2], f"{stem}.up_proj{end}": value[:, 1::2]}


def mlx_tensors(model, kind):
    """The checkpoint as MLX's converter lays it out."""
    tensors = {}
    skipped = ("inv_freq", "embed_scale")
    for name, value in model.state_dict().items():
        if any(word in name for word in skipped) and kind not in ("NemotronH", "KimiLinear"):
            continue
        if kind == "KimiLinear":
            name = name.replace("forget_gate.", "").replace(".gate.e_score", ".e_score")
            if name.endswith("conv1d.weight"):
                for part, rows in zip("qkv", value.chunk(3)):
                    tensors[name.replace("conv1d", f"{part}_conv.conv")] = rows.transpose(1, 2)
                continue
        if kind == "NemotronH":
            name = name.replace("model.", "backbone.", 1)
            if ".experts." in name:
                name = name.replace(".experts.up_proj", ".switch_mlp.fc1.weight")
                name = name.replace(".experts.down_proj", ".switch_mlp.fc2.weight")
        name = name.replace(".router.weight", ".router.layer.weight") if kind == "GraniteMoeHybrid" else name
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        name = name.replace(".mlp.experts.", ".mlp.switch_mlp.") if kind in SWITCH_MLP else name
        name = name.replace(".mlp.", ".block_sparse_moe.") if kind in ("Mixtral", "MiniMaxM2") else name
        name = name.replace(".block_sparse_moe.experts.", ".block_sparse_moe.switch_mlp.")
        name = name.replace(".experts.", ".experts.switch_glu.") if kind == "Gemma4Text" else name
        if kind == "Llama4Text" and ".experts." in name:
            # Inputs come first in transformers.
            value, name = value.transpose(1, 2), name
        if kind == "Glm4MoeLite" and name.endswith("kv_b_proj.weight"):
            tensors |= absorbed(name.removesuffix("kv_b_proj.weight"), value, model.config)
        elif kind == "GptOss" and ".experts." in name:
            tensors |= gpt_oss_experts(name, value)
        elif name.endswith(".gate_up_proj") and value.dim() == 3:
            half = value.shape[1] // 2
            tensors[name.replace("gate_up_proj", "gate_proj.weight")] = value[:, :half]
            tensors[name.replace("gate_up_proj", "up_proj.weight")] = value[:, half:]
        elif name.endswith(".down_proj") and value.dim() == 3:
            tensors[name + ".weight"] = value
        elif name.endswith("conv1d.weight") and kind != "Qwen3_5Text":
            tensors[name] = value.transpose(1, 2)
        elif kind == "Qwen3Next" and "norm" in name and "linear_attn" not in name:
            tensors[name] = 1 + value
        else:
            tensors[name] = value
    exact = ("score_correction", "expert_bias", "act_fn")
    return {name: value.to(torch.float32 if any(word in name for word in exact) else torch.bfloat16).contiguous()
            for name, value in tensors.items()}


def make(name, folder):
    kind, settings = MODELS[name]
    config = getattr(transformers, kind + "Config")(**{k: v for k, v in settings.items() if k != "model_type"})
    config._attn_implementation = "eager"
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    # InternLM3 is a Llama there, with a config of its own.
    made = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM", transformers.AutoModelForCausalLM.from_config)
    model = made(config).float().eval()
    randomise(model)
    # Recurrent layers add to their state every 32 tokens.
    ids = [(i * 37 + 11) % 160 for i in range(70 if kind in RECURRENT else 24)]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        tokens = list(ids)
        for _ in range(8):
            tokens.append(int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(mlx_tensors(model, kind), folder / "model.safetensors", {"format": "mlx"})
    # The keys of released checkpoints; transformers itself now writes some under other names.
    kept = dict(model_type=config.model_type) | settings
    (folder / "config.json").write_text(json.dumps(kept, indent=1) + "\n")
    expected = dict(
        note=f"{type(model).__name__} of transformers {transformers.__version__}, float32, eager attention",
        input_ids=ids, logits_first=[round(v, 6) for v in logits[0].tolist()],
        logits_last=[round(v, 6) for v in logits[-1].tolist()], argmax_each=logits.argmax(-1).tolist(),
        greedy=tokens[len(ids):])
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    (folder / "layers.json").write_text(json.dumps(layers(model, ids)) + "\n")
    if kind == "Gemma4Text":
        (folder / "images.json").write_text(json.dumps(with_images(model, ids)) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(name, f"{size / 1024:.0f} KiB", expected["greedy"], len(set(expected["argmax_each"])))


def layers(model, ids):
    """The residual stream after every layer, at the beginning, inside of every window, and at the end."""
    found = []
    def take(module, arguments, result):
        found.append((result[0] if isinstance(result, tuple) else result)[0])
    hooks = [layer.register_forward_hook(take) for layer in model.model.layers]
    with torch.no_grad():
        model(torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    rows = [0, 5, len(ids) - 1]
    return dict(
        note=f"transformers {transformers.__version__}, float32: the residual stream after every layer at these positions",
        positions=rows,
        layers=[[[round(value, 5) for value in layer[row].tolist()] for row in rows] for layer in found])


def with_images(model, ids):
    """Logits of a prompt with two images, whose positions see each other in both directions where the mask says so."""
    from transformers.models.gemma4 import modeling_gemma4 as gemma4

    # One longer than the window, one shorter.
    groups = [(4, 16), (18, 22)]
    kinds = torch.tensor([[int(any(a <= i < b for a, b in groups)) for i in range(len(ids))]])
    generator = torch.Generator().manual_seed(8)
    soft = (torch.randn(int(kinds.sum()), model.config.hidden_size, generator=generator) * 64).round() / 16
    with torch.no_grad():
        embeddings = model.model.embed_tokens(torch.tensor([ids]))
        embeddings[kinds == 1] = soft
        places = torch.arange(len(ids))[None]
        masks = gemma4.create_masks_for_vision_model(
            config=model.config, inputs_embeds=embeddings, attention_mask=None, past_key_values=None,
            position_ids=places,
            block_sequence_ids=gemma4.get_block_sequence_ids_for_mask(kinds, device=embeddings.device))
        logits = model(inputs_embeds=embeddings, attention_mask=masks, position_ids=places, use_cache=False).logits[0]
    rows = [4, 10, 15, 18, len(ids) - 1]
    return dict(
        note=f"transformers {transformers.__version__}, float32: soft tokens in place of the groups' embeddings",
        input_ids=ids, groups=groups, soft=soft.flatten().tolist(), rows=rows,
        logits=[[round(v, 6) for v in logits[row].tolist()] for row in rows])


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or MODELS:
        make(name, out / name)


if __name__ == "__main__":
    main()
