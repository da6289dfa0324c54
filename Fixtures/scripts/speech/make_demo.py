"""Makes Fixtures/speech/demo: a Whisper model of one layer that writes the same two sentences of every window.

All maps are zero, so a state is the embedding of a token plus that of its position; the position's is the embedding of
the token that comes next. Needs nothing but Python."""

import json
import pathlib
import random
import struct

ROOT = pathlib.Path(__file__).resolve().parents[3]
HIDDEN, BANDS, POSITIONS, TEXT = 64, 80, 1500, 64
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
# The last three begin words with marks, as in the published vocabularies: what begins so is never written, and a blank is.
MERGES = [("h", "e"), ("l", "l"), ("Ġ", "w"), ("o", "r"), ("Ġ", "-"), ("Ġ", "'"), ("Ġ", "â")]


def letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = {byte: 256 + place for place, byte in enumerate(b for b in range(256) if b not in plain)}
    return [chr(other.get(byte, byte)) for byte in range(256)]


def tokenizer():
    vocabulary = {letter: byte for byte, letter in enumerate(letters())}
    for first, second in MERGES:
        vocabulary[first + second] = len(vocabulary)
    added = [{"id": len(vocabulary) + place, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for place, name in enumerate(SPECIAL)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocabulary,
                  "merges": [" ".join(pair) for pair in MERGES]},
    }


def written(tokens):
    """The tokens that follow one another, from the first position on."""
    ids = {entry["content"]: entry["id"] for entry in tokens["added_tokens"]}
    zero = ids["<|notimestamps|>"] + 1
    vocabulary = tokens["model"]["vocab"]

    def spell(*pieces):
        return [vocabulary[piece] for piece in pieces]

    hello = spell("Ġ", "H", "e", "ll", "o", "Ġw", "or", "l", "d", ".")
    again = spell("Ġ", "A", "g", "a", "i", "n", ".")
    opening = [ids["<|en|>"], ids["<|transcribe|>"]]
    return opening + [zero] + hello + [zero + 60, zero + 60] + again + [zero + 100, ids["<|endoftext|>"]]


def main():
    folder = ROOT / "Fixtures" / "speech" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    tokens = tokenizer()
    size = len(tokens["model"]["vocab"]) + len(SPECIAL) + 1501
    draw = random.Random(7)
    embedding = []
    for _ in range(size):
        row = [draw.gauss(0, 1) for _ in range(HIDDEN)]
        length = sum(x * x for x in row) ** 0.5
        embedding.append([3 * x / length for x in row])
    sequence = written(tokens)
    places = [[8 * x for x in embedding[token]] for token in sequence + [sequence[-1]] * (TEXT - len(sequence))]
    arrays = {
        "model.decoder.embed_tokens.weight": embedding,
        "model.decoder.embed_positions.weight": places,
        "model.encoder.conv1.weight": [HIDDEN, BANDS, 3],
        "model.encoder.conv2.weight": [HIDDEN, HIDDEN, 3],
    }
    for name in "conv1", "conv2":
        arrays[f"model.encoder.{name}.bias"] = [HIDDEN]
    for side in "encoder", "decoder":
        layer = f"model.{side}.layers.0"
        attentions = ["self_attn"] + (["encoder_attn"] if side == "decoder" else [])
        norms = [f"{layer}.{name}_layer_norm" for name in attentions]
        for norm in [*norms, f"{layer}.final_layer_norm", f"model.{side}.layer_norm"]:
            arrays[norm + ".weight"] = [[1.0] * HIDDEN]
            arrays[norm + ".bias"] = [HIDDEN]
        for attention in attentions:
            for name in "q_proj", "k_proj", "v_proj", "out_proj":
                arrays[f"{layer}.{attention}.{name}.weight"] = [HIDDEN, HIDDEN]
                if name != "k_proj":
                    arrays[f"{layer}.{attention}.{name}.bias"] = [HIDDEN]
        for name, rows, columns in ("fc1", HIDDEN, HIDDEN), ("fc2", HIDDEN, HIDDEN):
            arrays[f"{layer}.{name}.weight"] = [rows, columns]
            arrays[f"{layer}.{name}.bias"] = [rows]
    header, blobs, at = {}, [], 0
    for name, value in arrays.items():
        if isinstance(value[0], list):
            rows, shape = value, [len(value), len(value[0])]
            if len(value) == 1:
                shape = shape[1:]
            data = b"".join(struct.pack("<f", x)[2:] for row in rows for x in row)
        else:
            shape, count = value, 1
            for x in shape:
                count *= x
            data = bytes(2 * count)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    config = {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": HIDDEN,
        "num_mel_bins": BANDS, "vocab_size": size, "max_source_positions": POSITIONS, "max_target_positions": TEXT,
        "activation_function": "gelu",
    }
    for side in "encoder", "decoder":
        config.update({f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": HIDDEN})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps({"is_multilingual": True}) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokens, ensure_ascii=False) + "\n")


main()
