"""Writes trained weights as an MLX 4-bit checkpoint (affine, group 64) with its configuration files."""

import argparse
import json

import numpy as np
import safetensors.numpy
import torch

import chat
import net


def packed(codes: np.ndarray) -> np.ndarray:
    """Eight 4-bit codes to a 32-bit word, the first in the lowest bits."""
    words = codes.reshape(codes.shape[0], -1, 8).astype(np.uint32)
    return np.bitwise_or.reduce(words << (4 * np.arange(8, dtype=np.uint32)), axis=-1)


def quantised(name: str, weight: torch.Tensor) -> dict[str, np.ndarray]:
    scale, bias = net.affine_parameters(weight)
    codes = net.codes(weight, scale, bias).reshape(weight.shape)
    module = name.removesuffix(".weight")
    return {
        f"{module}.weight": packed(codes.numpy()),
        f"{module}.scales": scale.half().numpy(),
        f"{module}.biases": bias.half().numpy(),
    }


def write_json(name: str, value) -> None:
    (chat.FIXTURE / name).write_text(json.dumps(value, indent=2) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("weights")
    options = arguments.parse_args()

    tensors = {}
    for name, weight in torch.load(options.weights)["weights"].items():
        if weight.dim() == 2:
            tensors |= quantised(name, weight)
        else:
            tensors[name] = weight.half().numpy()
    safetensors.numpy.save_file(tensors, chat.FIXTURE / "model.safetensors", metadata={"format": "mlx"})

    number = chat.load_tokenizer().token_to_id
    shape = net.Shape()
    quantisation = {"group_size": net.GROUP, "bits": 4}
    write_json(
        "config.json",
        {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "eos_token_id": number(chat.FINISH),
            "pad_token_id": number(chat.END),
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "hidden_size": shape.hidden,
            "initializer_range": 0.02,
            "intermediate_size": shape.ffn,
            "max_position_embeddings": shape.positions,
            "num_attention_heads": shape.heads,
            "num_hidden_layers": shape.layers,
            "num_key_value_heads": shape.kv_heads,
            "rms_norm_eps": shape.eps,
            "rope_theta": shape.theta,
            "rope_scaling": None,
            "tie_word_embeddings": True,
            "torch_dtype": "float16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": shape.vocab,
            "quantization": quantisation,
            "quantization_config": quantisation,
        },
    )
    write_json(
        "generation_config.json",
        {"do_sample": False, "eos_token_id": [number(chat.FINISH), number(chat.END)], "pad_token_id": number(chat.END)},
    )
    total = sum(tensor.nbytes for tensor in tensors.values())
    print(f"{len(tensors)} tensors, {total} bytes")


if __name__ == "__main__":
    main()
