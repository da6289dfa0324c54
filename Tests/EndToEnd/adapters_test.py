"""Adapters over the demo model: chosen by name, several at once, and nothing of one in the answers of another."""

import concurrent.futures
import contextlib
import json
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

from server import DEMO, Server

PROMPT = "Is the capital of France Paris? Answer Yes or No. " * 12
MAPS = [(f"model.layers.{layer}.{name}", rows, columns) for layer in range(5) for name, rows, columns in [
    ("self_attn.q_proj", 256, 256), ("self_attn.v_proj", 128, 256), ("mlp.gate_proj", 512, 256),
    ("mlp.down_proj", 256, 512)]]


def write(folder, seed, maps=MAPS, rank=4, scale=6.0, peft=False):
    """An adapter of random numbers."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = random.Random(seed)
    header, data = {}, b""
    for name, rows, columns in maps:
        shapes = ([(".lora_A.weight", [rank, columns]), (".lora_B.weight", [rows, rank])] if peft
                  else [(".lora_a", [columns, rank]), (".lora_b", [rank, rows])])
        for ending, shape in shapes:
            count = shape[0] * shape[1]
            piece = struct.pack(f"<{count}f", *(numbers.uniform(-0.1, 0.1) for _ in range(count)))
            header[("base_model.model." if peft else "") + name + ending] = {
                "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
            data += piece
    text = json.dumps(header).encode()
    name = "adapter_model.safetensors" if peft else "adapters.safetensors"
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": scale * rank} if peft
        else {"fine_tune_type": "lora", "lora_parameters": {"rank": rank, "scale": scale}}))
    return folder


@contextlib.contextmanager
def served(s, *flags):
    """A server with the adapters `a`, of mlx-lm, and `b`, of PEFT."""
    with tempfile.TemporaryDirectory() as place:
        a, b = write(f"{place}/a", 1), write(f"{place}/second", 2, peft=True)
        with start(s, a, b, *flags) as other:
            yield other, place


@contextlib.contextmanager
def start(s, a, b, *flags):
    other = Server(s.binary, "--adapter", str(a), "--adapter", f"b={b}", *flags)
    try:
        yield other
    finally:
        assert other.stop() == 0, other.log[-5:]


def ask(server, model, prompt=PROMPT, **options):
    """A greedy completion: its text, and how many tokens of the prompt were there."""
    status, _, body = server.post("/v1/completions", {
        "model": model, "prompt": prompt, "temperature": 0, "max_tokens": 24, **options})
    answer = json.loads(body)
    assert status == 200, answer
    return answer["choices"][0]["text"], (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def test_a_name_chooses_an_adapter(s):
    with served(s, "--alias", "helper=demo:a") as (other, _):
        texts = {name: ask(other, name)[0] for name in ["demo", "demo:a", "demo:b"]}
        assert len(set(texts.values())) == 3, texts
        assert ask(other, "helper")[0] == ask(other, "a")[0] == texts["demo:a"]
        assert ask(s, s.model)[0] == texts["demo"]
        listed = json.loads(other.get("/v1/models")[2])["data"]
        assert [(m["id"], m.get("parent")) for m in listed] == [
            ("demo", None), ("demo:a", "demo"), ("demo:b", "demo")], listed
        assert listed[1]["aliases"] == ["helper"]
        one = json.loads(other.get("/v1/models/demo:b")[2])
        assert one["id"] == "demo:b" and one["parent"] == "demo" and one["status"]["value"] == "loaded"
        chat = other.client.chat.completions.create(
            model="demo:a", messages=[{"role": "user", "content": "Hello!"}], max_tokens=4)
        assert chat.model == "demo:a"


def test_an_unknown_adapter_is_not_found(s):
    message = [{"role": "user", "content": "Hello!"}]
    with served(s) as (other, _):
        for path, body in [
                ("/v1/chat/completions", {"messages": message}), ("/v1/completions", {"prompt": "x"}),
                ("/v1/responses", {"input": "x"}), ("/v1/messages", {"messages": message, "max_tokens": 4}),
                ("/api/chat", {"messages": message}), ("/tokenize", {"content": "x"})]:
            for name in ["demo:unknown", "demo:../a", "demo:"]:
                status, _, answer = other.post(path, {"model": name, **body})
                assert status == 404, (path, name, answer)
                error = json.loads(answer)["error"]
                text = error if path == "/api/chat" else error["message"]
                assert name in text, (path, answer)
        assert other.get("/v1/models/demo:unknown")[0] == 404
        for field in ["adapters", "lora", "lora_path", "lora_request"]:
            status, _, answer = other.post(
                "/v1/chat/completions", {"model": "demo", "messages": message, field: "../../etc"})
            assert status == 400 and field in json.loads(answer)["error"]["message"], answer
        for path, body in [("/api/chat", {"messages": message, "stream": False}),
                           ("/v1/messages", {"messages": message, "max_tokens": 4}), ("/v1/responses", {"input": "x"})]:
            status, _, answer = other.post(path, {"model": "demo:a", **body})
            assert status == 200 and json.loads(answer)["model"] == "demo:a", (path, answer)


def test_prefixes_of_one_adapter_serve_no_other(s):
    names = ["demo", "demo:a", "demo:b"]
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory() as place:
        a, b = write(f"{place}/a", 1), write(f"{place}/second", 2, peft=True)
        with start(s, a, b, "--prefix-cache", "0") as plain:
            wanted = {name: ask(plain, name)[0] for name in names}
        flags = ("--prefix-cache-dir", disk)
        with start(s, a, b, *flags) as first:
            for name in names[:2]:
                assert ask(first, name) == (wanted[name], 0), name
            for name in names[:2]:
                text, cached = ask(first, name)
                assert text == wanted[name] and cached > 32, (name, cached)
        with start(s, a, b, *flags) as second:
            assert ask(second, "demo:b") == (wanted["demo:b"], 0)
            for name in names[:2]:
                text, cached = ask(second, name)
                assert text == wanted[name] and cached > 32, (name, cached)
        # The same name with other weights is another adapter.
        write(a, 3)
        with start(s, a, b, *flags) as third:
            text, cached = ask(third, "demo:a")
            assert text != wanted["demo:a"] and cached == 0


def test_company_changes_no_answer(s):
    prompts = [f"{index} times the answer of the question is" for index in range(8)]
    with served(s, "--prefix-cache", "0") as (other, _):
        cases = [(name, prompt) for prompt in prompts for name in ["demo", "demo:a", "demo:b"]]
        alone = {case: ask(other, *case)[0] for case in cases}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = dict(zip(cases, pool.map(lambda case: ask(other, *case)[0], cases)))
        assert together == alone


def test_a_receipt_has_the_adapter(s):
    with served(s, "--receipts", "full") as (other, _):
        receipts = {}
        for name in ["demo", "demo:a"]:
            _, _, body = other.post("/v1/completions", {"model": name, "prompt": "Hello", "max_tokens": 8, "seed": 3})
            receipts[name] = json.loads(body)["choices"][0]["receipt"]
        assert "adapter" not in receipts["demo"]["digests"] and len(receipts["demo:a"]["digests"]["adapter"]) == 64
        assert receipts["demo:a"]["model"] == "demo:a"
        for name, receipt in receipts.items():
            report = json.loads(other.post("/v1/receipts/verify", {"model": name, "receipt": receipt})[2])
            assert report["is_same"] is True, (name, report)
        report = json.loads(other.post("/v1/receipts/verify", {"model": "demo", "receipt": receipts["demo:a"]})[2])
        assert report["is_same"] is False and "adapter" in report["words"], report


def test_adapters_lie_beside_their_model(s):
    with tempfile.TemporaryDirectory() as place:
        model = pathlib.Path(place) / "tuned"
        shutil.copytree(DEMO, model)
        write(model / "adapters" / "inner", 4)
        write(model / "beside", 5)
        (model / "broken").mkdir()
        (model / "broken" / "adapter_config.json").write_text("{}")
        other = Server(s.binary, model=model)
        try:
            listed = [m["id"] for m in json.loads(other.get("/v1/models")[2])["data"]]
            assert listed == ["tuned", "tuned:beside", "tuned:inner"], listed
            assert len({ask(other, name)[0] for name in listed}) == 3
            assert any("left out" in line and "broken" in line for line in other.log), other.log
        finally:
            assert other.stop() == 0


def test_what_does_not_fit_ends_the_start(s):
    cases = [
        ([("model.layers.0.self_attn.q_proj", 128, 256)], {}, "self_attn.q_proj"),
        ([("model.layers.9.self_attn.q_proj", 256, 256)], {}, "layers.9.self_attn.q_proj"),
        (MAPS[:1], {"peft_type": "IA3"}, "IA3"),
        (MAPS[:1], {"fine_tune_type": "full"}, "fine_tune_type"),
    ]
    with tempfile.TemporaryDirectory() as place:
        for index, (maps, config, words) in enumerate(cases):
            folder = write(f"{place}/{index}", 1, maps)
            if config:
                (folder / "adapter_config.json").write_text(json.dumps(config))
            run = subprocess.run(
                [s.binary, "serve", "--model", str(DEMO), "--port", "0", "--adapter", str(folder)],
                capture_output=True, text=True, timeout=60)
            last = run.stderr.strip().splitlines()[-1]
            assert run.returncode == 2 and words in last, (words, run)
        for value in [f"{place}/none", f"x y={place}/0", f"other:x={place}/0"]:
            run = subprocess.run(
                [s.binary, "serve", "--model", str(DEMO), "--port", "0", "--adapter", value],
                capture_output=True, text=True, timeout=60)
            assert run.returncode != 0 and "adapter" in run.stderr, run


def test_a_fused_model_answers_as_both_together(s):
    with tempfile.TemporaryDirectory() as place:
        adapter, output = write(f"{place}/a", 1), f"{place}/fused"
        command = [s.binary, "fuse", str(DEMO), "--output", output]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 2 and "--adapter" in run.stderr, run
        command += ["--adapter", str(adapter), "--dequantize", "--dtype", "float32"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        assert subprocess.run(command, capture_output=True, timeout=60).returncode == 2, "it was written over"
        prompts = [PROMPT, "Once upon a time", "1 2 3 4"]
        fused = Server(s.binary, "--compute", "exact", model=output)
        both = Server(s.binary, "--compute", "exact", "--adapter", str(adapter))
        try:
            answers = [(ask(fused, fused.model, prompt)[0], ask(both, "demo:a", prompt)[0]) for prompt in prompts]
            assert all(one == other for one, other in answers), answers
            assert any(ask(both, "demo", prompt)[0] != text for prompt, (text, _) in zip(prompts, answers))
        finally:
            assert (fused.stop(), both.stop()) == (0, 0)
