"""`mlxserve convert` and `mlxserve eval`: what is written is right to the bit, opens here, and answers as its source does."""

import contextlib
import json
import math
import pathlib
import resource
import signal
import struct
import subprocess
import tempfile
import time

from cli_test import run
from gguf_test import FILES, LLAMA, serving, text
from server import DEMO, ROOT


def tensors(folder):
    """Name -> (type, shape, bytes) of all files of a folder, each header checked."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        raw = path.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        assert length % 8 == 0, path
        header = json.loads(raw[8 : 8 + length])
        assert header.pop("__metadata__") == {"format": "mlx"}, path
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            assert name not in found
            found[name] = (entry["dtype"], entry["shape"], raw[8 + length + start : 8 + length + end])
    return found


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


def convert(server, source, output, *flags, code=0):
    result = run(server, "convert", source, "--output", output, *flags)
    assert result.returncode == code, result
    return result


def float_folder(server, folder):
    """The demo with all of its weights as floats: what a published original is like."""
    convert(server, DEMO, folder, "--dequantize", "--dtype", "float32")
    return folder


def quantization(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["quantization"] == config["quantization_config"]
    assert list(config) == sorted(config)
    return config["quantization"]


def test_convert_writes_a_folder_that_is_whole(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        assert "quantization" not in json.loads((source / "config.json").read_text())
        output = folder / "four"
        result = convert(server, source, output, "--bits", 4, "--group-size", 32)
        assert result.stdout == f"{output}\n" and "affine 4 bits in groups of 32" in result.stderr, result
        assert quantization(output) == {"group_size": 32, "bits": 4, "mode": "affine"}
        found = tensors(output)
        index = json.loads((output / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"]) == set(found) and list(index["weight_map"]) == sorted(found)
        assert index["metadata"]["total_size"] == sum(len(data) for _, _, data in found.values())
        for name in ["tokenizer.json", "tokenizer_config.json"]:
            assert (output / name).read_bytes() == (DEMO / name).read_bytes(), name
        card = (output / "README.md").read_text()
        assert "library_name: mlx" in card and "--bits 4 --group-size 32" in card, card
        assert not list(folder.glob("*.partial")) and not (output / "convert.json").exists()
        checked = run(server, "verify", output, "--json")
        assert checked.returncode == 0, checked
        with serving(server, output) as other:
            body = {"model": other.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
            status, _, answer = other.post("/v1/chat/completions", body)
            assert status == 200, answer


def test_convert_keeps_the_numbers_of_a_quantized_folder(server):
    with scratch() as folder:
        convert(server, DEMO, folder / "same")
        before, after = tensors_of_source(DEMO), tensors(folder / "same")
        assert {name: data for name, (_, _, data) in after.items()} == before
        refused = convert(server, DEMO, folder / "other", "--bits", 3, code=2)
        assert "--requantize" in refused.stderr and not (folder / "other").exists(), refused
        convert(server, DEMO, folder / "other", "--bits", 3, "--requantize", "--group-size", 32)
        assert quantization(folder / "other")["bits"] == 3


def tensors_of_source(folder):
    found = {}
    for path in pathlib.Path(folder).glob("*.safetensors"):
        raw = path.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8 : 8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            found[name] = raw[8 + length + start : 8 + length + end]
    return found


def test_convert_keeps_the_blocks_of_a_gguf_file_to_the_bit(server):
    with scratch() as folder:
        output = folder / "mlx"
        convert(server, LLAMA, output)
        assert quantization(output) == {"group_size": 32, "bits": 4, "mode": "affine"}
        found = tensors(output)
        for name, (kind, _, data) in found.items():
            if not name.endswith(".scales"):
                continue
            # Q4_0: a number is scale · (q - 8).
            biases = found[name.replace(".scales", ".biases")][2]
            assert kind == "F16"
            for scale, bias in zip(struct.unpack(f"<{len(data) // 2}H", data), struct.unpack(f"<{len(biases) // 2}H", biases)):
                assert half(bias) == -8 * half(scale), name
        for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
            assert (output / name).exists(), name
        with serving(server, LLAMA) as one, serving(server, output) as other:
            assert text(one) == text(other)


def test_convert_makes_the_same_file_with_any_number_of_threads_and_files(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        one = folder / "one"
        convert(server, source, one, "--threads", 1)
        many = folder / "many"
        convert(server, source, many, "--threads", 7, "--shard-size", "200K")
        assert len(list(many.glob("model-*.safetensors"))) > 2
        assert tensors(one) == tensors(many)
        assert run(server, "verify", many).returncode == 0


def test_convert_goes_on_where_it_was_killed(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        flags = ["--shard-size", "100K", "--bits", "5"]
        whole = folder / "whole"
        convert(server, source, whole, *flags)
        names = sorted(path.name for path in whole.glob("model-*"))
        output = folder / "out"
        part = folder / "out.partial"
        words = [server.binary, "convert", str(source), "--output", str(output), *flags]
        for wanted in [1, len(names) // 2]:
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            deadline = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < deadline:
                if len(list(part.glob("model-*.safetensors"))) >= wanted:
                    process.kill()
                    break
            process.communicate()
            if output.exists():
                break
        if not output.exists():
            # One may have its name and not be noted yet.
            noted = json.loads((part / "convert.json").read_text())["shards"]
            kept = {name: (part / name).stat().st_mtime_ns for name in noted}
            assert kept and len(kept) < len(names), kept
            # Another conversion does not take it over, and what is damaged is written again.
            other = run(server, "convert", source, "--output", output, "--shard-size", "100K", "--bits", 6)
            assert other.returncode == 2 and "part of another conversion" in other.stderr, other
            damaged = part / sorted(kept)[0]
            damaged.write_bytes(b"x" * damaged.stat().st_size)
            convert(server, source, output, *flags)
            same = {name for name, time in kept.items() if (output / name).stat().st_mtime_ns == time}
            assert same == set(kept) - {damaged.name}, (same, kept)
        assert tensors(output) == tensors(whole)
        refused = run(server, "convert", source, "--output", output, *flags)
        assert refused.returncode == 2 and "exists" in refused.stderr, refused


def test_convert_leaves_its_folder_at_a_signal(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        words = [server.binary, "convert", str(source), "--output", str(folder / "out"), "--shard-size", "20K"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if (folder / "out.partial" / "convert.json").exists():
                process.send_signal(signal.SIGINT)
                break
        _, told = process.communicate(timeout=60)
        # A quick machine may have been done.
        assert (process.returncode, "goes on from here" in told) in [(130, True), (0, False)], told
        assert (folder / "out").exists() == (process.returncode == 0)


def test_convert_says_when_a_file_cannot_grow(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        limited = subprocess.run(
            [server.binary, "convert", str(source), "--output", str(folder / "out")], capture_output=True, text=True,
            preexec_fn=lambda: (
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            ),
        )
        assert limited.returncode == 2 and "model.safetensors.tmp" in limited.stderr, limited
        assert not (folder / "out").exists()
        convert(server, source, folder / "out")


def test_convert_gives_modules_what_rules_say(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        output = folder / "out"
        convert(
            server, source, output, "--bits", 4, "--group-size", 32, "--module", "*.v_proj=6/32", "--module",
            "*embed_tokens=plain")
        found = tensors(output)
        said = quantization(output)
        values = [name for name in said if name.endswith("v_proj")]
        assert values and all(said[name] == {"group_size": 32, "bits": 6, "mode": "affine"} for name in values), said
        assert "model.embed_tokens.scales" not in found and "model.layers.0.self_attn.q_proj.scales" in found
        mixed = folder / "mixed"
        convert(server, source, mixed, "--recipe", "mixed_3_6", "--group-size", 32)
        said = quantization(mixed)
        layers = json.loads((mixed / "config.json").read_text())["num_hidden_layers"]
        for layer in range(layers):
            more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
            assert said[f"model.layers.{layer}.mlp.down_proj"]["bits"] == (6 if more else 3), layer
            assert said[f"model.layers.{layer}.mlp.up_proj"]["bits"] == 3, layer
        for folder in [output, mixed]:
            assert run(server, "verify", folder).returncode == 0


def test_convert_to_each_mode_opens_again(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        for mode, size in [("mxfp4", 32), ("mxfp8", 32), ("nvfp4", 16)]:
            output = folder / mode
            convert(server, source, output, "--mode", mode)
            assert quantization(output) == {"group_size": size, "bits": 8 if mode == "mxfp8" else 4, "mode": mode}
            assert run(server, "verify", output).returncode == 0


def test_convert_refuses_what_makes_no_sense(server):
    with scratch() as folder:
        cases = [
            ((DEMO, "--bits", 7), "2, 3, 4, 5, 6 or 8"),
            ((DEMO, "--bits", 4, "--group-size", 48), "groups of 32, 64 or 128"),
            ((DEMO, "--mode", "mxfp4", "--bits", 8), "leave out --bits"),
            ((DEMO, "--mode", "mxfp4", "--recipe", "mixed_3_6"), "leave out --mode or --recipe"),
            ((DEMO, "--dequantize", "--bits", 4), "--dequantize writes floats alone"),
            ((DEMO, "--module", "x=7"), "PATTERN=RULE"),
            ((FILES / "hostile" / "count-tensors-huge.gguf",), "count"),
            ((folder / "absent",), "absent"),
        ]
        for words, told in cases:
            result = run(server, "convert", *words, "--output", folder / "out")
            assert result.returncode == 2 and told in result.stderr, (words, result)
            assert not (folder / "out").exists() and not (folder / "out.partial").exists(), words
        missing = run(server, "convert", DEMO)
        assert missing.returncode == 2 and "--output" in missing.stderr


def test_convert_refuses_weights_that_are_not_numbers(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        path = source / "model.safetensors"
        raw = bytearray(path.read_bytes())
        length = struct.unpack("<Q", raw[:8])[0]
        entry = json.loads(raw[8 : 8 + length])["model.layers.0.mlp.up_proj.weight"]
        place = 8 + length + entry["data_offsets"][0] + 4 * (3 * entry["shape"][1] + 5)
        raw[place : place + 4] = struct.pack("<f", math.nan)
        path.write_bytes(raw)
        result = convert(server, source, folder / "out", code=2)
        assert "model.layers.0.mlp.up_proj.weight" in result.stderr and "[3, 5]" in result.stderr, result


def test_convert_keeps_the_values_of_every_kind_of_layer(server):
    models = [
        "apertus", "deepseekv3", "ernie45moe", "falconh1", "gemma4-moe", "glm4moelite", "gptoss", "kimilinear", "lfm2", "llama4",
        "minimaxm2", "mixtral", "nemotronh", "phi4", "qwen2moe", "qwen35", "qwen3moe-mixed", "qwen3next"]
    with scratch() as folder:
        ids = folder / "ids.json"
        ids.write_text(json.dumps([(37 * i + 11) % 90 + 3 for i in range(60)]))

        def nats(model):
            result = run(server, "perplexity", model, "--ids", ids, "--context", 30, "--compute", "exact", "--json")
            assert result.returncode == 0, result
            return json.loads(result.stdout)["mean_nll"]

        for name in models:
            source = DEMO.parent / f"{name}-tiny"
            convert(server, source, folder / name, "--dequantize", "--dtype", "float32")
            assert abs(nats(folder / name) - nats(source)) < 1e-5, name


def test_convert_measures_what_the_result_has_lost(server):
    with scratch() as folder:
        source = float_folder(server, folder / "floats")
        told = folder / "text.txt"
        told.write_text("What is the capital of France? The capital of France is Paris. " * 40)
        report = json.loads(
            convert(server, source, folder / "out", "--bits", 8, "--text", told, "--tokens", 200, "--json").stdout)
        assert report["measured"]["tokens"] == 200 and 0 <= report["measured"]["mean_kl"] < 0.01, report
        assert 0 < report["relative_error"] < 0.01, report
        assert "perplexity" in (folder / "out" / "README.md").read_text()
        best = json.loads(
            convert(server, source, folder / "best", "--recipe", "best", "--bits", 2, "--text", told, "--tokens", 200, "--json").stdout)
        plain = json.loads(convert(server, source, folder / "plain", "--bits", 2, "--text", told, "--tokens", 200, "--json").stdout)
        assert best["measured"]["mean_kl"] < plain["measured"]["mean_kl"], (best, plain)


def test_eval_compares_models_by_text_choices_and_tasks(server):
    with scratch() as folder:
        rough = folder / "rough"
        convert(server, DEMO, rough, "--bits", 2, "--group-size", 32, "--requantize")
        told = folder / "text.txt"
        told.write_text("What is the capital of France? The capital of France is Paris. " * 20)
        questions = folder / "choices.jsonl"
        questions.write_text(
            json.dumps({"prompt": "The capital of France is", "choices": ["Paris", "xq7 zz"], "answer": 0}) + "\n\n"
            + json.dumps({"question": "Is it?", "choices": ["Yes", "No"], "answer": 1}) + "\n")
        tasks = folder / "tasks.jsonl"
        tasks.write_text(json.dumps({"prompt": "Hello", "answer": ["nothing of this", "or this"]}) + "\n")
        words = ["eval", DEMO, rough, "--text", told, "--choices", questions, "--compute", "exact", "--context", 64]
        chart = folder / "chart.svg"
        result = run(server, *words, "--tasks", tasks, "--max-tokens", 4, "--svg", chart, "--json")
        assert result.returncode == 0, result
        first, second = json.loads(result.stdout)
        assert first["model"] == str(DEMO) and "mean_kl" not in first and second["mean_kl"] > 0, result.stdout
        assert first["choices"]["all"] == 2 and first["tasks"] == {"right": 0, "all": 1, "share": 0, "standard_error": 0}
        alone = json.loads(run(server, "perplexity", DEMO, "--text", told, "--compute", "exact", "--context", 64, "--json").stdout)
        assert abs(first["perplexity"] - alone["perplexity"]) < 1e-9
        assert chart.read_text().startswith("<svg ") and chart.read_text().count("<rect ") > 4
        table = run(server, *words).stdout.splitlines()
        assert table[0].split()[:3] == ["model", "size", "perplexity"] and len(table) == 3, table
        cases = (ROOT / "docs/examples/eval/tools.jsonl").read_text().splitlines()
        told.write_text("\n".join([cases[0], next(case for case in cases if '"calls":[]' in case)]))
        called, = json.loads(run(server, "eval", DEMO, "--tools", told, "--json").stdout)
        assert called["tools"]["tools"]["all"] == 2 and set(called["tools"]["categories"]) == {"one tool", "no call"}, called
        told.write_text('{"question": "x", "tools": []}')
        wrong = run(server, "eval", DEMO, "--tools", told)
        assert wrong.returncode == 2 and "text.txt, line 1" in wrong.stderr and '"calls"' in wrong.stderr, wrong
        questions.write_text('{"prompt": "x", "choices": ["one"], "answer": 0}\n')
        refused = run(server, *words)
        assert refused.returncode == 2 and "choices.jsonl, line 1" in refused.stderr, refused
        nothing = run(server, "eval", DEMO)
        assert nothing.returncode == 2 and "--choices" in nothing.stderr, nothing
