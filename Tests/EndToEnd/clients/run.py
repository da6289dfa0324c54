"""Smoke tests of other people's clients: run.py BINARY [NAME-PART]. Each client has an environment of its own.

Without a part of a name those run that install in seconds; `all` runs the others too.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import sys
import time
import venv

from serving import MODELS, serving

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CACHE = ROOT / ".venv-clients"
SCRIPTS = {
    "openai1": "openai_smoke.py", "openai2": "openai_smoke.py", "openai3": "openai_smoke.py",
    "anthropic": "anthropic_smoke.py", "agents": "agents_smoke.py", "langchain": "langchain_smoke.py",
    "pydantic_ai": "pydantic_ai_smoke.py", "instructor": "instructor_smoke.py", "litellm": "litellm_smoke.py",
    "cohere": "cohere_smoke.py", "llama_index": "llama_index_smoke.py",
    "claude_code": "claude_code_smoke.py", "codex": "codex_smoke.py",
    "goose": "goose_smoke.py",
}
# These take minutes to install, or hundreds of megabytes.
HEAVY_SCRIPTS = {
    name: f"{name}_smoke.py"
    for name in ("outlines", "smolagents", "dspy", "guidance", "schemathesis", "litellm_proxy", "lm_eval", "aider")
}
ALL_SCRIPTS = SCRIPTS | HEAVY_SCRIPTS

UV = "uv==0.13.9"


def run_quietly(*command):
    environment = dict(os.environ)
    if index := environment.get("PIP_INDEX_URL"):
        environment.setdefault("UV_DEFAULT_INDEX", index)
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=environment)


def install(name, make):
    """The Python of an environment, or why there is none. What is installed already is kept.

    `make` fills the empty folder; `name` is that of the file of requirements.
    """
    folder = CACHE / name
    stamp = folder / "installed"
    requirements = HERE / f"{name}.txt"
    wanted = requirements.read_bytes() if requirements.exists() else UV.encode()
    state = hashlib.sha256(wanted + sys.version.encode()).hexdigest()
    python = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == state:
        return python, None
    try:
        make(folder, python, requirements)
    except subprocess.CalledProcessError as error:
        output = f"{error.stderr or ''}{error.stdout or ''}".strip().splitlines()
        return None, output[-1] if output else str(error)
    except Exception as error:
        return None, str(error)
    stamp.write_text(state)
    return python, None


def make_installer(folder, python, _):
    venv.create(folder, with_pip=True, clear=True)
    run_quietly(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV)


def install_all(names):
    """All environments are made by uv, which takes seconds where pip takes minutes."""
    installer, problem = install("uv", make_installer)
    if problem:
        return {name: (None, problem) for name in names}

    def make(folder, python, requirements):
        venv.create(folder, clear=True)
        run_quietly(
            installer, "-m", "uv", "pip", "install", "--quiet", "--python", python, "-r",
            requirements)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(lambda name: install(name, make), names)))


def run(name, python, url, binary):
    environment = {
        **os.environ, "MLXSERVE_URL": url, "MLXSERVE_BINARY": os.path.abspath(binary), "PYTHONPATH": str(HERE),
        "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    }
    return subprocess.run([python, HERE / ALL_SCRIPTS[name]], env=environment, timeout=300).returncode


def main():
    binary, part = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "")
    if part == "all":
        names = list(ALL_SCRIPTS)
    else:
        names = [name for name in (ALL_SCRIPTS if part else SCRIPTS) if part in name]
    begin = time.monotonic()
    installed = install_all(names)
    print(f"environments: {time.monotonic() - begin:.0f} s", flush=True)
    failed, skipped = [], []
    with serving(binary, "--model", MODELS / "demo") as url:
        for name, (python, problem) in installed.items():
            if problem:
                skipped.append(name)
                print(f"SKIPPED {name}: it could not be installed: {problem}", flush=True)
            elif run(name, python, url, binary) != 0:
                failed.append(name)
    print(f"{len(names) - len(failed) - len(skipped)} clients passed, {len(failed)} failed {failed or ''}, "
          f"{len(skipped)} skipped {skipped or ''} ({time.monotonic() - begin:.0f} s)")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
