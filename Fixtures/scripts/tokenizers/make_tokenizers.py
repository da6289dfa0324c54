"""Trains the small tokenizers of Fixtures/tokenizers and records what the reference library makes of test strings.

Needs `tokenizers` 0.23.3. Usage: python make_tokenizers.py OUTPUT_FOLDER
Each NAME.json is a tokenizer.json; NAME.cases.json holds, per text: `plain` ids and, where they differ, `ids` with
special tokens; the text decoded without (`skipped`) and, where it differs, with special tokens (`kept`); and the
pieces that streaming `plain` gives (null where it waits).
"""
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.decoders import DecodeStream

CORPUS = [
    "A small server answers every request in the order in which it came.",
    "The queue holds sixteen requests; the seventeenth waits, and the waiting one is told so.",
    "Weights are read once per token, so reading fewer bytes makes the answer come sooner.",
    "I'll say it's fine, we've tested that they're not slower, and you'd agree; don't worry, I'm sure.",
    "def answer(request):\n    for token in model.generate(request):\n        yield token.text\n",
    "if (count >= 16) {\n\treturn queue.push(request); // 2048 bytes\n}\r\n",
    "Grüße aus Köln, déjà vu à la carte, señor Ñandú, ångström, œuvre, naïve façade.",
    "Привет, мир! Как дела? Ответ сервера: готово.",
    "Ένας μικρός διακομιστής απαντά σε κάθε αίτημα.",
    "你好,世界。服务器正在回答请求。請求在隊列中等待。",
    "こんにちは世界。サーバーは順番に答えます。",
    "안녕하세요 세계. 서버가 요청에 답합니다.",
    "مرحبا بالعالم. שלום עולם. नमस्ते दुनिया। สวัสดีชาวโลก",
    "Numbers: 0 1 12 123 1234 12345 3.14159 1,000,000 ½ Ⅷ ٣٤ 2026-11-21",
    "Emoji: 😀 😃 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ and symbols: ∑ ≠ → © ™ € £",
    "camelCase HTTPServer iPhone snake_case kebab-case /usr/local/bin https://example.org/a/b?c=d&e=f",
    "    indented      text\t\twith\t tabs \n\n\n and   blank\n \n lines   ",
    "{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, 3]}}",
]
TEXTS = CORPUS + [
    "", " ", "  ", "   x", "x   ", "\n", "\n\n", " \n", "\r\n\r\n", "\t", "a", "A", "é", "e\u0301", "\u0301", "\u0344",
    "\u1112\u1161\u11ab", "\u212b", "\ufb01", "q\u0323\u0307", "\u00a0\u2003\u3000", "\u200b\ufeff", "\u0000\u0001",
    "\ue000\U0010ffff", "'s'S'll'LL'ſ ’s", "''''", "...!?", "ǅǈ ªº ʰʱ", "x1y22z333w4444", "ABCdefGHI", "/a//b\n/", "a\u0301b\u0301",
    "<|start|>user\nHi<|end|>\n", "<|start|>  user \n <|end|>  x", "a<mask>b <mask> c", "<|star", "<call>f</call>", "é<|end|>é",
    " " * 40, "a" * 200, "\n" * 33, "é" * 100, "ab" * 100, "word " * 20, "👍🏽" * 9, "\u0301" * 30, "the request the requests",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN35 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
UPPER, LOWER, LEAD = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{N}]?"


def cases_pattern(contraction, digits):
    return (f"{LEAD}{UPPER}*{LOWER}+{contraction}|{LEAD}{UPPER}+{LOWER}*{contraction}|{digits}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(pre, normalizer=None, post=None, tokens=(), **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False), tokens)
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def sentencepiece(normalizer, pre, decoder, tokens, post=None):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    special = ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    alphabet = sorted(set("".join(CORPUS[:8]).replace(" ", "▁").replace("\n", "")))
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=480, special_tokens=special, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False))
    # Byte tokens are plain entries of the vocabulary, not added tokens.
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = [t for t in description["added_tokens"] if t["content"] == "<unk>"]
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.decoder = decoders.Sequence(decoder)
    add(tokenizer, tokens)
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def train(tokenizer, trainer, tokens):
    tokenizer.train_from_iterator(CORPUS, trainer)
    add(tokenizer, tokens)


def add(tokenizer, tokens):
    for content, special, flags in tokens:
        token = AddedToken(content, special=special, normalized=False, **flags)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])


def bos(name):
    return lambda tokenizer: processors.TemplateProcessing(
        single=f"{name} $A", pair=f"{name} $A {name} $B", special_tokens=[(name, tokenizer.token_to_id(name))])


CHAT = [("<|start|>", True, {}), ("<|end|>", True, {}), ("<call>", False, {}), ("</call>", False, {})]
STRIPPING = [("<|start|>", True, {"rstrip": True}), ("<|end|>", True, {"rstrip": True}), ("<mask>", True, {"lstrip": True})]
TO_BLOCK = normalizers.Replace(" ", "▁")
FROM_BLOCK = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
PLAIN_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def tokenizers():
    yield "qwen3", byte_level(
        pre_tokenizers.Sequence([split(QWEN2), PLAIN_BYTES]), normalizers.NFC(), tokens=CHAT)
    yield "qwen35", byte_level(pre_tokenizers.Sequence([split(QWEN35), PLAIN_BYTES]), tokens=CHAT)
    yield "llama3", byte_level(
        pre_tokenizers.Sequence([split(LLAMA3), PLAIN_BYTES]), tokens=CHAT, post=bos("<|start|>"), ignore_merges=True)
    yield "o200k", byte_level(
        pre_tokenizers.Sequence([split(cases_pattern(CONTRACTION + "?", r"\p{N}{1,3}")), PLAIN_BYTES]), tokens=STRIPPING)
    yield "tekken", byte_level(
        pre_tokenizers.Sequence([split(cases_pattern("", r"\p{N}")), PLAIN_BYTES]), tokens=CHAT, post=bos("<|start|>"))
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), tokens=CHAT)
    yield "smollm2", byte_level(pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), tokens=CHAT)
    yield "roberta", byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=True), tokens=STRIPPING,
        post=lambda t: processors.RobertaProcessing(
            ("<|end|>", t.token_to_id("<|end|>")), ("<|start|>", t.token_to_id("<|start|>"))))
    yield "phi35", sentencepiece(
        normalizers.Sequence([normalizers.Prepend("▁"), TO_BLOCK]), None,
        FROM_BLOCK + [decoders.Strip(" ", 1, 0)], STRIPPING)
    yield "mistral", sentencepiece(
        None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        FROM_BLOCK + [decoders.Strip(" ", 1, 0)], CHAT, bos("<|start|>"))
    yield "gemma", sentencepiece(TO_BLOCK, pre_tokenizers.Split(" ", "merged_with_previous"), FROM_BLOCK, CHAT)
    bert = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    bert.normalizer, bert.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    bert.decoder = decoders.WordPiece()
    bert.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=420, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    bert.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(name, bert.token_to_id(name)) for name in ("[CLS]", "[SEP]")])
    yield "bert", bert
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    unigram.pre_tokenizer, unigram.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    unigram.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    unigram.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    yield "unigram", unigram


def case(tokenizer, text):
    plain = tokenizer.encode(text, add_special_tokens=False).ids
    ids = tokenizer.encode(text).ids
    stream, pieces = DecodeStream(skip_special_tokens=True), []
    for token in plain:
        pieces.append(stream.step(tokenizer, token))
    kept = tokenizer.decode(ids, skip_special_tokens=False)
    found = {"text": text, "plain": plain, "stream": pieces, "skipped": tokenizer.decode(ids)}
    if ids != plain:
        found["ids"] = ids
    if kept != found["skipped"]:
        found["kept"] = kept
    return found


def main(folder):
    for name, tokenizer in tokenizers():
        with open(os.path.join(folder, name + ".json"), "w") as out:
            json.dump(json.loads(tokenizer.to_str()), out, ensure_ascii=False, separators=(",", ":"))
        with open(os.path.join(folder, name + ".cases.json"), "w") as out:
            json.dump([case(tokenizer, text) for text in TEXTS], out, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
