"""Between a real agent and a server: the agent's requests go to the server, and a script answers them in its place.

No model that a test can have would use an agent's tools as a person wants it. So the server reads every request as it
is, and answers with a few tokens, which are thrown away; the agent is told what the script says, and works on.
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import urllib.parse

from serving import MODELS, serving

LIMITS = {"/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens"}


class Conductor(http.server.ThreadingHTTPServer):
    """Listens on a port of its own. `asked` has the bodies of the requests with tools, what the server said of each in
    its header of ignored fields, and how many tokens it read and had read before."""

    daemon_threads = True

    def __init__(self, url, write, steps):
        super().__init__(("127.0.0.1", 0), Handler)
        self.server, self.write, self.steps = urllib.parse.urlsplit(url), write, list(steps)
        self.asked, self.refused, self.lock = [], [], threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self, body):
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in ("host", "accept-encoding", "connection", "content-length")}
        connection = http.client.HTTPConnection(self.server.server.netloc, timeout=240)
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read()

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        answer, text = self.forward(None)
        self.reply(answer.status, answer.headers.get("content-type", ""), text)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        limit = LIMITS.get(urllib.parse.urlsplit(self.path).path)
        request = json.loads(body) if limit else {}
        if limit:
            # Few tokens, and whole: what the server says of the prompt is all that counts.
            body = json.dumps({**request, "stream": False, limit: 16}).encode()
        answer, text = self.forward(body)
        conductor = self.server
        if answer.status != 200 or not limit:
            if answer.status != 200:
                conductor.refused.append((self.path, answer.status, text.decode()))
            return self.reply(answer.status, "application/json", text)
        step = [{"text": "A title"}]
        with conductor.lock:
            if request.get("tools"):
                conductor.asked.append((request, answer.headers.get("x-mlxserve-ignored", ""), usage(json.loads(text))))
                # The last step again for one request too many, so that the agent ends.
                step = conductor.steps.pop(0) if len(conductor.steps) > 1 else conductor.steps[0]
            number = len(conductor.asked)
        events = conductor.write(step, request["model"], number)
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply(200, "text/event-stream", stream.encode())


def usage(answer):
    """Tokens of the prompt, and those of them that were found in the cache."""
    counts = answer["usage"]
    if "cache_read_input_tokens" in counts:
        return counts["input_tokens"] + counts["cache_read_input_tokens"], counts["cache_read_input_tokens"]
    return counts["input_tokens"], counts["input_tokens_details"]["cached_tokens"]


@contextlib.contextmanager
def conducting(write, steps):
    """A conductor before a server whose model has room for an agent's prompt; a folder with a faulty `calc.py`, and a
    function that runs `mlxserve launch` in it."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, project, home = folder / "coder", folder / "project", folder / "home"
        shutil.copytree(MODELS / "demo", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 131072}))
        for path in (project, home):
            path.mkdir()
        (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        subprocess.run(["git", "init", "-q", project], check=True)
        binary = os.environ["MLXSERVE_BINARY"]
        with serving(binary, "--model", model, "--max-context", "131072") as url:
            conductor = Conductor(url, write, steps(project))
            threading.Thread(target=conductor.serve_forever, daemon=True).start()

            def launch(agent, program, *arguments):
                (home / "bin").mkdir()
                (home / "bin" / agent).symlink_to(program)
                environment = {**os.environ, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
                return subprocess.run(
                    [binary, "launch", agent, "--port", str(conductor.server_port), "--write", "--", *arguments],
                    cwd=project, env=environment, capture_output=True, text=True, timeout=200)

            try:
                yield conductor, project, launch
            finally:
                conductor.shutdown()


def read_again(conductor, of=lambda request: True):
    """The largest part of a prompt that was computed before, and was computed again; of the requests of one thread."""
    prompts = [counts for request, _, counts in conductor.asked if of(request)]
    return max((before[0] - cached) / tokens for before, (tokens, cached) in zip(prompts, prompts[1:]))
