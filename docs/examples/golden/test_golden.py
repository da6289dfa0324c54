"""Golden answers of a model, for pytest: a program's questions have the answers of golden.json, word by word.

    MODEL=~/models/mine MLXSERVE=mlxserve pytest test_golden.py     # GOLDEN=update writes golden.json anew

A receipt of each answer is kept with it: where an answer differs, `mlxserve check --explain` says why."""

import json
import os
import pathlib
import subprocess
import urllib.request

import pytest

PROGRAM = os.environ.get("MLXSERVE", "mlxserve")
GOLDEN = pathlib.Path(os.environ.get("GOLDEN_FILE", pathlib.Path(__file__).with_name("golden.json")))
QUESTIONS = ["Is Paris in France?", "Name a colour.", "Count to five."]


@pytest.fixture(scope="session")
def ask():
    command = [PROGRAM, "serve", "--model", os.environ["MODEL"], "--model-id", "golden", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    base = server.stdout.readline().split(" on ")[1].split()[0]

    def ask(question):
        body = {"model": "golden", "messages": [{"role": "user", "content": question}], "seed": 7, "max_tokens": 24, "receipt": True}
        request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        choice = json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]
        return {"text": choice["message"]["content"], "receipt": choice["receipt"]}

    yield ask
    server.terminate()
    server.wait()


@pytest.mark.parametrize("question", QUESTIONS)
def test_golden(ask, question, tmp_path):
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    answer = ask(question)
    if os.environ.get("GOLDEN") == "update":
        GOLDEN.write_text(json.dumps(golden | {question: answer}, indent=1, ensure_ascii=False) + "\n")
        return
    expected = golden[question]
    if answer["text"] == expected["text"]:
        return
    for name, receipt in [("now", answer["receipt"]), ("golden", expected["receipt"])]:
        (tmp_path / name).write_text(json.dumps(receipt))
    command = [PROGRAM, "check", "--explain", tmp_path / "now", tmp_path / "golden"]
    why = subprocess.run(command, capture_output=True, text=True).stdout
    pytest.fail(f"{answer['text']!r} was {expected['text']!r}, now and then:\n{why}", pytrace=False)
