"""Model files. A folder that cannot be served ends the start with one line; CheckpointTests and TokenizersTests
go through the corpora, bits and cuts of the parsers themselves."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

from reliability.framing_test import SHARED
from reliability.folders import changed, refuses, start, verified, with_members
from reliability.watch import CHAT, answered, body, encode, text_of, wait_for
from server import DEMO, ROOT, Server

MODELS = ROOT / "Fixtures" / "models"

POISONS = ["0", "-1", "1e400", "9223372036854775807", "-9223372036854775808", "1e30", "NaN", "2.5", "null", '"5"', "[]",
           "{}", "true", "18446744073709551616", "4294967296", "1073741824"]
NUMBERS = ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
           "intermediate_size", "max_position_embeddings", "rope_theta", "rms_norm_eps"]


def test_the_corpus_of_safetensors_has_its_verdicts(s):
    folder = SHARED / "safetensors"
    if not folder.exists():
        return f"skipped: {folder} is absent"
    files = sorted(folder.glob("*.safetensors"))
    for path in files:
        with changed(model_dot_safetensors=path.read_bytes()) as demo:
            refuses(s.binary, demo)
    return f"{len(files)} files"


def test_cut_and_false_shards_are_refused(s):
    data = (DEMO / "model.safetensors").read_bytes()
    shards = [data[:cut] for cut in (0, 7, 8, 9, 500, len(data) // 2, len(data) - 1)]
    shards += [length.to_bytes(8, "little") + data[8:] for length in (2**64 - 1, 2**63, 100_000_001, 0)]
    shards += [b"PK\x03\x04" + data, b"GGUF" + data, b"\x80\x02}q" + data]
    for shard in shards:
        with changed(model_dot_safetensors=shard) as folder:
            refuses(s.binary, folder, "model.safetensors")


def test_folders_links_and_pipes_in_place_of_files_are_refused(s):
    shard = (DEMO / "model.safetensors").read_bytes()
    for target in ("../../etc/passwd", "/etc/passwd", "a\0b", "none.safetensors", ""):
        index = json.dumps({"metadata": {}, "weight_map": {"model.norm.weight": target}})
        with changed(model_dot_safetensors=None) as folder:
            (folder / "model.safetensors.index.json").write_text(index)
            (folder / "x.safetensors").write_bytes(shard)
            refuses(s.binary, folder)
    for make in (lambda path: os.mkfifo(path), lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero"),
                 lambda path: path.symlink_to(path.name), lambda path: path.symlink_to("/etc/passwd")):
        with changed(model_dot_safetensors=None) as folder:
            make(folder / "model.safetensors")
            refuses(s.binary, folder)
        with changed(config_dot_json=None) as folder:
            make(folder / "config.json")
            refuses(s.binary, folder)
    for path in ("/none/such", DEMO / "config.json", "/" + "x" * 5000, "/dev/null"):
        refuses(s.binary, path)


def test_tensors_of_several_files(s):
    data = (DEMO / "model.safetensors").read_bytes()
    with changed(model_dot_safetensors=None) as folder:
        for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
            (folder / name).write_bytes(data)
        refuses(s.binary, folder, "model-00002-of-00002.safetensors")
    # A file beside the index that it does not list is no business of the model.
    with changed() as folder:
        names = read_header(data)[0]
        index = {"metadata": {}, "weight_map": {name: "model.safetensors" for name in names if name != "__metadata__"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "adapter.safetensors").write_bytes(b"no such file")
        code, line, errors = start(s.binary, folder)
        assert code == 0 and line, errors
        assert verified(s.binary, folder) == 0


def test_files_that_may_not_be_read(s):
    if os.geteuid() == 0:
        return "skipped: nothing is forbidden to this user"
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        with changed() as folder:
            (folder / name).chmod(0)
            refuses(s.binary, folder, name, "ermission")
    with changed() as folder:
        folder.chmod(0)
        try:
            refuses(s.binary, folder, "ermission")
        finally:
            folder.chmod(0o700)


def test_archives_and_foreign_formats_are_named(s):
    for name, head in (("model.gguf", b"GGUF\3\0\0\0"), ("pytorch_model.bin", b"PK\3\4"), ("model.pt", b"PK\3\4"),
                       ("model.npz", b"PK\3\4"), ("model.tar.gz", b"\x1f\x8b\x08"), ("model.zip", b"PK\3\4")):
        with changed(model_dot_safetensors=None) as folder:
            (folder / name).write_bytes(head + bytes(1000))
            before = sorted(path.name for path in folder.iterdir())
            refuses(s.binary, folder)
            refuses(s.binary, folder / name)
            assert sorted(path.name for path in folder.iterdir()) == before
    for head in (b"PK\3\4", b"GGUF", b"\x80\2}q", b"\x1f\x8b\x08"):
        with changed(model_dot_safetensors=head + bytes(1000)) as folder:
            refuses(s.binary, folder, "model.safetensors")


def test_settings_of_every_kind(s, count=40):
    """A sample here, all in the long run: refused in one line, or served if the value means something."""
    cases = [(name, poison) for name in NUMBERS for poison in POISONS]
    random.Random(9).shuffle(cases)
    served = []
    for name, poison in cases[:count]:
        def edit(data):
            return json.dumps({**json.loads(data), name: "@"}).replace('"@"', poison)
        with changed(config_dot_json=edit) as folder:
            code, line, errors = start(s.binary, folder)
            if line:
                served.append((name, poison))
                assert code == 0, (name, poison, code, errors[-300:])
            else:
                assert code == 2 and "mlxserve: " in errors, (name, poison, code, errors[-300:])
            assert verified(s.binary, folder) in ((0, 1) if line else (1,)), (name, poison, line)
    for members in ({"num_attention_heads": 3}, {"num_key_value_heads": 8}, {"num_key_value_heads": 3},
                    {"quantization": {"group_size": 0, "bits": 4}}, {"quantization": {"group_size": 64, "bits": 7}},
                    {"model_type": "fish", "architectures": ["Fish"]}, {"model_type": 5}, {"vocab_size": 10}):
        with changed(config_dot_json=with_members(**members)) as folder:
            refuses(s.binary, folder)
    return f"served: {served}"


def places_of(value, path=()):
    """The paths of all numbers in a JSON value."""
    if isinstance(value, bool):
        return []
    if isinstance(value, (int, float)):
        return [path]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, member in members for found in places_of(member, path + (key,))]


def test_settings_of_every_family(s, step=97):
    """Any number in any family's config.json: `verify` finds a fault or none, and never ends by a signal."""
    poisons = [0, -1, 1, 2**31, 2**62, 2**63 - 1, -2**63, 1e308]
    cases = [(folder, path, poison) for folder in sorted(MODELS.iterdir()) if (folder / "config.json").exists()
             for path in places_of(json.loads((folder / "config.json").read_text())) for poison in poisons]
    found = {0: 0, 1: 0, 2: 0}
    for folder, path, poison in cases[::step]:
        with tempfile.TemporaryDirectory(prefix="mlxserve-") as place:
            shutil.copytree(folder, place, dirs_exist_ok=True)
            config = json.loads((folder / "config.json").read_text())
            inner = config
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = poison
            (pathlib.Path(place) / "config.json").write_text(json.dumps(config))
            done = subprocess.run([s.binary, "verify", "--model", place, "--no-checksums"], capture_output=True, timeout=120)
            assert done.returncode in found, (folder.name, path, poison, done.returncode, done.stderr[-2000:])
            found[done.returncode] += 1
    return f"{sum(found.values())} of {len(cases)} cases: {found}"


def read_header(data):
    """The header of a safetensors file, and its length."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8:8 + length]), length


def test_end_tokens_that_the_model_lacks_never_come(s):
    """A token that the model does not have never comes: `verify` says so, a server only loses that one stop."""
    for value in (10**6, 2**31, 2**63, -1, [], [5, 10**9], "5", None, 1.5):
        with changed(generation_config_dot_json=with_members(eos_token_id=value),
                     config_dot_json=with_members(eos_token_id=value)) as folder:
            code, line, errors = start(s.binary, folder)
            assert (code == 0 and line) or (code == 2 and len(errors.splitlines()) == 1), (value, code, errors)
            found = verified(s.binary, folder)
            assert found == 1 or line, value
            if value == 10**6:
                assert found == 1


def test_tensors_that_do_not_fit(s):
    data = (DEMO / "model.safetensors").read_bytes()
    header, length = read_header(data)

    def shard(change, more=b""):
        copy = json.loads(json.dumps(header))
        change(copy)
        text = json.dumps(copy).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + length:] + more

    def halved(tensor):
        """The same rows with half of their groups, as far as the file's layout is concerned."""
        rows, groups = tensor["shape"]
        return {"shape": [rows // 2, groups * 2]}

    first = next(name for name in header if name.endswith("q_proj.weight"))
    for change, word in (
            (lambda h: h.update(other=h.pop("model.norm.weight")), "model.norm.weight"),
            (lambda h: h["model.norm.weight"].update(shape=[2, 128]), "model.norm.weight"),
            (lambda h: h[first].update(shape=h[first]["shape"][::-1]), first),
            (lambda h: h["model.norm.weight"].update(dtype="I16"), "model.norm.weight"),
            (lambda h: h.update(other=h.pop(first.replace("weight", "scales"))), first.replace(".weight", "")),
            (lambda h: h[first.replace("weight", "scales")].update(halved(h[first.replace("weight", "scales")])),
             first.replace(".weight", ""))):
        with changed(model_dot_safetensors=shard(change)) as folder:
            refuses(s.binary, folder, word)
    end = len(data) - 8 - length
    extra = {"dtype": "F32", "shape": [2], "data_offsets": [end, end + 8]}
    with changed(model_dot_safetensors=shard(lambda h: h.update(extra=extra), bytes(8))) as folder:
        code, line, errors = start(s.binary, folder)
        assert code == 0 and line, errors
        assert verified(s.binary, folder) == 0


def test_bad_tokenizers_are_refused(s):
    def edit(change):
        def apply(data):
            content = json.loads(data)
            change(content)
            return json.dumps(content)
        return apply

    def pattern(regex):
        return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}

    @edit
    def endless_merges(content):
        names = [name for name in content["model"]["vocab"] if len(name) == 1][:100]
        content["model"]["merges"] = [f"{a} {b}" for a in names for b in names for _ in range(100)]

    @edit
    def cyclic_merges(content):
        content["model"]["vocab"] |= {"ab": 9000, "abab": 9001}
        content["model"]["merges"] = ["ab ab", "abab ab", "a b"]

    def spoil(**members):
        return edit(lambda content: content["model"].update(members))

    for wrong in (b"not json", b"[" * 100_000, b"{}", b"", spoil(vocab={}), spoil(vocab={"a": -1}), spoil(vocab={"a": 2**40}),
                  spoil(vocab={"a": 1, "b": 1}), spoil(merges=["nosuch token"]), spoil(type="Fish"), spoil(merges=5),
                  spoil(vocab={chr(0x4E00 + i): 3 * i for i in range(5000)}, merges=[]), endless_merges, cyclic_merges,
                  edit(lambda content: content.update(pre_tokenizer=pattern("(a+)+$"))),
                  edit(lambda content: content.update(pre_tokenizer=pattern("((((("))),
                  edit(lambda content: content.update(pre_tokenizer={"type": "Fish"})),
                  edit(lambda content: content["added_tokens"].append({"id": 9000, "content": "x" * (1 << 20)})),
                  edit(lambda content: content["added_tokens"].append(
                      {**content["added_tokens"][0], "id": 9000, "content": content["added_tokens"][0]["content"] + "<"})),
                  edit(lambda content: content["model"]["vocab"].update({"\u00e9": 9001, "e\u0301": 9002})),
                  lambda data: data.replace(b'"vocab":{', b'"vocab":{"a":1,"a":2,', 1),
                  edit(lambda content: content.update(added_tokens=[{"id": 5, "content": ""}])),
                  edit(lambda content: content.update(added_tokens=[{"id": -5, "content": "x"}]))):
        with changed(tokenizer_dot_json=wrong) as folder:
            code, line, errors = start(s.binary, folder)
            # A vocabulary may be odd and still mean something; a trap or a hang is never right.
            assert (code == 2 and "mlxserve: " in errors) or (code == 0 and line), (wrong, code, errors[-300:])
            assert verified(s.binary, folder) in ((0, 1) if line else (1,)), wrong


def test_files_that_go_away_while_they_serve(s):
    """Replaced or deleted: the mapping holds the old file. Cut in place is the one thing no mapping survives."""
    with changed() as folder:
        other = Server(s.binary, model=folder)
        try:
            expected = text_of(answered(other, CHAT, body(other)))
            path = folder / "model.safetensors"
            new = folder / "new"
            new.write_bytes(b"x" * 100)
            new.rename(path)
            assert text_of(answered(other, CHAT, body(other, "What is the capital of France?"))) == expected
            for file in folder.iterdir():
                file.unlink()
            assert text_of(answered(other, CHAT, body(other))) == expected
        finally:
            assert other.stop() == 0


def test_a_file_that_is_cut_in_place(s):
    """Nothing can go on without the weights; the end has words and a code of its own."""
    with changed() as folder:
        other = Server(s.binary, model=folder)
        try:
            assert text_of(answered(other, CHAT, body(other, max_tokens=4)))
            with open(folder / "model.safetensors", "r+b") as file:
                file.truncate(0)
            with other.connect() as connection:
                connection.sendall(encode(CHAT, body(other, "Tell me a story.")))
                try:
                    assert connection.recv(1000) == b""
                except ConnectionResetError:
                    pass
            assert other.process.wait(timeout=20) == 3
            wait_for(lambda: any("became shorter while it was mapped" in line for line in other.log), 5, "the words")
        finally:
            other.process.kill()
