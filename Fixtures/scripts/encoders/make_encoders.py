#!/usr/bin/env python3
"""Makes Fixtures/models/encoder-tiny, reranker-tiny and gte-reranker-tiny: random checkpoints, and what float64 computes from
them.

make_encoders.py [FOLDER]. Needs numpy. encoder-tiny is a sentence-transformers folder: mean pooling, a dense layer with
tanh, prompts, and at most 24 tokens; reranker-tiny scores pairs as BERT does, gte-reranker-tiny as gte-multilingual-reranker
(arXiv:2407.19669: rotated positions, a gated MLP of which the second half is the gate, one row of types). The tokenizer is WordPiece over letters and a few words;
its truncation and padding are traps."""

import json
import math
import pathlib
import struct
import sys

import numpy

HIDDEN, HEADS, INNER, LAYERS, POSITIONS, OUT = 32, 4, 64, 2, 40, 16
MOST = 24
WORDS = ["the", "cat", "sat", "on", "mat", "a", "queen", "made", "some", "tarts", "who", "stole", "query", "passage"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
VOCABULARY = SPECIAL + list(".,:?!'0123456789") + LETTERS + ["##" + letter for letter in LETTERS] + WORDS + ["##s", "##ing"]
VOCABULARY = list(dict.fromkeys(VOCABULARY))
IDS = {token: index for index, token in enumerate(VOCABULARY)}
erf = numpy.vectorize(math.erf)


def tokenizer():
    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}

    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 7}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [
            {"id": IDS[name], "content": name, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for name in SPECIAL],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]")],
            "pair": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]"),
                     {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {
                name: {"id": name, "ids": [IDS[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": IDS},
    }


def encode(text):
    """WordPiece over lower-case ASCII words and punctuation."""
    ids, word = [], ""
    for character in text.lower() + " ":
        if character.isalnum():
            word += character
            continue
        ids += pieces(word)
        word = ""
        if not character.isspace():
            ids.append(IDS.get(character, IDS["[UNK]"]))
    return ids


def pieces(word):
    ids, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in IDS:
                ids.append(IDS[piece])
                start = end
                break
        else:
            return [IDS["[UNK]"]]
    return ids


def maker(random):
    """An empty checkpoint, and what adds a random linear map or norm to it."""
    tensors = {}

    def matrix(name, rows, columns, bias=True):
        tensors[name + ".weight"] = random.standard_normal((rows, columns)) / math.sqrt(columns)
        if bias:
            tensors[name + ".bias"] = 0.1 * random.standard_normal(rows)

    def norm(name):
        tensors[name + ".weight"] = 1 + 0.1 * random.standard_normal(HIDDEN)
        tensors[name + ".bias"] = 0.1 * random.standard_normal(HIDDEN)

    return tensors, matrix, norm


def weights(random, reranker):
    prefix = "bert." if reranker else ""
    tensors, matrix, norm = maker(random)

    embeddings = prefix + "embeddings."
    for name, rows in (("word", len(VOCABULARY)), ("position", POSITIONS), ("token_type", 2)):
        matrix(f"{embeddings}{name}_embeddings", rows, HIDDEN, bias=False)
        tensors[f"{embeddings}{name}_embeddings.weight"] *= math.sqrt(HIDDEN)
    norm(embeddings + "LayerNorm")
    for index in range(LAYERS):
        layer = f"{prefix}encoder.layer.{index}."
        for name in ("query", "key", "value"):
            matrix(f"{layer}attention.self.{name}", HIDDEN, HIDDEN)
        matrix(layer + "attention.output.dense", HIDDEN, HIDDEN)
        norm(layer + "attention.output.LayerNorm")
        matrix(layer + "intermediate.dense", INNER, HIDDEN)
        matrix(layer + "output.dense", HIDDEN, INNER)
        norm(layer + "output.LayerNorm")
    if reranker:
        matrix("bert.pooler.dense", HIDDEN, HIDDEN)
        matrix("classifier", 1, HIDDEN)
    return {name: values.astype(numpy.float32) for name, values in tensors.items()}


class Model:
    """The forward pass in float64."""

    def __init__(self, tensors, prefix=""):
        self.tensors = {name: values.astype(numpy.float64) for name, values in tensors.items()}
        self.prefix = prefix

    def linear(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, name, x):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / numpy.sqrt(variance + 1e-12) * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def states(self, ids, types):
        def table(name):
            return self.tensors[f"{self.prefix}embeddings.{name}_embeddings.weight"]

        x = table("word")[ids] + table("position")[: len(ids)] + table("token_type")[types]
        x = self.norm(self.prefix + "embeddings.LayerNorm", x)
        for index in range(LAYERS):
            layer = f"{self.prefix}encoder.layer.{index}."
            q, k, v = (
                self.linear(f"{layer}attention.self.{name}", x).reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(HIDDEN // HEADS)
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            heads = (scores / scores.sum(-1, keepdims=True)) @ v
            attended = self.linear(layer + "attention.output.dense", heads.transpose(1, 0, 2).reshape(len(ids), HIDDEN))
            x = self.norm(layer + "attention.output.LayerNorm", x + attended)
            inner = self.linear(layer + "intermediate.dense", x)
            inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
            x = self.norm(layer + "output.LayerNorm", x + self.linear(layer + "output.dense", inner))
        return x


def gte_weights(random):
    tensors, matrix, norm = maker(random)

    for name, rows in (("word", len(VOCABULARY)), ("token_type", 1)):
        matrix(f"new.embeddings.{name}_embeddings", rows, HIDDEN, bias=False)
        tensors[f"new.embeddings.{name}_embeddings.weight"] *= math.sqrt(HIDDEN)
    norm("new.embeddings.LayerNorm")
    for index in range(LAYERS):
        layer = f"new.encoder.layer.{index}."
        matrix(layer + "attention.qkv_proj", 3 * HIDDEN, HIDDEN)
        matrix(layer + "attention.o_proj", HIDDEN, HIDDEN)
        norm(layer + "attn_ln")
        matrix(layer + "mlp.up_gate_proj", 2 * INNER, HIDDEN, bias=False)
        matrix(layer + "mlp.down_proj", HIDDEN, INNER)
        norm(layer + "mlp_ln")
    matrix("new.pooler.dense", HIDDEN, HIDDEN)
    matrix("classifier", 1, HIDDEN)
    return {name: values.astype(numpy.float32) for name, values in tensors.items()}


class GTE(Model):
    """The forward pass of `new` in float64."""

    def turned(self, x):
        """Halves of each head, turned by its position."""
        half = HIDDEN // HEADS // 2
        angles = numpy.arange(x.shape[1])[:, None] * 10_000.0 ** (-numpy.arange(half) / half)
        low, high = x[..., :half], x[..., half:]
        cos, sin = numpy.cos(angles), numpy.sin(angles)
        return numpy.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

    def states(self, ids, types):
        table = lambda name: self.tensors[f"new.embeddings.{name}_embeddings.weight"]
        x = self.norm("new.embeddings.LayerNorm", table("word")[ids] + table("token_type")[0])
        for index in range(LAYERS):
            layer = f"new.encoder.layer.{index}."
            q, k, v = (part.reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
                       for part in numpy.split(self.linear(layer + "attention.qkv_proj", x), 3, -1))
            scores = self.turned(q) @ self.turned(k).transpose(0, 2, 1) / math.sqrt(HIDDEN // HEADS)
            scores = numpy.exp(scores - scores.max(-1, keepdims=True))
            heads = (scores / scores.sum(-1, keepdims=True)) @ v
            attended = self.linear(layer + "attention.o_proj", heads.transpose(1, 0, 2).reshape(len(ids), HIDDEN))
            x = self.norm(layer + "attn_ln", x + attended)
            up, gate = numpy.split(x @ self.tensors[layer + "mlp.up_gate_proj.weight"].T, 2, -1)
            inner = gate * (1 + erf(gate / math.sqrt(2))) / 2 * up
            x = self.norm(layer + "mlp_ln", x + self.linear(layer + "mlp.down_proj", inner))
        return x


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, values in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n")


def config(architecture):
    return {
        "model_type": "bert", "architectures": [architecture], "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": INNER, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "vocab_size": len(VOCABULARY), "pad_token_id": 0,
    }


def unit(vector):
    return (vector / max(numpy.linalg.norm(vector), 1e-12)).tolist()


TEXTS = [
    "The cat sat on the mat.", "Who stole the tarts?", "", "a", "query: who made some tarts", "zzz [SEP] 42!",
    "the queen made some tarts on a mat and the cat sat on the queen while some tarts sat on the cat",
]
PAIRS = [
    ("who stole the tarts", "the queen made some tarts"), ("who stole the tarts", "the cat sat on the mat."),
    ("the cat", ""),
    ("who made the tarts on the mat", "the queen made some tarts and the cat sat on the mat and on the tarts of the queen"),
]


def tokens(text):
    """Special tokens in a text are those tokens."""
    ids = []
    for index, part in enumerate(text.split("[SEP]")):
        ids += ([IDS["[SEP]"]] if index else []) + encode(part)
    return ids


def encoder(folder, random):
    tensors = weights(random, reranker=False)
    dense = {
        "linear.weight": (random.standard_normal((OUT, HIDDEN)) / math.sqrt(HIDDEN)).astype(numpy.float32),
        "linear.bias": (0.1 * random.standard_normal(OUT)).astype(numpy.float32),
    }
    model, cases = Model(tensors), []
    for text in TEXTS:
        ids = tokens(text)
        whole = len(ids) + 2
        ids = [IDS["[CLS]"], *ids[: MOST - 2], IDS["[SEP]"]]
        states = model.states(ids, [0] * len(ids))
        pooled = states.mean(0)
        vector = numpy.tanh(pooled @ dense["linear.weight"].astype(float).T + dense["linear.bias"])
        cases.append({
            "text": text, "input_ids": ids, "tokens_untruncated": whole, "embedding": unit(vector),
            "unnormalised": vector.tolist(), "last_hidden_first": states[0].tolist(),
            "last_hidden_last": states[-1].tolist(), "matryoshka": {"8": unit(vector[:8])}})
    write(folder / "config.json", config("BertModel"))
    write(folder / "tokenizer.json", tokenizer())
    write(folder / "tokenizer_config.json", {"model_max_length": 512})
    write(folder / "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
        {"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}])
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True})
    write(folder / "2_Dense" / "config.json", {
        "in_features": HIDDEN, "out_features": OUT, "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh"})
    write(folder / "sentence_bert_config.json", {"max_seq_length": MOST, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {
        "prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": None,
        "similarity_fn_name": "cosine"})
    write(folder / "expected.json", {"max_seq_length": MOST, "pooling": "mean", "cases": cases})
    write_tensors(folder / "model.safetensors", tensors)
    write_tensors(folder / "2_Dense" / "model.safetensors", dense)


def fit(first, second, room):
    """The longer of two texts gives way first."""
    if len(first) + len(second) <= room:
        return first, second
    half = room // 2
    if len(first) <= len(second):
        keep = len(first) if len(first) <= half else half
        return first[:keep], second[: room - keep]
    keep = len(second) if len(second) <= half else half
    return first[: room - keep], second[:keep]


def reranker(folder, model, tensors, config, pooler):
    pairs = []
    for query, document in PAIRS:
        first, second = tokens(query), tokens(document)
        whole = len(first) + len(second) + 3
        first, second = fit(first, second, MOST - 3)
        ids = [IDS["[CLS]"], *first, IDS["[SEP]"], *second, IDS["[SEP]"]]
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        pooled = numpy.tanh(model.linear(pooler, model.states(ids, types)[0]))
        logit = float(model.linear("classifier", pooled)[0])
        pairs.append({
            "query": query, "document": document, "input_ids": ids, "token_type_ids": types,
            "tokens_untruncated": whole, "logits": [logit], "score": 1 / (1 + math.exp(-logit))})
    write(folder / "config.json", {**config, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}})
    write(folder / "tokenizer.json", tokenizer())
    write(folder / "tokenizer_config.json", {"model_max_length": MOST})
    write(folder / "expected.json", {"max_seq_length": MOST, "pairs": pairs})
    write_tensors(folder / "model.safetensors", tensors)


def main():
    default = pathlib.Path(__file__).resolve().parents[2] / "models"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    random = numpy.random.default_rng(22)
    encoder(folder / "encoder-tiny", random)
    tensors = weights(random, reranker=True)
    reranker(
        folder / "reranker-tiny", Model(tensors, "bert."), tensors, config("BertForSequenceClassification"),
        "bert.pooler.dense")
    tensors = gte_weights(random)
    reranker(folder / "gte-reranker-tiny", GTE(tensors), tensors, {
        **config("NewForSequenceClassification"), "model_type": "new", "type_vocab_size": 1, "layer_norm_type": "layer_norm",
        "position_embedding_type": "rope", "rope_theta": 10000.0, "rope_scaling": None}, "new.pooler.dense")


if __name__ == "__main__":
    main()
