"""The users' pages: their blocks of commands run as they stand, the messages that they quote are provoked."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from editors_test import coder_model
from fake_hub import Hub, Repository
from gguf_test import LLAMA, metadata, retyped
from server import DEMO, ROOT, Server

ENCODER = DEMO.parent / "encoder-tiny"
PAGES = ("README.md", "docs/chat.md", "docs/getting-models.md", "docs/editors.md")


def blocks(page, language="sh"):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def commands(block):
    """Its commands: one ends with its line, unless a backslash or an open quote says that it goes on."""
    found, open_line = [], ""
    for line in block.splitlines():
        open_line += line + "\n"
        if not line.endswith("\\") and re.sub(r"\s#.*", "", open_line).count("'") % 2 == 0:
            found.append(open_line.strip())
            open_line = ""
    assert not open_line, block
    return [command for command in found if command]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reader:
    """Somebody who types what a page says: a home, the program on the path, a hub with what the pages name."""

    def __init__(self, binary, hub, home):
        self.home, self.serving, self.port = home, None, None
        programs = home / "bin"
        programs.mkdir()
        (programs / "mlxserve").symlink_to(os.path.abspath(binary))
        (home / "notes").mkdir()
        (home / "Downloads").mkdir()
        shutil.copy(LLAMA, home / "Downloads" / "Qwen3-4B-Q4_K_M.gguf")
        (home / "notes" / "boarding.md").write_text("# Winter\n\nThe checklist for boarding: tags, blankets, papers.\n")
        (home / "notes" / "tea.md").write_text("# Tea\n\nFour minutes.\n")
        (home / "person.json").write_text(json.dumps({
            "type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"],
            "additionalProperties": False}))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "MLXSERVE_", "GIT_"))}
        self.environment = {
            **inherited, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "HF_ENDPOINT": hub.endpoint,
            "HF_HUB_CACHE": str(home / "cache"), "NO_PROXY": "*", "MLXSERVE_MAX_TOKENS": "24"}
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=home, check=True, env=self.environment)
        (home / "notes" / "tea.md").write_text("# Tea\n\nFive minutes.\n")

    def run(self, command):
        """A command; one that serves goes on until the next of these, and has a port of its own."""
        if re.match(r"mlxserve (serve|--model)\b", command):
            return self.serve(command)
        if command.startswith("mlxserve rm"):
            self.stop()
        # On a terminal it asks.
        command = command.replace("mlxserve rm", "mlxserve rm --yes")
        # The agent need not be there to be told of the server.
        command = re.sub(r"(mlxserve launch \S+)", rf"\1 --print --port {self.port}", command)
        if self.port:
            command = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self.port}", command)
        done = subprocess.run(
            command, shell=True, cwd=self.home, env=self.environment, input="", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-1500:])
        return done.stdout

    def serve(self, command):
        self.stop()
        self.port = free_port()
        # What a person types is taken before what the environment says.
        command = re.sub(r"--port \d+", "", command.partition("#")[0])
        self.serving = subprocess.Popen(
            f"exec {command}", shell=True, cwd=self.home, env={**self.environment, "MLXSERVE_PORT": str(self.port)},
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.serving.stdout.readline()
        assert f"listening on http://127.0.0.1:{self.port}/v1" in line, (command, line)
        return line

    def stop(self):
        if self.serving:
            self.serving.terminate()
            assert self.serving.wait(60) == 0
            self.serving.stdout.close()
        self.serving = None


def repository(name, folder):
    return Repository(name, {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})


def test_every_command_of_the_pages_runs_as_it_stands(server):
    if not shutil.which("git") or not shutil.which("curl"):
        return "SKIPPED: there is no git, or no curl"
    with tempfile.TemporaryDirectory() as place:
        models = [
            repository("mlx-community/Qwen3-0.6B-4bit", DEMO), repository("sentence-transformers/all-MiniLM-L6-v2", ENCODER),
            repository("mlx-community/Qwen2.5-Coder-1.5B-4bit", coder_model(place)),
            Repository("unsloth/Qwen3-4B-GGUF", {"Qwen3-4B-Q4_K_M.gguf": LLAMA.read_bytes(), "Qwen3-4B-Q8_0.gguf": b"x"})]
    with Hub(*models) as hub, tempfile.TemporaryDirectory() as folder:
        reader = Reader(server.binary, hub, pathlib.Path(folder))
        ran = {}
        try:
            for page in PAGES:
                for block in blocks(page):
                    for command in commands(block):
                        if command.startswith("make "):
                            # What it builds runs these tests; what it then does is this.
                            command = f"mlxserve --model {DEMO}"
                        ran[command] = reader.run(command)
                for block in blocks(page, "python"):
                    program = block.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}").replace('"demo"', f'"{server.model}"')
                    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
                    assert done.returncode == 0 and done.stdout.strip(), done
        finally:
            reader.stop()

        def of(start):
            return next(output for command, output in ran.items() if command.startswith(start))

        assert json.loads(of("curl http://127.0.0.1:8080/v1/chat/completions"))["choices"][0]["message"]["content"]
        assert "qwen3:0.6b" in of("mlxserve models") and "boarding.md" in of("mlxserve search")
        assert of("git diff").strip() and "age" in json.loads(of('mlxserve run qwen3:0.6b "Anna'))
        assert json.loads(of('mlxserve run qwen3:0.6b "Hello" --json'))["finish_reason"] in ("stop", "length")
        assert json.loads(of("curl http://127.0.0.1:8012/infill"))["content"]
        assert len(ran) >= 18, sorted(ran)


# MARK: Messages


def alike(text):
    """A message without what differs from one machine or model to the next."""
    text = re.sub(r"\s+", " ", text).strip().lower()
    text = re.sub(r"\d+(\.\d+)? (kib|mib|gib)", "SIZE", text)
    text = re.sub(r"'[^']*'(?= (does|has|gen|cannot|takes|makes|:|may|needs))|(?<=model )'[^']*'", "NAME", text)
    return re.sub(r"\d+", "N", text)


def quoted():
    """Every message that the page quotes, as an expression: three dots stand for anything."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    # Under the first two heads a message is in bold, elsewhere it follows its code.
    found = re.findall(r"^\*\*`([^`]{30,})`\*\*", text, re.M)
    found += re.findall(r"^\*\*\d+ `\w+`[^:\n]*\*\*:\s+`([^`]+)`", text, re.M) + re.findall(r"^`(There is no room[^`]+)`", text, re.M)
    return found


def matches(message, text):
    pattern = ".*".join(re.escape(part) for part in alike(message).rstrip(".").split("..."))
    return re.search(pattern, alike(text)) is not None


class Changed:
    """A copy of the demo model with some files changed; None takes one away."""

    def __init__(self, folder, name, **files):
        self.path = pathlib.Path(folder) / name
        shutil.copytree(DEMO, self.path)
        for file, content in files.items():
            place = self.path / {"weights": "model.safetensors", "tokenizer": "tokenizer.json", "template": "chat_template.jinja"}[file]
            if content is None:
                place.unlink(missing_ok=True)
            else:
                place.write_bytes(content)

    def configure(self, **settings):
        place = self.path / "config.json"
        place.write_text(json.dumps({**json.loads(place.read_text()), **settings}))
        return self.path


def refused_starts(binary, folder, port):
    """What a start says that fails, for every one that the page quotes."""
    weights = (DEMO / "model.safetensors").read_bytes()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345678\n"
    starts = [
        ("--model", "/tmp/nowhere"), ("--model", Changed(folder, "pointer", weights=pointer).path),
        ("--model", Changed(folder, "cut", weights=weights[:len(weights) // 2]).path),
        ("--model", Changed(folder, "mute", tokenizer=None).path),
        ("--model", Changed(folder, "rwkv").configure(model_type="rwkv7")),
        ("--model", Changed(folder, "aqlm").configure(quantization_config={"quant_method": "aqlm"}, quantization=None)),
        ("--model", DEMO, "--max-context", 1_000_000), ("--model", DEMO, "--port", port), ("--model", DEMO, "--host", "0.0.0.0"),
        ("--model", DEMO, "--memory", "3M"),
    ]
    several = pathlib.Path(folder, "several")
    several.mkdir()
    model = LLAMA.read_bytes()
    for name, data in (("mamba", metadata("mamba")), ("cut.gguf", model[:60_000]),
                       ("lattice.gguf", retyped(model, "blk.0.ffn_down.weight", (256, 32), 16))):
        place = several / name if name.endswith(".gguf") else pathlib.Path(folder, f"{name}.gguf")
        place.write_bytes(data)
        starts.append(("--model", place))
    starts.append(("--model", several))
    said = []
    for words in starts:
        port_flag = [] if "--port" in words else ["--port", "0"]
        done = subprocess.run([binary, "serve", *map(str, [*words, *port_flag])], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, (words, done)
        said.append(done.stderr)
    return said


def answer(server, path, body=None, **headers):
    """Status and message of a refusal."""
    headers = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as done:
            return done.status, done.read().decode()
    except urllib.error.HTTPError as error:
        content = json.loads(error.read())["error"]
        return error.code, content["message"]


def refused_requests(binary, folder):
    """What requests get, for every refusal that the page quotes."""
    chat, text = "/v1/chat/completions", [{"role": "user", "content": "Hi"}]
    body = {"model": "demo", "messages": text}
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    bare = Changed(folder, "notpl", template=None)
    settings = json.loads((bare.path / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (bare.path / "tokenizer_config.json").write_text(json.dumps(settings))
    broken = Changed(folder, "two")
    # Those of a folder of models are loaded when they are first asked for.
    with Server(binary, "--models-dir", folder, "--max-sequences", "1", "--queue-limit", "1") as server:
        (broken.path / "model.safetensors").write_bytes(b"no")
        yield answer(server, chat, body, content_type="application/x-www-form-urlencoded")
        yield answer(server, "/v1/v1/models")
        yield answer(server, "/v1/embeddings", {"model": "demo", "input": "x"})
        yield answer(server, chat, {"model": "demo", "messages": [{"role": "user", "content": "a story " * 3000}]})
        yield answer(server, chat, {"model": "demo", "messages": image})
        yield answer(server, chat, body, host="llm.example.com")
        yield answer(server, chat, body, origin="https://chat.example.com")
        # One runs, one waits, and one is too many.
        long = {"model": "demo", "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 1500, "ignore_eos": True}
        waiting = [threading.Thread(target=answer, args=(server, chat, {**long, "seed": seed})) for seed in range(6)]
        for thread in waiting:
            thread.start()
        end, found = time.monotonic() + 60, (200, "")
        while found[0] != 429 and time.monotonic() < end:
            found = answer(server, chat, {**body, "max_tokens": 1})
        yield found
        for thread in waiting:
            thread.join()
        yield answer(server, chat, {**body, "model": "notpl"})
        yield answer(server, chat, {**body, "model": "two"})
    with Server(binary) as server:
        yield answer(server, chat, {**body, "model": "gpt-4o"})
    with Server(binary, "--api-key", "sk-1") as server:
        yield answer(server, chat, body)


def test_every_message_of_troubleshooting_is_a_real_one(server):
    wanted = quoted()
    assert len(wanted) >= 21, wanted
    with tempfile.TemporaryDirectory() as folder:
        said = refused_starts(server.binary, folder, server.port)
        models = pathlib.Path(folder, "models")
        models.mkdir()
        for status, message in refused_requests(server.binary, models):
            assert status >= 400, message
            said.append(message)
    unsaid = [message for message in wanted if not any(matches(message, text) for text in said)]
    assert not unsaid, (unsaid, said)
