"""Models beyond 4 GiB: offsets that 32 bits cannot hold, and weights that are loaded, served and unloaded under a limit.

The files are sparse: what is not written takes no room on the disk and reads as zeros."""

import contextlib
import json
import pathlib
import shutil
import struct
import tempfile

from reliability.watch import CANARY, wait_for
from server import DEMO, Server

FOUR_GIB = 1 << 32


def tensors(path):
    """Name → entry of the header, and where the data begins."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


def write(path, entries):
    """A safetensors file: name → (dtype, shape, length, bytes or None for a hole), in this order."""
    header, at = {}, 0
    for name, (dtype, shape, length, _) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + length]}
        at += length
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, length, data in entries.values():
            if data is None:
                file.seek(length, 1)
            else:
                file.write(data)
        file.truncate(8 + len(text) + at)


@contextlib.contextmanager
def variant(change_config, change_tensors):
    """A copy of the demo model with other settings and tensors."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "model"
        shutil.copytree(DEMO, folder)
        config = json.loads((folder / "config.json").read_text())
        change_config(config)
        (folder / "config.json").write_text(json.dumps(config))
        path = DEMO / "model.safetensors"
        header, start = tensors(path)
        data = path.read_bytes()
        entries = {}
        for tensor, entry in header.items():
            begin, end = entry["data_offsets"]
            entries[tensor] = (entry["dtype"], entry["shape"], end - begin, data[start + begin : start + end])
        write(folder / "model.safetensors", change_tensors(entries))
        yield folder


def test_tensors_beyond_four_gib(s):
    """The demo's tensors behind a hole of more than 4 GiB that nobody uses: the answers are the demo's."""
    hole = FOUR_GIB + 4096

    def shifted(entries):
        return {"unused.weight": ("U8", [hole], hole, None), **entries}

    with variant(lambda config: None, shifted) as folder:
        assert (folder / "model.safetensors").stat().st_size > FOUR_GIB
        other = Server(s.binary, model=folder)
        try:
            messages = [{"role": "user", "content": CANARY}]
            for options in (dict(max_tokens=40), dict(max_tokens=40, seed=5, temperature=1.0)):
                theirs = other.chat(messages, **options).choices[0].message.content
                assert theirs == s.chat(messages, **options).choices[0].message.content
        finally:
            assert other.stop() == 0


def test_weights_of_more_than_four_gib(s, whole=False):
    """A model whose weights take 4.6 GB is loaded, answers, and is unloaded, beside a small one and under a limit."""
    available = next(int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                     if line.startswith("MemAvailable:")) >> 10
    if not whole:
        return "skipped: it reads 4.6 GB for each token; with --long it runs"
    if available < 8000:
        return f"skipped: {available} MiB of memory are available, it needs 8,000"
    rows = 600_000

    def enlarged(config):
        config["intermediate_size"] = rows

    def widened(entries):
        """Every MLP becomes wide, in bfloat16 and all zeros."""
        kept = {name: entry for name, entry in entries.items() if ".mlp." not in name}
        hidden = json.loads((DEMO / "config.json").read_text())["hidden_size"]
        layers = json.loads((DEMO / "config.json").read_text())["num_hidden_layers"]
        for layer in range(layers):
            for name, shape in (("gate_proj", [rows, hidden]), ("up_proj", [rows, hidden]), ("down_proj", [hidden, rows])):
                kept[f"model.layers.{layer}.mlp.{name}.weight"] = ("BF16", shape, 2 * rows * hidden, None)
        return kept

    def served(folder, *flags):
        return Server(s.binary, "--model", f"large={folder}", "--weights", "mapped", *flags, model=DEMO)

    with variant(enlarged, widened) as folder:
        size = (folder / "model.safetensors").stat().st_size
        assert size > FOUR_GIB
        other = served(folder, "--memory", "6G")
        try:
            small = other.chat(CANARY, max_tokens=8).choices[0].message.content

            def ask(model):
                return other.client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": CANARY}], max_tokens=2, temperature=0)

            first = ask("large").choices[0].message.content
            assert ask("large").choices[0].message.content == first

            def held(part="weights"):
                text = other.get("/metrics")[2].decode()
                return next(int(float(line.split()[-1])) for line in text.splitlines()
                            if line.startswith(f'mlxserve_memory_bytes{{part="{part}"}}'))

            assert held() > FOUR_GIB
            assert other.post("/models/unload", {"model": "large"})[0] in (200, 202)
            wait_for(lambda: held() < 100 << 20, 20, "the end of the weights")
            assert ask("large").choices[0].message.content == first
            assert other.chat(CANARY, max_tokens=8).choices[0].message.content == small
        finally:
            assert other.stop() == 0
        # Under a smaller limit it is refused with the numbers, and the small one goes on.
        other = served(folder, "--memory", "4G")
        try:
            status, _, data = other.post(
                "/v1/chat/completions", {"model": "large", "messages": [{"role": "user", "content": "a"}]})
            assert status in (500, 503) and b"memory" in data, (status, data)
            assert other.chat(CANARY, max_tokens=8).choices[0].message.content == small
        finally:
            assert other.stop() == 0
    return f"{size >> 20} MiB of weights"
