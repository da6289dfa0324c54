"""A scripted server behind the chat page: its files from the sources, answers event by event as a test says."""

import http.server
import json
import pathlib
import re
import sys
import threading
import time

CHAT = "/v1/chat/completions"
ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "Sources" / "Server" / "Page"
sys.path.insert(0, str(ROOT / "Fixtures" / "scripts" / "page"))

from embed import INSIDE, TYPES, digests, packed_text  # noqa: E402


def policy():
    """The policy of the page as its files are now."""
    known = digests()
    return (
        f"default-src 'none'; script-src 'self' '{known['script']}'; style-src '{known['style']}'; img-src 'self' data: blob:; "
        "media-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")


def preview_policy(scripts):
    """The policy of the frame in which previews are."""
    run = "'unsafe-inline'" if scripts else f"'{digests()['preview']}'"
    return (
        f"sandbox allow-scripts; default-src 'none'; script-src {run}; style-src 'unsafe-inline'; img-src data: blob:; "
        "media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")


class Answer:
    """One answer: pieces of reasoning, text and calls, and how it goes wrong. An item of the server's own work stands among the
    text; so does a source that is cited there."""

    def __init__(self, *text, reasoning=(), calls=(), pace=0.0, cut_after=None, status=None, error=None, retry_after=None,
                 usage=None, reason=None, hold=None, reading=None):
        self.text, self.reasoning, self.calls, self.pace = text, reasoning, calls, pace
        # The connection breaks after so many events, once; the answer goes on.
        self.cut_after = cut_after
        self.status, self.error, self.retry_after = status, error, retry_after
        self.usage, self.reason = usage, reason
        # An event that has to be set before the answer begins.
        self.hold = hold
        # How far the prompt is read, before that.
        self.reading = reading


class Response:
    """A response in the background: its events so far."""

    def __init__(self, id, answer, model):
        self.id, self.answer, self.model = id, answer, model
        self.events, self.is_done, self.is_cancelled = [], False, False
        self.changed = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    def add(self, type, **members):
        with self.changed:
            self.events.append({"type": type, "sequence_number": len(self.events), **members})
            self.changed.notify_all()

    def work(self):
        answer, begin = self.answer, {"id": self.id, "model": self.model, "status": "in_progress", "output": []}
        self.add("response.created", response=begin)
        if answer.reading:
            self.add("mlxserve:prompt_progress", prompt_progress=answer.reading)
        if answer.hold:
            answer.hold.wait(60)
        count = 0
        pieces = [("response.reasoning_text.delta", piece) for piece in answer.reasoning]
        pieces += [("response.output_text.delta", piece) for piece in answer.text]
        for type, piece in pieces:
            if self.is_cancelled:
                break
            if isinstance(piece, dict):
                self.work_item(piece)
                continue
            self.add(type, delta=piece, item_id="i", output_index=0)
            count += 1
            if answer.pace:
                time.sleep(answer.pace)
        for number, (name, arguments) in enumerate(answer.calls):
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{self.id}_{number}", "name": name, "arguments": ""}
            self.add("response.output_item.added", item=item, output_index=number)
            for at in range(0, len(arguments), 4):
                self.add("response.function_call_arguments.delta", item_id=item["id"], delta=arguments[at : at + 4])
        usage = answer.usage or {
            "input_tokens": 20, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": max(1, count),
            "output_tokens_details": {"reasoning_tokens": len(answer.reasoning)}}
        done = {**begin, "status": "completed", "usage": usage}
        if self.is_cancelled:
            self.add("response.incomplete", response={**done, "status": "cancelled"})
        elif answer.error and not answer.status:
            self.add("response.failed", response={**done, "status": "failed", "error": answer.error})
        elif answer.reason:
            self.add("response.incomplete", response={**done, "status": "incomplete", "incomplete_details": {"reason": answer.reason}})
        else:
            self.add("response.completed", response=done)
        with self.changed:
            self.is_done = True
            self.changed.notify_all()


    def work_item(self, item):
        if item["type"] == "file_citation":
            return self.add("response.output_text.annotation.added", annotation=item, annotation_index=0)
        begun = {name: value for name, value in item.items() if name != "hold"}
        if item["type"] == "mcp_call":
            begun |= {"status": "in_progress", "output": None, "error": None}
        self.add("response.output_item.added", item=begun, output_index=0)
        if hold := item.get("hold"):
            while not hold.wait(0.05) and not self.is_cancelled:
                pass
        if self.is_cancelled:
            item = {**item, "status": "incomplete", "output": None}
        self.add("response.output_item.done", item={name: value for name, value in item.items() if name != "hold"}, output_index=0)


class Fake:
    """The server; `requests` has what came, `answers` what goes out, in order."""

    def __init__(self, with_policy=True):
        self.with_policy = with_policy
        self.answers, self.requests, self.responses = [], [], {}
        self.models = [model("demo"), model("big", status="unloaded", context=None)]
        # What is said to requests for a whole completion, and what came of them.
        self.title, self.scores, self.whole = "", None, []
        self.key = None
        # A proxy has taken this off; the page is not told.
        self.prefix = ""
        # True, the words of a download, or the part of the weights that is there.
        self.loading = False
        self.load_seconds = 0.3
        self.extra = {}
        # Servers of tools by their labels: what each has, or how long it takes to say nothing.
        self.servers = {}
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_): pass

            def handle(self):
                try:
                    super().handle()
                except ConnectionError:
                    pass

            def do_GET(self): self.stripped() and fake.get(self)
            def do_POST(self): self.stripped() and fake.post(self)

            def stripped(self):
                if not self.path.startswith(fake.prefix + "/"):
                    self.fail(404, "outside", "This is not below the prefix.")
                    return False
                self.path = self.path.removeprefix(fake.prefix)
                return True

            def do_DELETE(self):
                self.stripped()
                fake.requests.append(("DELETE", self.path, None))
                self.send_json({"deleted": True})

            def send_json(self, value, status=200, headers=()):
                self.send(json.dumps(value).encode(), "application/json", status, headers)

            def send(self, body, type, status=200, headers=()):
                self.send_response(status)
                for name, value in (("content-type", type), ("content-length", str(len(body))), *headers):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def fail(self, status, code, message, headers=(), details=None):
                error = {"message": message, "type": "x", "param": None, "code": code}
                self.send_json({"error": error | ({"details": details} if details else {})}, status, headers)

            def events(self):
                self.send_response(200)
                for name, value in (("content-type", "text/event-stream"), ("transfer-encoding", "chunked")):
                    self.send_header(name, value)
                self.end_headers()

            def event(self, value):
                data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 64

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def bodies(self, path="/v1/responses"):
        """What was asked for as a stream; the page asks for titles and scores as a whole."""
        return [body for method, where, body in self.requests if method == "POST" and where == path and (path != CHAT or body.get("stream"))]

    # Requests.

    def page(self, handler, path):
        name = "index.html" if path == "/" else path.removeprefix("/ui/")
        file = PAGE / "ui" / name
        if ".." in name or not file.is_file() or file in [inside for _, inside in INSIDE.values()]:
            return False
        headers = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("cache-control", "no-cache")]
        if name == "preview.html":
            headers.append(("content-security-policy", preview_policy("?scripts" in handler.path)))
        elif self.with_policy:
            headers.append(("content-security-policy", policy()))
        handler.send(packed_text(file).encode(), TYPES[file.suffix], headers=headers)
        return True

    def is_refused(self, handler):
        if self.key and handler.headers.get("authorization") != f"Bearer {self.key}":
            handler.fail(401, "invalid_api_key", "The API key provided is not valid.")
            return True
        if self.loading:
            words = self.loading if isinstance(self.loading, str) else None
            details = {"progress": self.loading} if isinstance(self.loading, float) else None
            handler.fail(503, "downloading" if words else "loading", words or "The model is being loaded.", [("retry-after", "1")], details)
            return True
        return False

    def get(self, handler):
        path, _, query = handler.path.partition("?")
        if path in ("/", ) or path.startswith("/ui/"):
            if self.page(handler, path):
                return
        self.requests.append(("GET", handler.path, None))
        if self.is_refused(handler):
            return
        if path == "/v1/models":
            return handler.send_json({"object": "list", "data": self.models})
        if path == "/v1/capabilities":
            return handler.send_json({"object": "list", "data": [
                capabilities(one["id"], one["input_modalities"]) for one in self.models if one["status"]["value"] == "loaded"],
                "server": {"mcp": {"servers": list(self.servers)}, "pull": "/models/pull" in self.extra, "vector_stores": "/v1/vector_stores" in self.extra,
                           "known": [{"name": "tiny:1b", "bytes": 700_000_000, "note": "tiny"}] if "/models/pull" in self.extra else []}})
        if path in self.extra:
            return self.extra[path](handler)
        if path == "/props":
            return handler.send_json({"default_generation_settings": {"n_ctx": 4096, "params": {
                "temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1, "presence_penalty": 0}}})
        if path.startswith("/v1/responses/"):
            response = self.responses.get(path.rsplit("/", 1)[1])
            if not response:
                return handler.fail(404, None, "Response not found.")
            after = re.search(r"starting_after=(\d+)", query)
            return self.follow(handler, response, int(after[1]) + 1 if after else 0)
        handler.fail(404, "unknown_url", "There is nothing here.")

    def post(self, handler):
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        try:
            body = json.loads(body)
        except ValueError:
            pass
        self.requests.append(("POST", handler.path, body))
        if self.is_refused(handler):
            return None
        if handler.path in self.extra:
            return self.extra[handler.path](handler, body)
        if handler.path == "/v1/responses":
            answer = self.answers.pop(0) if self.answers else Answer("Hello ", "there.")
            if answer.status:
                error = answer.error or {"code": "internal", "message": "It failed."}
                headers = [("retry-after", str(answer.retry_after))] if answer.retry_after else []
                return handler.fail(answer.status, error["code"], error["message"], headers)
            response = Response(f"resp_{len(self.responses)}", answer, body["model"])
            self.responses[response.id] = response
            return self.follow(handler, response, 0, answer.cut_after)
        if handler.path == "/v1/chat/completions":
            return self.complete(handler, body)
        if handler.path.startswith("/v1/mcp/servers/"):
            return self.tool_server(handler, body, *handler.path.split("/")[4:])
        if handler.path.endswith("/cancel"):
            response = self.responses.get(handler.path.split("/")[-2])
            if response:
                response.is_cancelled = True
            return handler.send_json({})
        if handler.path in ("/models/load", "/models/unload"):
            return self.change(handler, body, handler.path.endswith("/load"))
        return handler.fail(404, "unknown_url", "There is nothing here.")

    def tool_server(self, handler, body, label, what=None):
        if what:
            return handler.send_json({"object": "mcp_text", "text": self.servers[label]["texts"](body)})
        empty = {"object": "mcp_server", "label": label, "tools": [], "prompts": [], "resources": [], "error": None}
        handler.send_json({**empty, **{name: value for name, value in self.servers[label].items() if name != "texts"}})

    def change(self, handler, body, is_load):
        found = next(one for one in self.models if one["id"] == body["model"])
        found["status"] = {"value": "loading" if is_load else "unloaded"}
        if is_load:
            threading.Timer(self.load_seconds, lambda: found.update(status={"value": "loaded"}, context_length=4096)).start()
        handler.send_json({"success": True, "model": body["model"], "status": found["status"]}, 202)

    def follow(self, handler, response, first, cut_after=None):
        handler.events()
        at = first
        while True:
            with response.changed:
                response.changed.wait_for(lambda: at < len(response.events) or response.is_done, timeout=60)
                batch, is_done = response.events[at:], response.is_done
            for event in batch:
                if cut_after is not None and at >= cut_after:
                    handler.close_connection = True
                    handler.connection.shutdown(2)
                    return
                handler.event(event)
                at += 1
            if is_done and at >= len(response.events):
                break
        handler.event("[DONE]")
        handler.wfile.write(b"0\r\n\r\n")

    def complete(self, handler, body):
        """A chat completion: the page asks for one to go on with an answer, for a title, and for what tokens are worth."""
        if not body.get("stream"):
            self.whole.append(body)
            answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": self.title}, "finish_reason": "stop"}]}
            return handler.send_json(answer | {"prompt_logprobs": self.scores})
        answer = self.answers.pop(0) if self.answers else Answer(" and more.")
        handler.events()
        for piece in answer.text:
            handler.event({"choices": [{"index": 0, "delta": {"content": piece}}]})
            time.sleep(answer.pace)
        handler.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        handler.event({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": len(answer.text)}})
        handler.event("[DONE]")
        handler.wfile.write(b"0\r\n\r\n")


def model(id, status="loaded", context=4096, inputs=("text", "image", "audio")):
    return {"id": id, "object": "model", "created": 1, "owned_by": "mlxserve", "context_length": context, "input_modalities": list(inputs),
            "size_bytes": 1_234_567 if status == "loaded" else None, "aliases": [], "pinned": False, "status": {"value": status}}


def capabilities(id, inputs):
    return {"id": id, "context_length": 4096, "modalities": {"input": inputs, "output": ["text"]},
            "endpoints": ["POST /v1/responses"], "sounds": {"seconds": 30},
            "thinking": {"supported": True, "switch": True, "budget": True}, "tools": {"supported": True}}


if __name__ == "__main__":
    fake = Fake()
    print(fake.url, flush=True)
    threading.Event().wait()
