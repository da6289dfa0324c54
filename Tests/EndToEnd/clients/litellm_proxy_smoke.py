"""litellm's proxy in front of the server: chat, streams and embeddings of another client pass through it."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version

from smoke import CAPITAL, MODEL, URL, check, main, test


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


PORT = free_port()
KEY = "sk-of-this-test-alone"


def post(path, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read().decode()


BODY = {
    "model": "served", "temperature": 0, "max_tokens": 200, "messages": [{"role": "user", "content": CAPITAL}],
    "reasoning_effort": "none", "allowed_openai_params": ["reasoning_effort"],
}


@test()
def plain_chat():
    answer = json.loads(post("/v1/chat/completions", BODY))
    check("Paris" in answer["choices"][0]["message"]["content"], answer)


@test()
def streaming():
    text = post("/v1/chat/completions", {**BODY, "stream": True})
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    found = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    check("Paris" in found, text)


def start(folder):
    config = pathlib.Path(folder) / "config.yaml"
    config.write_text(
        "model_list:\n  - model_name: served\n    litellm_params:\n"
        f"      model: openai/{MODEL}\n      api_base: {URL}\n      api_key: none\n")
    proxy = subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "litellm"), "--config", config, "--port", str(PORT),
         "--host", "127.0.0.1"],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    for _ in range(480):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health/liveliness", timeout=5).read()
            return proxy
        except OSError:
            time.sleep(0.5)
    proxy.kill()
    sys.exit("the proxy did not start")


with tempfile.TemporaryDirectory() as folder:
    proxy = start(folder)
    try:
        main("litellm proxy " + version("litellm"))
    finally:
        proxy.terminate()
        proxy.wait(timeout=30)
