#!/usr/bin/env python3
"""Makes GGUF files of tiny random models with llama.cpp's own converter, and what transformers computes from them in float32.

    python3 make_gguf_fixtures.py LLAMA_CPP OUT_DIR [NAME ...]

LLAMA_CPP is its source tree. Written with that of llama-cpp-python 0.3.36, torch 2.15.0 (CPU) and transformers 5.24.0. The
models are those of make_fixtures.py, where need be with settings that GGUF can say, and a few more. Weights are bfloat16.
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

from make_fixtures import GEMMA4_LAYERS, LITTLE, MODELS, SMALL, randomise

LLAMA_CPP = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]

import gguf  # noqa: E402
from conversion import get_model_class  # noqa: E402
from conversion.base import ModelBase, TextModel  # noqa: E402

TextModel.get_vocab_base_pre = lambda self, tokenizer: "default"

SLIDING = dict(num_hidden_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"])
# What the file does not say, since the published models have it alike; and smaller sizes.
CHANGES = {
    "smollm3": dict(hidden_size=32, intermediate_size=48),
    "granite": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2),
    "mixtral": dict(intermediate_size=48),
    "qwen3moe-mixed": dict(hidden_size=32, num_hidden_layers=2, mlp_only_layers=[], norm_topk_prob=True),
    "qwen2moe": dict(num_hidden_layers=2, mlp_only_layers=[]),
    "qwen35": dict(hidden_size=32, intermediate_size=48),
    "qwen3next": dict(num_hidden_layers=2, mlp_only_layers=[]),
    "gemma2": dict(query_pre_attn_scalar=16, num_hidden_layers=2),
    "phi4": dict(hidden_size=32, intermediate_size=48),
    "gptoss": dict(swiglu_limit=7.0),
    "nemotronh": dict(mamba_num_heads=2, mamba_head_dim=64, hybrid_override_pattern="M*EM"),
    "nemotronh-latent": dict(mamba_num_heads=2, mamba_head_dim=64),
    "hunyuan": dict(max_position_embeddings=262_144),
    "hunyuanmoe": dict(moe_topk=[2, 2], rope_scaling=None),
    "cohere2": dict(SLIDING, rotary_pct=1.0, head_dim=8),
    "exaone4": SLIDING,
    "afmoe": SLIDING,
    "llama4": dict(attention_chunk_size=8192, floor_scale=8192),
    "starcoder2": dict(sliding_window=4096),
    "olmo3": dict(rope_parameters=dict(
        full_attention=dict(
            rope_type="yarn", rope_theta=1e4, factor=8.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0,
            attention_factor=1.2079441541679836),
        sliding_attention=dict(rope_type="default", rope_theta=1e4))),
    # The converter multiplies the weights by them: powers of two leave these as they are.
    "falconh1": dict(
        embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.5, attention_in_multiplier=2.0,
        attention_out_multiplier=0.5, ssm_in_multiplier=0.5, ssm_out_multiplier=2.0,
        ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 2.0], mlp_multipliers=[0.5, 2.0]),
}
MORE = {
    "gemma3n": ("Gemma3nText", dict(
        vocab_size=160, vocab_size_per_layer_input=160, hidden_size=64, hidden_size_per_layer_input=16, intermediate_size=[32] * 4,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16, num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=8, max_position_embeddings=4096,
        rms_norm_eps=1e-6, altup_num_inputs=4, altup_active_idx=0, altup_correct_scale=True, altup_coef_clip=120.0,
        laurel_rank=8, activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0], final_logit_softcapping=30.0,
        hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        rope_parameters=dict(
            full_attention=dict(rope_type="default", rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    # As the smallest: upper layers take the keys of lower ones and are twice as wide, and a second embedding feeds all.
    "gemma4-e2b": ("Gemma4Text", dict(
        {k: v for k, v in SMALL.items() if k not in ("rms_norm_eps", "hidden_size", "intermediate_size")},
        rms_norm_eps=1e-6, num_hidden_layers=4, layer_types=GEMMA4_LAYERS[1:] * 2, num_kv_shared_layers=2, head_dim=16,
        global_head_dim=32, hidden_size=64, intermediate_size=32, hidden_size_per_layer_input=16,
        vocab_size_per_layer_input=160, sliding_window=8, final_logit_softcapping=30.0, tie_word_embeddings=True,
        use_double_wide_mlp=True, num_key_value_heads=1, rope_parameters=MODELS["gemma4-moe-tiny"][1]["rope_parameters"])),
    "qwen35moe": ("Qwen3_5MoeText", dict(
        MODELS["qwen35-tiny"][1], hidden_size=32, num_hidden_layers=2, full_attention_interval=2, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, tie_word_embeddings=False)),
    "lfm2moe": ("Lfm2Moe", dict(
        {k: v for k, v in LITTLE.items() if k not in ("rms_norm_eps", "head_dim")}, norm_eps=1e-5, num_hidden_layers=3,
        num_dense_layers=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, conv_L_cache=3, conv_bias=False,
        use_expert_bias=True, norm_topk_prob=True, routed_scaling_factor=1.0, rope_theta=1e4, tie_word_embeddings=True,
        layer_types=["conv", "full_attention", "conv"])),
}
ENCODERS = {
    "bert": ("Bert", dict(
        vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, type_vocab_size=2,
        max_position_embeddings=64, hidden_act="gelu", layer_norm_eps=1e-12, pad_token_id=0)),
    "nomic-bert": ("NomicBert", dict(
        vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, type_vocab_size=2,
        max_position_embeddings=64, hidden_act="silu", layer_norm_eps=1e-12, pad_token_id=0,
        rope_parameters=dict(rope_type="default", rope_theta=1000.0),
        # What published configs have, and the converter looks at.
        n_positions=8192, max_trained_positions=2048, activation_function="swiglu", causal=False, qkv_proj_bias=False,
        mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
        rotary_emb_scale_base=None, rotary_emb_base=1000.0)),
    "gemma-embedding": ("Gemma3Text", dict(
        {k: v for k, v in LITTLE.items() if k != "rms_norm_eps"}, hidden_size=64, rms_norm_eps=1e-6, sliding_window=8,
        num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32,
        layer_types=["sliding_attention"] * 5 + ["full_attention"], query_pre_attn_scalar=16, use_bidirectional_attention=True,
        tie_word_embeddings=True, rope_theta=1e6, rope_local_base_freq=1e4)),
}
# Apertus keeps numbers of its activation as settings, and is not read. A file of InternLM 3 is one of Llama, a file of MiMo
# one of Qwen 2, and a file of Solar Open one of GLM-4.5.
LEFT_OUT = ("apertus", "internlm3", "mimo", "solaropen")


def vocabulary(model):
    """A list of made-up words: only token ids are ever fed."""
    writer, count = model.gguf_writer, 160
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"w{index}" for index in range(count)])
    writer.add_token_types([gguf.TokenType.NORMAL] * count)
    writer.add_token_merges(["w 0"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def convert(folder, out):
    found = get_model_class(ModelBase.load_hparams(folder, False)["architectures"][0])
    made = type(found.__name__, (found,), dict(set_vocab=vocabulary, model_arch=found.model_arch, no_mtp=True))
    with torch.inference_mode():
        made(folder, gguf.LlamaFileType.MOSTLY_BF16, out).write()


def make(name, kind, settings, out):
    config = getattr(transformers, kind + "Config")(**{k: v for k, v in settings.items() if k != "model_type"})
    config._attn_implementation = "eager"
    if hasattr(config, "_experts_implementation"):
        config._experts_implementation = "eager"
    made = getattr(transformers, kind.removesuffix("Text") + "ForCausalLM", transformers.AutoModelForCausalLM.from_config)
    model = made(config).float().eval()
    # What no checkpoint has are constants.
    constants = {key: value.clone() for key, value in model.named_buffers() if key not in model.state_dict()}
    randomise(model)
    for key, value in model.named_buffers():
        if key in constants:
            value.copy_(constants[key])
    # Recurrent layers add to their state every 32 tokens.
    ids = [(i * 37 + 11) % 160 for i in range(40)]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        tokens = list(ids)
        for _ in range(8):
            tokens.append(int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save_pretrained(folder)
        # Published configs have these keys; transformers now writes some under other names.
        stated = json.loads((folder / "config.json").read_text()) | settings
        stated["architectures"] = stated.get("architectures") or [type(model).__name__]
        (folder / "config.json").write_text(json.dumps(stated))
        Tokenizer(models.BPE({f"w{index}": index for index in range(160)}, [])).save(str(folder / "tokenizer.json"))
        if kind == "KimiLinear":
            # Published files have the dense layer's MLP under another name.
            state = load_file(folder / "model.safetensors")
            state = {key.replace("layers.0.block_sparse_moe", "layers.0.mlp"): value for key, value in state.items()}
            save_file(state, folder / "model.safetensors", {"format": "pt"})
        convert(folder, out / f"{name}.gguf")
    expected = dict(
        note=f"{type(model).__name__} of transformers {transformers.__version__}, float32, eager attention; converted by llama.cpp",
        input_ids=ids, logits_first=[round(v, 6) for v in logits[0].tolist()],
        logits_last=[round(v, 6) for v in logits[-1].tolist()], argmax_each=logits.argmax(-1).tolist(),
        greedy=tokens[len(ids):])
    (out / f"{name}.expected.json").write_text(json.dumps(expected) + "\n")
    print(name, (out / f"{name}.gguf").stat().st_size, expected["greedy"], len(set(expected["argmax_each"])), flush=True)


def make_encoder(name, kind, settings, out):
    """The mean of a text's states, of length 1."""
    model = getattr(transformers, kind + "Model")(getattr(transformers, kind + "Config")(**settings)).float().eval()
    randomise(model)
    ids = [(i * 37 + 11) % 160 for i in range(20)]
    with torch.no_grad():
        vector = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save_pretrained(folder)
        stated = json.loads((folder / "config.json").read_text()) | settings
        stated["architectures"] = [type(model).__name__]
        (folder / "config.json").write_text(json.dumps(stated))
        Tokenizer(models.WordPiece({f"w{index}": index for index in range(160)}, unk_token="w0")).save(str(folder / "tokenizer.json"))
        (folder / "1_Pooling").mkdir()
        (folder / "modules.json").write_text(json.dumps([dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling")]))
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(dict(pooling_mode_mean_tokens=True)))
        convert(folder, out / f"{name}.gguf")
    expected = dict(input_ids=ids, embedding=[round(v, 6) for v in (vector / vector.norm()).tolist()])
    (out / f"{name}.expected.json").write_text(json.dumps(expected) + "\n")
    print(name, (out / f"{name}.gguf").stat().st_size, expected["embedding"][:3], flush=True)


def main():
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    all_models = {name.removesuffix("-tiny"): (kind, settings) for name, (kind, settings) in MODELS.items()} | MORE
    for name in sys.argv[3:] or [name for name in all_models if name not in LEFT_OUT] + list(ENCODERS):
        if name in ENCODERS:
            make_encoder(name, *ENCODERS[name], out)
            continue
        kind, settings = all_models[name]
        make(name, kind, settings | CHANGES.get(name, {}), out)


if __name__ == "__main__":
    main()
