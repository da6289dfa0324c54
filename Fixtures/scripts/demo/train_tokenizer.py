"""Trains the byte-level BPE tokenizer on the rendered corpus and writes the tokenizer files of the fixture."""

import argparse
import itertools
import json

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

import chat

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("corpus")
    arguments.add_argument("--items", type=int, default=20_000)
    arguments.add_argument("--vocabulary", type=int, default=2048)
    options = arguments.parse_args()

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    added = len(chat.SPECIAL) + len(chat.MARKERS)
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary - added, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    with open(options.corpus, encoding="utf-8") as corpus:
        texts = [chat.render(json.loads(line)) for line in itertools.islice(corpus, options.items)]
    for token in chat.SPECIAL + chat.MARKERS:
        texts = [text.replace(token, "\n") for text in texts]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in chat.SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in chat.MARKERS])
    assert tokenizer.get_vocab_size() == options.vocabulary, tokenizer.get_vocab_size()

    chat.FIXTURE.mkdir(parents=True, exist_ok=True)
    compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (chat.FIXTURE / "tokenizer.json").write_text(compact + "\n", encoding="utf-8")
    configuration = {
        "tokenizer_class": "Qwen2Tokenizer",
        "bos_token": None,
        "eos_token": chat.FINISH,
        "pad_token": chat.END,
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "errors": "replace",
        "split_special_tokens": False,
        "additional_special_tokens": [chat.START, chat.FINISH],
    }
    (chat.FIXTURE / "tokenizer_config.json").write_text(json.dumps(configuration, indent=2) + "\n")
    print(f"tokenizers {tokenizers.__version__}: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
