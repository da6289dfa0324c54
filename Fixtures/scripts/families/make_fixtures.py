#!/usr/bin/env python3
"""Makes tiny random checkpoints of families and what transformers computes from them in float32.

    python3 make_fixtures.py OUT_DIR [NAME ...]

Written with torch 2.13.0 (CPU), transformers 5.23.0, safetensors 0.8.0, numpy 2.4.6. Weights are bfloat16; the
reference runs on the same weights widened to float32. Experts are written as MLX stores them, one tensor for all.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SMALL = dict(vocab_size=160, hidden_size=48, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=4096, rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1, eos_token_id=2)
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
}


def randomise(model):
    """Weights with enough contrast that a token's likeliest successor is not itself, rounded to bfloat16."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if not tensor.is_floating_point() or "inv_freq" in name or "embed_scale" in name:
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("model.norm.weight"):
                value = noise
            elif "norm" in name or "scale" in name or "scalar" in name:
                value = 1 + 0.2 * noise
            elif "embed_tokens" in name:
                value = 0.4 * noise
            elif name.endswith("bias"):
                value = 0.1 * noise
            else:
                value = noise / tensor.shape[-1] ** 0.5
            tensor.copy_(value.to(torch.bfloat16).float())


def mlx_tensors(model, kind):
    """The checkpoint as MLX's converter lays it out."""
    tensors = {}
    skipped = ("inv_freq", "embed_scale", "score_correction")
    for name, value in model.state_dict().items():
        if any(word in name for word in skipped):
            continue
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        name = name.replace(".mlp.experts.", ".mlp.switch_mlp.") if kind == "Qwen3Moe" else name
        name = name.replace(".mlp.", ".block_sparse_moe.") if kind == "Mixtral" else name
        name = name.replace(".block_sparse_moe.experts.", ".block_sparse_moe.switch_mlp.")
        name = name.replace(".experts.", ".experts.switch_glu.") if kind == "Gemma4Text" else name
        if name.endswith(".gate_up_proj") and value.dim() == 3:
            half = value.shape[1] // 2
            tensors[name.replace("gate_up_proj", "gate_proj.weight")] = value[:, :half]
            tensors[name.replace("gate_up_proj", "up_proj.weight")] = value[:, half:]
        elif name.endswith(".down_proj") and value.dim() == 3:
            tensors[name + ".weight"] = value
        else:
            tensors[name] = value
    return {name: value.to(torch.bfloat16).contiguous() for name, value in tensors.items()}


def make(name, folder):
    kind, settings = MODELS[name]
    config = getattr(transformers, kind + "Config")(**settings)
    config._attn_implementation = "eager"
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    model = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM")(config).float().eval()
    randomise(model)
    ids = [(i * 37 + 11) % 160 for i in range(24)]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        tokens = list(ids)
        for _ in range(8):
            tokens.append(int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(mlx_tensors(model, kind), folder / "model.safetensors", {"format": "mlx"})
    # The keys of released checkpoints; transformers itself now writes some under other names.
    kept = dict(settings, model_type=config.model_type)
    (folder / "config.json").write_text(json.dumps(kept, indent=1) + "\n")
    expected = dict(
        note=f"{kind}ForCausalLM of transformers {transformers.__version__}, float32, eager attention",
        input_ids=ids, logits_first=[round(v, 6) for v in logits[0].tolist()],
        logits_last=[round(v, 6) for v in logits[-1].tolist()], argmax_each=logits.argmax(-1).tolist(),
        greedy=tokens[len(ids):])
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    if kind == "Gemma4Text":
        (folder / "images.json").write_text(json.dumps(with_images(model, ids)) + "\n")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(name, f"{size / 1024:.0f} KiB", expected["greedy"], len(set(expected["argmax_each"])))


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
