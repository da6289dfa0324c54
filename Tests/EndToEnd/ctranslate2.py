"""Reads a Whisper model of CTranslate2 and writes it as the Hugging Face checkpoint that it was made of."""

import json
import pathlib
import shutil
import struct

TYPES = {0: ("F32", 4), 4: ("F16", 2)}
LAYER = [
    ("self_attention/layer_norm", "self_attn_layer_norm"),
    ("self_attention/linear_0", "self_attn.qkv"),
    ("self_attention/linear_1", "self_attn.out_proj"),
    ("attention/layer_norm", "encoder_attn_layer_norm"),
    ("attention/linear_0", "encoder_attn.q_proj"),
    ("attention/linear_1", "encoder_attn.kv"),
    ("attention/linear_2", "encoder_attn.out_proj"),
    ("ffn/layer_norm", "final_layer_norm"),
    ("ffn/linear_0", "fc1"),
    ("ffn/linear_1", "fc2"),
]
REST = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.layer_norm",
    "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
    "decoder/layer_norm": "decoder.layer_norm",
    "decoder/embeddings": "decoder.embed_tokens",
    "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
}


def variables(path):
    """Name -> (type, shape, bytes) of all variables of a model.bin."""
    data = memoryview(pathlib.Path(path).read_bytes())
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0]

    def text():
        nonlocal at
        length = take("H")
        at += length
        return bytes(data[at - length : at]).rstrip(b"\0").decode()

    version, spec = take("I"), text()
    if version < 5 or spec != "WhisperSpec":
        raise ValueError(f"{path}: {spec} in version {version} is not a Whisper model of CTranslate2")
    take("I")
    found = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        found[name] = (kind, shape, data[at : at + size])
        at += size
    return found


def target(name):
    """What a variable is called in the checkpoint; None for one that it does not have."""
    for prefix, other in REST.items():
        if name == prefix or name.startswith(prefix + "/"):
            name = name.replace(prefix, other, 1)
            break
    else:
        parts = name.split("/", 2)
        if len(parts) < 3 or not parts[1].startswith("layer_"):
            return None
        for prefix, other in LAYER:
            if parts[2].startswith(prefix + "/"):
                rest = parts[2][len(prefix) :]
                name = f"{parts[0]}.layers.{parts[1][6:]}.{other}{rest}"
                break
        else:
            return None
    for old, new in ("/gamma", ".weight"), ("/beta", ".bias"), ("/weight", ".weight"), ("/bias", ".bias"):
        name = name.replace(old, new)
    return "model." + name


def split(name, shape, data):
    """Maps that CTranslate2 has put on top of one another, as the checkpoint has them; its keys have no bias."""
    for joined, names in (".qkv.", ["q_proj", "k_proj", "v_proj"]), (".kv.", ["k_proj", "v_proj"]):
        if joined in name:
            part = len(data) // len(names)
            rows = [shape[0] // len(names)] + shape[1:]
            for index, own in enumerate(names):
                whole = name.replace(joined, f".{own}.")
                if not whole.endswith("k_proj.bias"):
                    yield whole, rows, data[index * part : (index + 1) * part]
            return
    yield name, shape, data


def convert(source, folder):
    """Writes `folder` with config.json, model.safetensors, tokenizer.json and generation_config.json."""
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    header, blobs, at = {}, [], 0
    found = variables(source / "model.bin")
    for own, (kind, shape, data) in found.items():
        name = target(own)
        if name is None or not shape:
            continue
        for name, rows, part in split(name, shape, data):
            header[name] = {"dtype": TYPES[kind][0], "shape": rows, "data_offsets": [at, at + len(part)]}
            blobs.append(part)
            at += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            out.write(blob)
    shape = {name: entry["shape"] for name, entry in header.items()}
    hidden, bands, _ = shape["model.encoder.conv1.weight"]
    layers = {
        side: len({name.split(".")[3] for name in shape if name.startswith(f"model.{side}.layers.")})
        for side in ("encoder", "decoder")
    }
    config = {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "d_model": hidden,
        "num_mel_bins": bands,
        "vocab_size": shape["model.decoder.embed_tokens.weight"][0],
        "max_source_positions": 1500,
        "max_target_positions": shape["model.decoder.embed_positions.weight"][0],
    }
    for side, count in layers.items():
        config[f"{side}_layers"] = count
        config[f"{side}_attention_heads"] = hidden // 64
        config[f"{side}_ffn_dim"] = 4 * hidden
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    settings = json.loads((source / "config.json").read_text())
    generation = {
        "alignment_heads": settings["alignment_heads"],
        "suppress_tokens": settings["suppress_ids"],
        "begin_suppress_tokens": settings["suppress_ids_begin"],
        "is_multilingual": config["vocab_size"] >= 51865,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation))
    shutil.copy(source / "tokenizer.json", folder / "tokenizer.json")


if __name__ == "__main__":
    import sys

    convert(*sys.argv[1:3])
