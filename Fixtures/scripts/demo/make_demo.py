"""Makes the whole demo fixture: corpus, tokenizer, training, 4-bit files, held-out table, expected replies."""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(script, *arguments):
    print(f"== {script} {' '.join(map(str, arguments))}", flush=True)
    subprocess.run([sys.executable, HERE / script, *map(str, arguments)], check=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=pathlib.Path, help="where the corpus and the float weights go")
    arguments.add_argument("--compile", action="store_true", help="train with torch.compile; needs a C++ compiler")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    corpus, weights = options.folder / "corpus.jsonl", options.folder / "weights.pt"
    run("make_corpus.py", corpus)
    run("train_tokenizer.py", corpus)
    run("train.py", corpus, weights, *(["--compile"] if options.compile else []))
    run("quantize.py", weights)
    run("evaluate.py")
    run("make_expected.py")


if __name__ == "__main__":
    main()
