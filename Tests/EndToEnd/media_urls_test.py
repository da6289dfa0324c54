"""Images by URL, end to end: a web server of this test's own gives what it is asked for, in good ways and bad ones."""

import contextlib
import http.server
import json
import threading
import time

import anthropic

from media_test import GOLDEN, ask, data_url, png, refusal, serving, text, tokens, user

PICTURE = png(100, 100)
FIELD = "messages[0].content[0].image_url.url"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        name = self.path.partition("?")[0].strip("/")
        try:
            getattr(self, "give_" + name.replace("-", "_"), self.give_nothing)()
        except OSError:
            pass
        self.close_connection = True

    def answer(self, status=200, body=b"", **headers):
        self.send_response(status)
        for key, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def give_picture(self):
        self.answer(body=PICTURE, content_type="text/plain")

    def give_chunked(self):
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for start in range(0, len(PICTURE), 1000):
            piece = PICTURE[start:start + 1000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def give_moved(self):
        self.answer(302, b"elsewhere", location="/picture")

    def give_moved_away(self):
        self.answer(302, location=f"http://localhost:{self.server.server_port}/picture")

    def give_moved_to_a_file(self):
        self.answer(301, location="file:///etc/passwd")

    def give_round(self):
        self.answer(307, location="/round")

    def give_words(self):
        self.answer(body=b"<html>no image</html>")

    def give_empty(self):
        self.answer()

    def give_nothing(self):
        self.answer(404, b"secret words of the server")

    def give_broken(self):
        self.send_response(200)
        self.send_header("content-length", "5000")
        self.end_headers()
        self.wfile.write(PICTURE[:100])

    def give_large(self):
        self.send_response(200)
        self.send_header("content-length", str(21 << 20))
        self.end_headers()
        self.wait_for_end()

    def give_endless(self):
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    def give_slow(self):
        self.send_response(200)
        self.send_header("content-length", "5000")
        self.end_headers()
        self.wait_for_end()

    def wait_for_end(self):
        self.wfile.flush()
        self.server.waiting.set()
        if self.connection.recv(1) == b"":
            self.server.left.set()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.seen, server.waiting, server.left = [], threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def by_url(url, **options):
    return {"type": "image_url", "image_url": {"url": url, **options}}


def test_images_by_URL(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with web() as site:
        base = f"http://127.0.0.1:{site.server_port}"
        with serving(server.binary, "--allow-media-urls", "--media-url-host", f"127.0.0.1:{site.server_port}") as s:
            assert json.loads(s.get("/v1/capabilities")[2])["data"][0]["images"]["fetches"] is True
            check_same_as_data(s, site, base)
            check_other_wires(s, base)
            check_refusals(s, site, base)
            check_leaving(s, site, base)


def check_same_as_data(s, site, base):
    sent = ask(s, user({"type": "image_url", "image_url": {"url": data_url(PICTURE), "detail": "low"}}, text("What?")))
    for path in ("/picture", "/chunked", "/moved", "/picture?a=[1]&b={x,y}#z"):
        site.seen.clear()
        fetched = ask(s, user(by_url(base + path, detail="low"), text("What?")))
        assert tokens(fetched) == tokens(sent), path
        assert fetched.usage.prompt_tokens == sent.usage.prompt_tokens
        assert [seen[0] for seen in site.seen][:1] == [path.partition("#")[0].translate(
            {ord(c): f"%{ord(c):X}" for c in "[]{}"})], site.seen
        assert site.seen[0][1]["User-Agent"].startswith("mlxserve/") and "Authorization" not in site.seen[0][1]
    # The content is the key of what is kept, wherever it came from.
    again = ask(s, user({"type": "image_url", "image_url": data_url(PICTURE)}, text("Describe it.")))
    fetched = ask(s, user(by_url(base + "/picture"), text("Describe it.")))
    assert again.usage.prompt_tokens_details.cached_tokens < fetched.usage.prompt_tokens_details.cached_tokens
    # A conversation that is too long is made shorter in several attempts, with one fetch.
    site.seen.clear()
    long = [{"role": "user", "content": "x" * 900} for _ in range(6)]
    response = s.client.responses.create(
        model=s.model, max_output_tokens=16, temperature=0, store=False, truncation="auto",
        input=[*long, {"role": "user", "content": [
            {"type": "input_image", "image_url": base + "/picture", "detail": "low"}, {"type": "input_text", "text": "a"}]}])
    assert response.usage.input_tokens < 4096
    assert len(site.seen) == 1, site.seen


def check_other_wires(s, base):
    response = s.client.responses.create(
        model=s.model, max_output_tokens=16, temperature=0, store=False,
        input=[{"role": "user", "content": [{"type": "input_image", "image_url": base + "/picture", "detail": "low"}]}])
    assert response.usage.input_tokens > 64
    client = anthropic.Anthropic(base_url=s.base_url.removesuffix("/v1"), api_key="none", max_retries=0)
    source = {"type": "url", "url": base + "/picture"}
    message = client.messages.create(
        model=s.model, max_tokens=4, messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 256
    status, _, body = s.post("/v1/responses", {"model": s.model, "input": [
        {"role": "user", "content": [{"type": "input_image", "image_url": base + "/none"}]}]})
    error = json.loads(body)["error"]
    assert (status, error["param"]) == (400, "input[0].content[0].image_url") and "404" in error["message"], error
    status, error = refusal(
        s, [{"role": "user", "content": [{"type": "image", "source": {**source, "url": base + "/none"}}]}], "/v1/messages")
    assert status == 400 and "messages[0].content[0].source.url" in json.dumps(error) and "404" in json.dumps(error)


def check_refusals(s, site, base):
    for path, words in [
        ("/none", "status 404"), ("/words", "invalid_image"), ("/empty", "invalid_image"), ("/broken", "broke off"),
        ("/large", "more than 20971520 bytes"), ("/endless", "more than 20971520 bytes"), ("/slow", "in time"),
        ("/round", "more than 3 other places"), ("/moved-away", "nothing from 'localhost'"),
        ("/moved-to-a-file", "cannot be fetched"),
    ]:
        status, error = refusal(s, user(by_url(base + path)))
        assert (status, error["param"]) == (400, FIELD) and words in json.dumps(error), (path, status, error)
        assert "secret" not in error["message"]
    site.seen.clear()
    port = site.server_port
    for url in (f"http://localhost:{port}/picture", "http://127.0.0.1:1/picture", f"http://user:pw@127.0.0.1:{port}/picture",
                f"http://127.0.0.1:{port}\\@example.com/", f"https://127.0.0.1:{port}/picture"):
        status, error = refusal(s, user(by_url(url)), stream=True)
        assert (status, error["param"]) == (400, FIELD), (url, error)
    assert not site.seen


def check_leaving(s, site, base):
    """The fetch of a client that goes away ends with it, long before the server it waits for is given up."""
    site.waiting.clear()
    site.left.clear()
    body = json.dumps({"model": s.model, "messages": user(by_url(base + "/slow"))}).encode()
    with s.connect() as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        assert site.waiting.wait(30)
    begin = time.monotonic()
    assert site.left.wait(30) and time.monotonic() - begin < 8
    assert s.get("/health")[0] == 200


def test_private_places_are_not_fetched(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with web() as site, serving(server.binary, "--allow-media-urls") as s:
        port = site.server_port
        for host in ("127.0.0.1", "localhost", "LOCALHOST.", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1",
                     "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "0.0.0.0",
                     "[::]", "10.0.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "224.0.0.1"):
            for scheme in ("http", "HTTPS"):
                status, error = refusal(s, user(by_url(f"{scheme}://{host}:{port}/picture")))
                assert (status, error["param"], error["code"]) == (400, FIELD, "invalid_image_url"), (host, error)
        assert not site.seen


def test_URLs_without_permission_or_program(server):
    if not GOLDEN.is_dir():
        return "SKIPPED: the shared data folder is absent"
    with web() as site:
        url = f"http://127.0.0.1:{site.server_port}/picture"
        for flags, env, word in (
                ((), None, "--allow-media-urls"),
                (("--allow-media-urls", "--media-url-host", "127.0.0.1"), {"PATH": "/none"}, "curl")):
            with serving(server.binary, *flags, env=env) as s:
                status, error = refusal(s, user(by_url(url)))
                assert (status, error["param"]) == (400, FIELD) and word in error["message"], error
                assert json.loads(s.get("/v1/capabilities")[2])["data"][0]["images"]["fetches"] is False
        assert not site.seen
