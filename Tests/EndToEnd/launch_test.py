"""`mlxserve launch`: programs that stand for agents tell what they got, and files of a home of their own change only as shown."""

import json
import os
import pathlib
import stat
import subprocess
import tempfile

from embeddings_test import served
from server import DEMO


class Home:
    """A home without settings, and a folder of programs that print their arguments and some variables."""

    def __init__(self, s, folder):
        self.s, self.path = s, pathlib.Path(folder)
        self.programs = self.path / "bin"
        self.programs.mkdir()

    def install(self, name, *variables):
        program = self.programs / name
        program.write_text("#!/bin/sh\nfor a in \"$@\"; do echo \"arg $a\"; done\n" + "".join(f'echo "{v}=${v}"\n' for v in variables))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def launch(self, *words, port=None, **variables):
        env = {"HOME": str(self.path), "PATH": f"{self.programs}:/usr/bin:/bin", **variables}
        return subprocess.run([self.s.binary, "launch", *words, "--port", str(port or self.s.port)] if "--" not in words else [
            self.s.binary, "launch", "--port", str(port or self.s.port), *words], capture_output=True, text=True, timeout=60, env=env, stdin=subprocess.DEVNULL)


def context(s):
    return json.loads(s.get("/v1/models")[2])["data"][0]["context_length"]


def test_an_agent_is_started_with_what_the_server_says(s):
    with tempfile.TemporaryDirectory() as folder:
        home = Home(s, folder)
        shown = home.launch("claude", "--print")
        assert shown.returncode == 0 and "export ANTHROPIC_BASE_URL=http://127.0.0.1:" in shown.stdout, shown
        missing = home.launch("claude")
        assert missing.returncode == 2 and "Claude Code is not installed: there is no program 'claude'" in missing.stderr, missing
        home.install("claude", "ANTHROPIC_MODEL", "CLAUDE_CODE_MAX_CONTEXT_TOKENS", "API_TIMEOUT_MS", "HOME")
        result = home.launch("claude", "--", "-p", "hi there")
        told = result.stdout.splitlines()
        assert result.returncode == 0 and told[-6:] == [
            "arg -p", "arg hi there", f"ANTHROPIC_MODEL={s.model}", f"CLAUDE_CODE_MAX_CONTEXT_TOKENS={context(s)}",
            "API_TIMEOUT_MS=3600000", f"HOME={folder}"], result
        home.install("codex", "MLXSERVE_API_KEY")
        told = home.launch("codex").stdout
        assert f"arg model_context_window={context(s)}\n" in told and f'base_url="http://127.0.0.1:{s.port}/v1"' in told, told
        assert sorted(path.name for path in home.path.iterdir()) == ["bin"], "nothing was written"


def test_files_are_written_when_asked_and_kept(s):
    with tempfile.TemporaryDirectory() as folder:
        home = Home(s, folder)
        settings = home.path / ".config/zed/settings.json"
        settings.parent.mkdir(parents=True)
        before = '{"theme": "One Dark"}\n'
        settings.write_text(before)
        nobody = home.launch("zed", "--no-start")
        assert nobody.returncode == 2 and "--write" in nobody.stderr and settings.read_text() == before, nobody
        assert '- {"theme": "One Dark"}' in nobody.stdout and '+   "theme": "One Dark",' in nobody.stdout, nobody.stdout
        done = home.launch("zed", "--write", "--no-start")
        assert done.returncode == 0 and "as it was:" in done.stdout, done
        after = json.loads(settings.read_text())
        assert after["theme"] == "One Dark" and after["agent"]["default_model"]["model"] == s.model, after
        assert pathlib.Path(f"{settings}.before-mlxserve-1").read_text() == before
        again = home.launch("zed", "--no-start")
        assert again.returncode == 0 and "is as it should be" in again.stdout, again
        settings.write_text("// mine\n" + before)
        refused = home.launch("zed", "--write")
        assert refused.returncode == 2 and "stays as it is" in refused.stderr and settings.read_text().startswith("// mine"), refused
        home.install("aider", "AIDER_MODEL", "AIDER_MODEL_SETTINGS_FILE")
        result = home.launch("aider", "--write")
        path = home.path / ".config/mlxserve/aider.model.settings.yml"
        assert result.stdout.endswith(f"AIDER_MODEL=openai/{s.model}\nAIDER_MODEL_SETTINGS_FILE={path}\n"), result
        assert "reminder: none" in path.read_text() and os.stat(path).st_mode & 0o777 == 0o600
        limits = json.loads(path.with_name("aider.model.metadata.json").read_text())[f"openai/{s.model}"]
        assert limits["max_input_tokens"] + limits["max_output_tokens"] == context(s), limits


def test_what_is_missing_is_said(s):
    with tempfile.TemporaryDirectory() as folder:
        home = Home(s, folder)
        names = home.launch().stdout.split()
        assert "open-webui" in names and "home-assistant" in names, names
        unknown = home.launch("aidr")
        assert unknown.returncode == 2 and "did you mean 'aider'" in unknown.stderr, unknown
        nobody = home.launch("aider", port=1)
        assert nobody.returncode == 2 and "nothing answers at http://127.0.0.1:1" in nobody.stderr, nobody
        model = home.launch("aider", "--model", "nope")
        assert model.returncode == 2 and f"it has {s.model}" in model.stderr, model
        steps = home.launch("home-assistant")
        assert steps.returncode == 0 and f"context window size {context(s)}" in steps.stdout, steps
        with served(s, "--api-key", "secret-key", models=(DEMO,)) as other:
            locked = home.launch("goose", port=other.port)
            assert locked.returncode == 2 and "wants a key" in locked.stderr, locked
            home.install("goose", "OPENAI_API_KEY")
            opened = home.launch("goose", port=other.port, MLXSERVE_API_KEY="secret-key")
            assert opened.stdout.endswith("OPENAI_API_KEY=secret-key\n") and opened.stdout.count("secret-key") == 1, opened
