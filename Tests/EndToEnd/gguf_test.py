"""GGUF files where model folders go: served, shown, checked, listed, pulled by the name of a quantization, refused by name."""

import contextlib
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile

from fake_hub import Repository
from hub_test import environment, run as run_at_hub, snapshot, world
from server import ROOT, Server

FILES = ROOT / "Fixtures" / "gguf"
LLAMA = FILES / "llama-q4_0.gguf"
EXPECTED = json.loads((FILES / "llama-q4_0.expected.json").read_text())


def run(server, *words):
    return subprocess.run([server.binary, *map(str, words)], capture_output=True, text=True, timeout=300)


@contextlib.contextmanager
def serving(server, model, *flags):
    other = Server(server.binary, "--compute", "exact", *flags, model=model)
    try:
        yield other
    finally:
        other.stop()


def text(server):
    """What it goes on with, by ids: the ids of the golden begin with none of the tokenizer's."""
    body = {"model": server.model, "prompt": EXPECTED["input_ids"], "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    status, _, answer = server.post("/v1/completions", body)
    assert status == 200, answer
    return json.loads(answer)["choices"][0]["text"]


def test_a_file_and_its_folder_are_served_as_one_model(server):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(LLAMA, folder)
        with serving(server, LLAMA) as by_file, serving(server, folder) as by_folder:
            assert by_file.model == by_folder.model == "llama-q4_0", (by_file.model, by_folder.model)
            assert text(by_file) == text(by_folder) != ""
            for words, ids in zip(EXPECTED["texts"], EXPECTED["tokens_llamacpp"]):
                status, _, answer = by_file.post("/tokenize", {"content": words, "add_special": True})
                assert status == 200 and json.loads(answer)["tokens"] == ids, (words, answer)
            details = json.loads(by_file.post("/api/show", {"model": by_file.model})[2])["details"]
            assert details["quantization_level"] == "Q4_0", details


def test_a_file_is_shown_and_checked(server):
    shown = json.loads(run(server, "show", LLAMA, "--json").stdout)
    assert shown["name"] == "llama-q4_0" and shown["type"] == "llama Q4_0", shown
    assert shown["stored"].startswith("Q4_0 ") and [file["path"] for file in shown["files"]] == [LLAMA.name], shown
    result = run(server, "verify", "--model", LLAMA)
    assert result.returncode == 0 and "blocks of Q4_0" in result.stdout, result
    # But for the checksums, which nobody has published, and a template, nothing is left out.
    assert "an earlier check failed" not in result.stdout and "sample texts" in result.stdout, result
    assert "the file says nothing of it" in " ".join(result.stdout.split()), result
    assert "This model can be served" in result.stdout and "folder" not in result.stdout, result


def test_models_of_a_folder_of_files(server):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.gguf", "b.gguf"):
            shutil.copy(LLAMA, pathlib.Path(folder) / name)
        result = run(server, "verify", "--model", folder)
        assert result.returncode == 1 and "several GGUF models" in result.stdout + result.stderr, result
        other = Server(server.binary, "--models-dir", folder, model=None)
        try:
            listed = [model["id"] for model in json.loads(other.get("/v1/models")[2])["data"]]
            assert listed == ["a", "b"], listed
        finally:
            other.stop()


def metadata(architecture):
    """A file without tensors."""
    key, value = b"general.architecture", architecture.encode()
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair + bytes(64)


def retyped(data, name, shape, kind):
    """The file with another shape and type, by its number, said of a matrix; its data stay."""
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name) + 4
    return data[:at] + struct.pack("<QQI", *shape, kind) + data[at + 20:]


def test_what_no_family_has_is_refused_by_name(server):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        for data, words in ((metadata("mamba"), "'mamba', which is not served from GGUF: llama, qwen2"),
                            (b"GGUF" + bytes(3), "ends too early"), (b"PK\3\4" + bytes(64), "zip archive"),
                            (LLAMA.read_bytes()[:60_000], "past the end"),
                            (retyped(LLAMA.read_bytes(), "blk.0.ffn_down.weight", (256, 32), 16),
                             "has blocks of type IQ2_XXS, which are not read: take another quantization")):
            path.write_bytes(data)
            result = run(server, "--model", path, "--port", "0")
            assert result.returncode != 0 and words in result.stderr and result.stderr.count("\n") < 4, result


def test_one_quantization_is_pulled_and_served(server):
    data = LLAMA.read_bytes()
    files = {"demo-Q4_0.gguf": data, "demo-Q8_0.gguf": data + bytes(32), "mmproj-Q4_0.gguf": b"x", "README.md": b"# A model",
             "config.json": b'{"model_type": "llama"}'}
    with world(Repository("owner/demo-GGUF", files)) as hub:
        path = snapshot(hub) / "demo-Q4_0.gguf"
        result = run_at_hub(server, hub, "pull", "owner/demo-GGUF:q4_0")
        assert result.returncode == 0 and result.stdout == f"{path}\n", result
        assert sorted(file.name for file in snapshot(hub).iterdir()) == ["README.md", "demo-Q4_0.gguf"]
        result = run_at_hub(server, hub, "verify", "--model", "owner/demo-GGUF:Q4_0", HF_HUB_OFFLINE="1")
        assert result.returncode == 0 and "blocks of Q4_0" in result.stdout, result
        listed = json.loads(run_at_hub(server, hub, "list", "--json").stdout)
        assert [(entry["name"], entry["type"], entry["state"]) for entry in listed] == [
            ("owner/demo-GGUF", "llama Q4_0", "ready")], listed
        other = Server(server.binary, model="owner/demo-GGUF:Q4_0", env=environment(hub))
        try:
            assert other.model == "demo-Q4_0", other.model
            result = run_at_hub(server, hub, "rm", "owner/demo-GGUF", "--yes")
            assert result.returncode != 0 and "in use" in result.stderr and path.exists(), result
        finally:
            other.stop()
        result = run_at_hub(server, hub, "rm", "owner/demo-GGUF:Q4_0", "--yes")
        assert result.returncode == 2 and "leave ':Q4_0' out" in result.stderr and path.exists(), result
        result = run_at_hub(server, hub, "pull", "owner/demo-GGUF")
        assert result.returncode == 2 and "as NAME:Q4_K_M; it has Q4_0, Q8_0" in result.stderr, result
        result = run_at_hub(server, hub, "pull", "owner/demo-GGUF:Q2_K")
        assert result.returncode == 2 and "it has no Q2_K but Q4_0, Q8_0" in result.stderr, result


def test_parts_of_a_model_are_pulled_together(server):
    with world(Repository("owner/demo-GGUF", {
            "Q4_0/demo-Q4_0-00001-of-00002.gguf": LLAMA.read_bytes(), "Q4_0/demo-Q4_0-00002-of-00002.gguf": b"x"})) as hub:
        result = run_at_hub(server, hub, "pull", "owner/demo-GGUF:Q4_0")
        assert result.stdout == f"{snapshot(hub)}/Q4_0/demo-Q4_0-00001-of-00002.gguf\n", result
