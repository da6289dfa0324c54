"""The arm64 binary under qemu beside this machine's: the same log probabilities to the bit, of all bundled models."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT, ARM64, NATIVE = sys.argv[1:4]
MODELS = pathlib.Path(__file__).parents[2] / "Fixtures" / "models"
PROMPTS = ["Is the capital of France Paris? Answer Yes or No.", "Count to three.", "The quick brown fox " * 12]
# For models that have no tokenizer of their own.
TOKENS = [[5, 9, 17, 33, 7], [number * 13 % 90 + 3 for number in range(40)]]


def command(cpu):
    return [NATIVE] if cpu is None else ["qemu-aarch64-static", "-cpu", cpu, "-L", ROOT, ARM64]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def chats():
    """Where the demo is asked, and with which body, for each prompt."""
    for prompt in PROMPTS:
        yield "chat/completions", {"messages": [{"role": "user", "content": prompt}], "max_tokens": 24, "temperature": 0,
                                   "logprobs": True, "top_logprobs": 5}


def completions():
    """The same for models whose tokenizer is borrowed: prompts are numbers of tokens."""
    for prompt in TOKENS:
        yield "completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 5, "ignore_eos": True}


def answers(cpu, *flags, model=MODELS / "demo", requests=chats):
    """What `logprobs` says in each answer, from a server of its own."""
    port = free_port()
    words = command(cpu) + ["serve", "--model", str(model), "--port", str(port), "--threads", "2", *flags]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 300
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=60)
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{' '.join(words)} did not get ready: {server.stderr.read() if server.poll() else ''}")
                time.sleep(0.2)
        found = []
        for path, body in requests():
            body = {"model": pathlib.Path(model).name, **body}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
            answer = json.load(urllib.request.urlopen(request, timeout=600))
            found.append(answer["choices"][0]["logprobs"])
        return found
    finally:
        server.terminate()
        server.wait(60)


def writers():
    """The bundled models that write text, each in a folder with a tokenizer."""
    for folder in sorted(MODELS.iterdir()):
        config = folder / "config.json"
        # Few of them name an architecture: encoders do.
        if not config.exists() or not all("CausalLM" in name for name in json.loads(config.read_text()).get("architectures", [])):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch) / folder.name
            copy.mkdir()
            for file in folder.iterdir():
                (copy / file.name).symlink_to(file.resolve())
            if not (copy / "tokenizer.json").exists():
                (copy / "tokenizer.json").symlink_to(MODELS / "demo" / "tokenizer.json")
            yield copy


def features():
    """Whether this machine's binary has AVX2."""
    return subprocess.run([NATIVE, "version"], capture_output=True, text=True).stdout


failed = 0


def same(name, one, other):
    global failed
    failed += one != other
    print(f"{'ok    ' if one == other else 'FAILED'} {name}", flush=True)


for cpu, level in [("max", "i8mm"), ("neoverse-n1", "dotprod"), ("cortex-a53", "neon")]:
    report = subprocess.run(command(cpu) + ["doctor", "--kernels", "--port", "0"], capture_output=True, text=True, timeout=600)
    lines = [line for line in report.stdout.splitlines() if "kernels" in line]
    sets = [line for line in lines if "agree with their scalar twins" in line]
    same(f"{cpu}: doctor finds {level}, and {len(sets)} sets of kernels agree with their twins",
         (f"kernels for {level}" in report.stdout, len(sets)), (True, {"i8mm": 4, "dotprod": 3, "neon": 2}[level]))

portable = answers(None, "--isa", "portable", "--compute", "exact")
same("exact, portable: arm64 and x86-64", answers("max", "--isa", "portable", "--compute", "exact"), portable)
for mode in ["exact", "fast"]:
    neon = answers("cortex-a53", "--compute", mode)
    same(f"{mode}: dotprod and neon", answers("neoverse-n1", "--compute", mode), neon)
    same(f"{mode}: i8mm and neon", answers("max", "--compute", mode), neon)
    same(f"{mode}: i8mm with weights in the file, and neon", answers("max", "--compute", mode, "--weights", "mapped"), neon)
    if "avx2" in features():
        same(f"{mode}: AVX2 of x86-64 and neon", answers(None, "--isa", "avx2", "--compute", mode), neon)
    else:
        print(f"SKIPPED {mode}: this machine has no AVX2")
if "avx2" in features():
    for model in writers():
        for mode in ["exact", "fast"]:
            there, here = (answers(cpu, *flags, "--compute", mode, model=model, requests=completions)
                           for cpu, flags in [("max", []), (None, ["--isa", "avx2"])])
            same(f"{mode}, {model.name}: i8mm and AVX2", there, here)
sys.exit(failed != 0)
