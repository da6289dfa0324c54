"""Keys, hosts, origins, sockets, limits, signals, logs and metrics, from outside."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import urllib.request

import anthropic
import openai
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from server import DEMO, Server, parse

OPEN = ("/health", "/ready", "/readyz", "/livez")


@contextlib.contextmanager
def serving(s, *flags, **options):
    other = Server(s.binary, *map(str, flags), **options)
    try:
        yield other
    finally:
        other.stop()


@contextlib.contextmanager
def locked(s, text="alice: sk-alice\nsk-plain\n", *flags):
    """A server with a key file, and the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "keys"
        path.write_text(text)
        path.chmod(0o600)
        with serving(s, "--api-key-file", path, *flags, key="sk-alice") as other:
            yield other, path


def bearer(key):
    return [f"Authorization: Bearer {key}"]


def code(answer):
    return answer[0], json.loads(answer[2])["error"]["code"]


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def refused_start(s, *flags, env=None):
    result = subprocess.run(
        [s.binary, "serve", "--model", str(DEMO), "--port", "0", *map(str, flags)], capture_output=True, text=True,
        timeout=60, env=env)
    assert result.stdout == "", result
    return result.returncode, result.stderr.strip().splitlines()[0]


# Keys


def test_every_route_wants_a_key(s):
    with locked(s) as (other, _):
        paths = json.loads(other.get("/openapi.json", bearer("sk-alice"))[2])["paths"]
        assert len(paths) > 20
        for path, item in paths.items():
            for method in item:
                status, headers, data = other.get(path.replace("{", "").replace("}", ""), method=method.upper())
                assert (status == 200) == (path in OPEN), (method, path, status)
                if path not in OPEN:
                    assert status == 401 and headers["www-authenticate"] == "Bearer", (method, path, status)
        for path in ("/nope", "/health/../v1/models", "/health;/v1/models", "/%68ealth"):
            assert other.get(path)[0] in (400, 401), path


def test_wrong_keys_have_one_shape(s):
    with locked(s) as (other, _):
        for headers in ([], bearer(""), bearer("sk-alic"), bearer("sk-alicex"), bearer("SK-ALICE"), bearer("none"),
                        ["Authorization: Basic sk-alice"], ["Authorization: sk-alice"], ["x-api-key: wrong"]):
            status, fields, data = other.get("/v1/models", headers)
            assert status == 401, headers
            error = json.loads(data)["error"]
            assert error.keys() == {"message", "type", "param", "code"}, error
            assert (error["type"], error["param"], error["code"]) == ("authentication_error", None, "invalid_api_key")
            assert "sk-alice" not in data.decode()
        for headers in (bearer("sk-alice"), bearer("sk-plain"), ["authorization: bearer sk-alice"], ["x-api-key: sk-plain"]):
            assert other.get("/v1/models", headers)[0] == 200, headers
        assert other.get("/v1/models", bearer("sk-alice") * 2)[0] == 400


def test_sdks_raise_their_authentication_error(s):
    with locked(s) as (other, _):
        assert other.chat("Hello!").choices[0].message.content
        messages = [{"role": "user", "content": "x"}]
        for key, expected in (("sk-alice", None), ("wrong", "AuthenticationError")):
            calls = [
                (openai, lambda: openai.OpenAI(base_url=other.base_url, api_key=key, max_retries=0).chat.completions.create(
                    model=other.model, messages=messages, max_tokens=2)),
                (anthropic, lambda: anthropic.Anthropic(
                    base_url=other.base_url.removesuffix("/v1"), api_key=key, max_retries=0).messages.create(
                        model=other.model, messages=messages, max_tokens=2)),
            ]
            for module, call in calls:
                try:
                    call()
                    assert expected is None, module
                except module.AuthenticationError as error:
                    assert expected, module
                    assert error.status_code == 401
                    kind = error.body["error"]["type"] if module is anthropic else error.body["type"]
                    assert kind == "authentication_error", error.body


def test_a_body_is_not_read_without_a_key(s):
    with locked(s) as (other, _):
        with other.connect() as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n[[[[")
            assert connection.recv(4096).startswith(b"HTTP/1.1 401 ")


def test_hang_up_reads_the_keys_again(s):
    with locked(s) as (other, path):
        path.write_text("bob: sk-new")
        other.process.send_signal(signal.SIGHUP)
        wait_for(lambda: other.get("/v1/models", bearer("sk-new"))[0] == 200)
        assert other.get("/v1/models", bearer("sk-alice"))[0] == 401
        path.write_text("# nothing")
        other.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("the old ones stay" in line for line in other.log))
        assert other.get("/v1/models", bearer("sk-new"))[0] == 200
        path.write_text("two words")
        other.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("line 1" in line for line in other.log))
        assert other.get("/v1/models", bearer("sk-new"))[0] == 200
        log = "".join(other.log)
    assert "keys read again" in log and "two words" not in log and "sk-new" not in log and "sk-alice" not in log
    assert "open to others" not in log


def test_what_one_key_stores_another_cannot_reach(s):
    keys = "alice: sk-alice\nalice: sk-alice-2\nbob: sk-bob\n"
    with tempfile.TemporaryDirectory() as state, locked(s, keys, "--state-dir", state) as (other, _):
        alice = other.client
        laptop, bob = (alice.with_options(api_key=key) for key in ("sk-alice-2", "sk-bob"))
        response = alice.responses.create(model=other.model, input="One word.", max_output_tokens=4)
        mine = alice.conversations.create(items=[{"id": "msg_same", "role": "user", "content": "of alice"}])
        theirs = bob.conversations.create(items=[{"id": "msg_same", "role": "user", "content": "of bob"}])
        assert laptop.responses.retrieve(response.id).id == response.id
        refused = [
            lambda: bob.responses.retrieve(response.id), lambda: bob.responses.delete(response.id),
            lambda: bob.responses.cancel(response.id), lambda: bob.responses.input_items.list(response.id),
            lambda: bob.conversations.retrieve(mine.id), lambda: bob.conversations.delete(mine.id),
            lambda: bob.conversations.update(mine.id, metadata={"a": "b"}),
            lambda: bob.conversations.items.list(mine.id),
            lambda: bob.conversations.items.create(mine.id, items=[{"role": "user", "content": "x"}]),
            lambda: bob.conversations.items.delete("msg_same", conversation_id=mine.id),
            lambda: bob.responses.create(model=other.model, input="x", conversation=mine.id),
        ]
        for call in refused:
            try:
                call()
                raise AssertionError("bob reached what alice stored")
            except openai.NotFoundError:
                pass
        answer = other.post(
            "/v1/responses", {"model": other.model, "input": "x", "previous_response_id": response.id}, bearer("sk-bob"))
        assert code(answer) == (400, "previous_response_not_found"), answer
        # An item's id is its maker's choice: a reference means the asker's own.
        for client, text in ((alice, "of alice"), (bob, "of bob")):
            made = client.responses.create(
                model=other.model, input=[{"type": "item_reference", "id": "msg_same"}], max_output_tokens=1)
            (item,) = client.responses.input_items.list(made.id).data
            assert item.content[0].text == text, item
        assert len(alice.conversations.items.list(mine.id).data) == 1
        assert alice.conversations.delete(mine.id).deleted and bob.conversations.delete(theirs.id).deleted
        assert alice.responses.delete(response.id) is None


def test_weak_permissions_are_reported(s):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "keys"
        path.write_text("k")
        path.chmod(0o644)
        with serving(s, "--api-key-file", path) as other:
            wait_for(lambda: any("open to others" in line for line in other.log))


def test_keys_of_the_environment_stay_out_of_sight(s):
    env = {**os.environ, "MLXSERVE_API_KEY": "sk-environment"}
    with serving(s, "--api-key", "sk-flag", "--api-key", "sk-other", key="sk-environment", env=env) as other:
        for key in ("sk-environment", "sk-flag", "sk-other"):
            assert other.get("/v1/models", bearer(key))[0] == 200, key
        assert other.get("/v1/models", bearer("sk-flag2"))[0] == 401
        other.stop()
        assert "sk-" not in "".join(other.log)
    assert refused_start(s, env={**os.environ, "MLXSERVE_API_KEY": ""})[0] == 2


def test_other_machines_need_a_key(s):
    status, message = refused_start(s, "--host", "0.0.0.0")
    assert status == 2 and "--api-key-file" in message and "--allow-anonymous" in message, message
    for flags in (("--api-key", "k"), ("--allow-anonymous",)):
        with serving(s, "--host", "0.0.0.0", *flags) as other:
            headers = bearer("k")
            for host in ("192.168.7.7:80", "localhost", socket.gethostname()):
                assert other.get("/v1/models", headers, host=host)[0] == 200, host
            assert code(other.get("/v1/models", headers, host="evil.com")) == (403, "host_not_allowed")


def test_a_key_file_of_an_editor_that_marks_utf8(s):
    with locked(s, "\ufeffsk-alice\r\n") as (other, _):
        assert other.get("/v1/models", bearer("sk-alice"))[0] == 200
        assert other.get("/v1/models")[0] == 401


def test_a_mistyped_variable_is_named(s):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MLXSERVE_")}
    # What Kubernetes sets for a service of this name is no setting, and no mistake.
    links = {"MLXSERVE_PORT": "tcp://10.0.0.1:80", "MLXSERVE_SERVICE_HOST": "10.0.0.1", "MLXSERVE_PORT_80_TCP_PORT": "80"}
    with serving(s, env={**kept, **links}) as other:
        assert not any("means nothing" in line for line in other.log), other.log
    with serving(s, env={**kept, "MLXSERVE_QUEUE_LIMITS": "9"}) as other:
        said = [line for line in other.log if "means nothing" in line]
        assert said == ["mlxserve: the variable MLXSERVE_QUEUE_LIMITS means nothing; did you mean MLXSERVE_QUEUE_LIMIT?\n"], said
    asked = subprocess.run([s.binary, "serve", "--model", "/nowhere", "--json-log"], capture_output=True, text=True,
                           env={**kept, "MLXSERVE_QUEUE_LIMITS": "9"}, timeout=60)
    first = json.loads(asked.stderr.splitlines()[0])
    assert first["variable"] == "MLXSERVE_QUEUE_LIMITS" and first["level"] == "warning", asked


# Hosts and origins


def test_an_address_in_brackets(s):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return "skipped: no IPv6 here"
    process = subprocess.Popen([s.binary, "serve", "--model", str(DEMO), "--host", "[::1]", "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found = re.search(r"listening on (http://\[::1\]:\d+)/v1", process.stdout.readline())
        assert urllib.request.urlopen(f"{found[1]}/v1/models", timeout=20).status == 200
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0
    status, message = refused_start(s, "--host", "[::]")
    assert status == 2 and message.startswith("mlxserve: --host :: lets other machines in"), message


def test_pages_of_desktop_programs_come_with_a_flag(s):
    pages = ("app://obsidian.md", "tauri://localhost", "http://tauri.localhost", "vscode-webview://1a2b", "vscode-file://vscode-app")
    for page in pages:
        assert code(s.get("/v1/models", [f"Origin: {page}"])) == (403, "origin_not_allowed"), page
    with serving(s, "--allow-desktop-apps") as other:
        for page in pages:
            status, headers, _ = other.get("/v1/models", [f"Origin: {page}"])
            assert status == 200 and headers["access-control-allow-origin"] == page
            ask = [f"Origin: {page}", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type"]
            assert other.get("/v1/chat/completions", ask, method="OPTIONS")[0] == 204, page
        for page in ("null", "file://", "https://evil.com", "http://tauri.localhost.evil.com", "apps://x"):
            assert code(other.get("/v1/models", [f"Origin: {page}"])) == (403, "origin_not_allowed"), page


def test_rebound_names_are_refused(s):
    for host in ("evil.com", f"evil.com:{s.port}", "localhost.evil.com", "127.0.0.1.nip.io", "0.0.0.0", "169.254.169.254"):
        for path in ("/v1/models", "/health"):
            status, headers, data = s.get(path, host=host)
            assert (status, json.loads(data)["error"]["code"]) == (403, "host_not_allowed"), host
            assert headers["connection"] == "close"
    for host in ("localhost", f"LOCALHOST:{s.port}", "127.0.0.1", f"[::1]:{s.port}"):
        assert s.get("/v1/models", host=host)[0] == 200, host
    assert s.get("/v1/models", host="")[0] == 400
    with serving(s, "--allow-host", "box.example", "--allow-host", "other.example") as other:
        assert other.get("/v1/models", host="BOX.example:1")[0] == 200
        assert other.get("/v1/models", host="other.example")[0] == 200
        assert other.get("/v1/models", host="third.example")[0] == 403


def test_foreign_pages_are_refused(s):
    for origin in ("https://evil.com", "null", "http://localhost.evil.com"):
        before = len(s.log)
        for answer in (s.get("/v1/models", [f"Origin: {origin}"]),
                       s.post("/v1/chat/completions", {"model": s.model, "messages": []}, [f"Origin: {origin}"])):
            assert code(answer) == (403, "origin_not_allowed"), origin
            assert not [name for name in answer[1] if name.startswith("access-control")], answer
            assert answer[1]["x-content-type-options"] == "nosniff" and answer[1]["cross-origin-resource-policy"] == "same-origin"
        assert not any("first_token_ms" in line for line in s.log[before:])
    # A picture, a frame, a link: browsers send no origin with these.
    for mode, kind, path, status in (("no-cors", "image", "/slots", 403), ("navigate", "iframe", "/", 403),
                                     ("navigate", "document", "/props", 403), ("navigate", "document", "/", 200)):
        sent = ["Sec-Fetch-Site: cross-site", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {kind}", "Accept: text/html"]
        assert s.get(path, sent)[0] == status, (path, kind)
    # Nor can a page of another site make anything of what nobody could read.
    for path, status in (("/" + "a" * 9_000, 414), ("/%00", 400), ("/%zz", 400)):
        got, headers, _ = s.get(path)
        assert got == status, (got, path[:9])
        assert headers["x-content-type-options"] == "nosniff", headers
        assert headers["cross-origin-resource-policy"] == "same-origin", headers
    with serving(s, "--allow-origin", "https://app.example", "--api-key", "k") as other:
        ask = ["Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization, content-type"]
        status, headers, _ = other.get("/v1/chat/completions", ["Origin: https://app.example", *ask], method="OPTIONS")
        assert status == 204 and headers["access-control-allow-origin"] == "https://app.example"
        assert headers["vary"] == "Origin" and "access-control-allow-credentials" not in headers
        assert headers["access-control-allow-headers"] == "authorization, content-type"
        for origin in ("https://evil.com", "https://APP.example", "https://app.example:444", "http://app.example"):
            assert other.get("/v1/chat/completions", [f"Origin: {origin}", *ask], method="OPTIONS")[0] == 403, origin
        status, headers, _ = other.get("/nope", ["Origin: https://app.example", *bearer("k")])
        assert status == 404 and headers["access-control-allow-origin"] == "https://app.example"


# Sockets


def test_a_unix_socket(s):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "s"
        command = [s.binary, "serve", "--model", str(DEMO), "--unix", str(path), "--unix-mode", "660"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout.readline() == f"mlxserve listening on unix:{path} (demo)\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660 and stat.S_ISSOCK(path.stat().st_mode)
        curl = ["curl", "-s", "--max-time", "20", "--unix-socket", str(path), "http://localhost/v1/models"]
        try:
            answer = subprocess.run(curl, capture_output=True, text=True)
            assert json.loads(answer.stdout)["data"][0]["id"] == "demo", answer
        except FileNotFoundError:
            pass
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        taken = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert taken.returncode == 2 and "another program listens there" in taken.stderr, taken
        process.kill()
        process.wait()
        assert path.exists()
        with serving(s, "--unix", path) as other:
            assert other.get("/health")[0] == 200
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
        assert not path.exists()
        path.write_text("precious")
        taken = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert taken.returncode == 2 and path.read_text() == "precious", taken


# Health and the end


def test_readiness(s):
    for path in OPEN:
        assert s.get(path)[0] == 200, path
        assert s.get(path, method="HEAD")[0] == 200, path


def test_a_bad_folder_leaves_no_socket(s):
    with tempfile.TemporaryDirectory() as folder:
        status, message = refused_start(s, "--unix", f"{folder}/s", "--model-id", "x", "--max-context", 1000000)
        assert status == 2 and message.startswith("mlxserve: "), message
        assert not os.path.exists(f"{folder}/s")


def test_the_time_to_drain_is_a_flag(s):
    with serving(s, "--drain-seconds", "0.3") as other:
        body = json.dumps({
            "model": other.model, "prompt": "x", "stream": True, "ignore_eos": True, "n": 128, "max_tokens": 1500}).encode()
        with other.connect() as connection:
            connection.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            begin = time.monotonic()
            other.process.terminate()
            while piece := connection.recv(1 << 20):
                answer += piece
            assert b'"code":"shutting_down"' in answer[-400:], answer[-400:]
        assert other.process.wait(timeout=20) == 0
        assert time.monotonic() - begin < 15


# Limits


def test_limits_are_flags_and_their_messages_have_numbers(s):
    with serving(s, "--max-body", 1, "--header-timeout", 0.5, "--body-timeout", 0.5, "--idle-timeout", 0.5) as other:
        def first(data):
            with other.connect() as connection:
                connection.sendall(data)
                return parse(connection.recv(65536))

        head = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        status, _, data = first(head.format("/v1/completions", (1 << 20) + 1).encode())
        assert status == 413 and "1048576" in json.loads(data)["error"]["message"], data
        status, headers, data = first(head.format("/v1/messages", (1 << 20) + 1).encode())
        answer = json.loads(data)
        assert (status, answer["type"], answer["error"]["type"]) == (413, "error", "request_too_large"), data
        assert headers["request-id"] == answer["request_id"]
        status, _, data = first(head.format("/v1/completions", 1 << 20).encode() + b"{")
        assert status == 408 and "0.5 seconds" in json.loads(data)["error"]["message"], data
        status, _, data = first(b"GET / HTTP/1.1\r\nHos")
        assert status == 408 and "0.5 seconds" in json.loads(data)["error"]["message"], data
        status, _, data = first(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n")
        assert status == 414 and "8192" in json.loads(data)["error"]["message"], data
        status, _, data = first(b"GET / HTTP/1.1\r\nA: " + b"a" * 9000)
        assert status == 431 and "8192" in json.loads(data)["error"]["message"], data
        with other.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
            assert connection.recv(4096) == b""


# Logs


def test_one_line_tells_of_a_request(s):
    with logging_json(s) as other:
        secret = "the word is xylophone"
        body = {"model": other["model"], "messages": [{"role": "user", "content": secret}], "max_tokens": 4}
        data = json.dumps(body).encode()
        answer = raw(other, b"POST /v1/chat/completions?key=hidden HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Authorization: Bearer sk-alice\r\nX-Request-Id: my-id.7\r\nContent-Type: application/json\r\n"
                     + f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status, headers, text = parse(answer)
        assert status == 200 and headers["x-request-id"] == "my-id.7", answer
        usage = json.loads(text)["usage"]
        line = wait_for(lambda: next((line for line in other["log"] if "my-id.7" in line), None))
        entry = json.loads(line)
        assert entry["event"] == "request" and entry["method"] == "POST" and entry["path"] == "/v1/chat/completions"
        assert entry["status"] == 200 and entry["key"] == "alice" and entry["complete"] == "yes", entry
        assert int(entry["prompt_tokens"]) == usage["prompt_tokens"], entry
        assert int(entry["completion_tokens"]) == usage["completion_tokens"], entry
        assert int(entry["first_token_ms"]) <= int(entry["answer_ms"]), entry
        assert entry["finish"] and float(entry["seconds"]) > 0, entry
        # Hostile words make no second line.
        raw(other, b"GET /a%0d%0ainfo\xc2\x85" + b"b" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"X-Request-Id: bad id\x1b[31m\r\n\r\n")
        wait_for(lambda: sum('"request"' in line for line in other["log"]) >= 2)
        whole = "".join(other["log"])
        assert secret not in whole and "sk-alice" not in whole and "hidden" not in whole and "\x1b" not in whole
        for line in other["log"]:
            assert len(line.encode()) <= 2048 and json.loads(line)["event"], line


@contextlib.contextmanager
def logging_json(s):
    """A server with a key file that logs JSON: then the line that names its address is JSON too."""
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        keys.write_text("alice: sk-alice")
        keys.chmod(0o600)
        process = subprocess.Popen(
            [s.binary, "serve", "--model", str(DEMO), "--port", "0", "--json-log", "--api-key-file", str(keys)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        log = []
        threading.Thread(target=lambda: log.extend(process.stderr), daemon=True).start()
        address = json.loads(process.stdout.readline())
        try:
            yield {"port": address["port"], "model": address["model_id"], "log": log}
        finally:
            process.terminate()
            process.wait(timeout=20)


def raw(server, data):
    with socket.create_connection(("127.0.0.1", server["port"]), timeout=30) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


# Metrics

VLLM = {
    "vllm:num_requests_running": "gauge", "vllm:num_requests_waiting": "gauge", "vllm:kv_cache_usage_perc": "gauge",
    "vllm:prefix_cache_queries": "counter", "vllm:prefix_cache_hits": "counter", "vllm:prompt_tokens": "counter",
    "vllm:generation_tokens": "counter", "vllm:request_success": "counter", "vllm:num_preemptions": "counter",
    "vllm:time_to_first_token_seconds": "histogram", "vllm:inter_token_latency_seconds": "histogram",
    "vllm:e2e_request_latency_seconds": "histogram", "vllm:request_queue_time_seconds": "histogram",
    "vllm:request_prefill_time_seconds": "histogram", "vllm:request_decode_time_seconds": "histogram",
    "vllm:request_prompt_tokens": "histogram", "vllm:request_generation_tokens": "histogram",
}


def scrape(s, headers=()):
    status, fields, data = s.get("/metrics", headers)
    assert status == 200 and fields["content-type"].startswith("text/plain; version=0.0.4"), fields
    families = {}
    for family in text_string_to_metric_families(data.decode()):
        assert family.name not in families and family.documentation, family.name
        families[family.name] = family
        if family.type == "histogram":
            check_histogram(family)
    return families


def check_histogram(family):
    """What promtool checks too: buckets add up, the last one is all of them, sum and count are there."""
    series = {}
    for sample in family.samples:
        key = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        series.setdefault(key, {}).setdefault(sample.name.removeprefix(family.name), []).append(sample)
    for parts in series.values():
        bounds = [float(sample.labels["le"]) for sample in parts["_bucket"]]
        counts = [sample.value for sample in parts["_bucket"]]
        assert bounds == sorted(bounds) and bounds[-1] == float("inf"), family.name
        assert counts == sorted(counts) and counts[-1] == parts["_count"][0].value, family.name
        assert len(parts["_sum"]) == 1


def value(families, name, suffix="", **labels):
    return sum(
        sample.value for sample in families[name].samples
        if sample.name == name + suffix and labels.items() <= sample.labels.items())


def test_metrics_have_vllms_names_and_count(s):
    before = scrape(s)
    for name, kind in VLLM.items():
        assert before[name].type == kind, name
        assert all(sample.labels["model_name"] == s.model for sample in before[name].samples), name
    answer = s.chat("What is the capital of France?", max_tokens=12)
    s.chat("Hello!", max_tokens=3, stream=True).close()
    s.complete("x", max_tokens=5, n=2)
    after = wait_for(lambda: (found := scrape(s)) and value(found, "vllm:request_success", "_total") >= value(
        before, "vllm:request_success", "_total") + 4 and found)

    def grown(name, suffix="_total", **labels):
        return value(after, name, suffix, **labels) - value(before, name, suffix, **labels)

    assert grown("vllm:prompt_tokens") >= answer.usage.prompt_tokens
    assert grown("vllm:generation_tokens") >= answer.usage.completion_tokens + 10
    assert grown("vllm:prefix_cache_queries") >= grown("vllm:prefix_cache_hits") >= 0
    assert grown("vllm:e2e_request_latency_seconds", "_count") == 4
    assert grown("vllm:request_params_n", "_count") == 3
    assert grown("vllm:inter_token_latency_seconds", "_count") >= answer.usage.completion_tokens - 1
    assert grown("mlxserve_http_responses", route="/v1/chat/completions", status="200", method="POST") == 2
    assert value(after, "process_resident_memory_bytes") > 1 << 20
    assert value(after, "process_cpu_seconds", "_total") > 0
    assert value(after, "process_open_fds") > 3 and value(after, "process_threads") > 2
    assert 0 <= time.time() - value(after, "process_start_time_seconds") < 3600
    assert 0 <= value(after, "vllm:kv_cache_usage_perc") <= 1
    parts = {sample.labels["part"]: sample.value for sample in after["mlxserve_memory_bytes"].samples}
    assert parts["weights"] > 1 << 16 and parts["kv_cache"] > 0 and parts["other"] > 1 << 20, parts
    assert sum(parts.values()) <= value(after, "mlxserve_memory_limit_bytes"), parts


def test_metrics_stay_short_and_behind_the_key(s):
    with locked(s) as (other, _):
        assert other.get("/metrics")[0] == 401
        other.chat("Hello!", max_tokens=3)
        for number in range(50):
            other.get(f"/v1/models/{number}", bearer("sk-alice"))
            other.get(f"/{number}", bearer("sk-plain"))
        families = scrape(other, bearer("sk-plain"))
        routes = {sample.labels["route"] for sample in families["mlxserve_http_responses"].samples}
        assert routes <= {"/v1/models/:id", "/v1/chat/completions", "none", "/metrics"}, routes
        assert value(families, "mlxserve_key_requests", "_total", key="alice") == 1
        assert value(families, "mlxserve_http_errors", "_total", code="invalid_api_key") == 1
        assert re.fullmatch("key-[0-9a-f]{8}|alice", families["mlxserve_key_requests"].samples[0].labels["key"])


def key_file(folder, text):
    path = pathlib.Path(folder) / "keys"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_key_that_is_gone_ends_what_it_runs(s):
    """Streams, WebSockets and background responses of a key that SIGHUP takes away; those of others go on."""
    with tempfile.TemporaryDirectory() as folder:
        path = key_file(folder, "alice: sk-old\nalice: sk-new\nbob: sk-bob\n")
        other = Server(s.binary, "--api-key-file", str(path), "--test-hooks", "--step-delay-ms", "20", key="sk-new")
        try:
            def stream(key):
                content = {"model": other.model, "messages": [{"role": "user", "content": "a"}], "stream": True,
                           "ignore_eos": True, "max_tokens": 1500}
                connection = other.connect()
                data = json.dumps(content).encode()
                connection.sendall(
                    f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
                assert b"200 OK" in connection.recv(4096)
                return connection

            def is_cut(connection):
                connection.settimeout(5)
                try:
                    deadline = time.monotonic() + 5
                    while time.monotonic() < deadline:
                        if not connection.recv(65536):
                            return True
                except ConnectionError:
                    return True
                return False

            background = other.post(
                "/v1/responses", {"model": other.model, "input": "a", "background": True, "max_output_tokens": 1500,
                                  "ignore_eos": True}, ["Authorization: Bearer sk-old"])
            assert background[0] == 200, background
            identity = json.loads(background[2])["id"]
            streams = {key: stream(key) for key in ("sk-old", "sk-new", "sk-bob")}
            with connect(f"ws://{other.host}:{other.port}/v1/responses",
                         additional_headers={"Authorization": "Bearer sk-old"}) as socket:
                socket.send(json.dumps({"type": "response.create", "model": other.model, "input": "a",
                                        "max_output_tokens": 1}))
                assert json.loads(socket.recv(timeout=20))["type"] == "response.created"
                path.write_text("alice: sk-new\nbob: sk-bob\n")
                other.process.send_signal(signal.SIGHUP)
                try:
                    deadline = time.monotonic() + 10
                    while time.monotonic() < deadline:
                        socket.recv(timeout=10)
                    raise AssertionError("the WebSocket is still open")
                except ConnectionClosed:
                    pass
            assert is_cut(streams["sk-old"])
            for key in ("sk-new", "sk-bob"):
                assert b"data: " in streams[key].recv(65536), key
                streams[key].close()
            # Alice's other key shows what became of the response.
            deadline = time.monotonic() + 10
            while True:
                found = json.loads(other.get(f"/v1/responses/{identity}", ["Authorization: Bearer sk-new"])[2])
                if found["status"] == "cancelled" or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            assert found["status"] == "cancelled", found["status"]
            assert other.get("/v1/models", ["Authorization: Bearer sk-old"])[0] == 401
        finally:
            assert other.stop() == 0


def test_administration_has_a_place_of_its_own(s):
    with tempfile.TemporaryDirectory() as folder:
        path = key_file(folder, "ops admin: sk-ops\nalice: sk-alice\n")
        socket_path = str(pathlib.Path(folder) / "admin.sock")
        other = Server(s.binary, "--api-key-file", str(path), "--admin-port", "0", "--admin-unix", socket_path)
        try:
            lines = [other.process.stdout.readline() for _ in range(2)]
            port = int(re.search(r"administration on http://127\.0\.0\.1:(\d+)", lines[0])[1])
            assert lines[1].strip() == f"mlxserve administration on unix:{socket_path}"
            clients = other.port

            def ask(port, path, key=None, method="GET"):
                other.port = port
                try:
                    status, _, data = other.get(path, [f"Authorization: Bearer {key}"] if key else [], method=method)
                finally:
                    other.port = clients
                return status, json.loads(data)["error"]["code"] if status >= 400 else None

            assert ask(port, "/health") == (200, None) and ask(clients, "/health") == (200, None)
            assert ask(port, "/metrics") == (401, "invalid_api_key")
            assert ask(port, "/metrics", "sk-alice") == (403, "admin_required")
            assert ask(port, "/metrics", "sk-ops") == (200, None)
            assert ask(clients, "/metrics", "sk-ops") == (403, "wrong_entrance")
            assert ask(port, "/v1/models", "sk-ops") == (403, "wrong_entrance")
            assert ask(clients, "/v1/models", "sk-alice") == (200, None)
            assert ask(port, "/models", "sk-ops") == (200, None)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(socket_path)
                connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            other.process.send_signal(signal.SIGTERM)
            assert other.process.wait(timeout=20) == 0
            assert not os.path.exists(socket_path)
        finally:
            other.process.kill()


def test_roles(s):
    with tempfile.TemporaryDirectory() as folder:
        path = key_file(folder, "ops admin: sk-ops\nalice: sk-alice\n")
        other = Server(s.binary, "--api-key-file", str(path))
        try:
            def ask(path, key, body=None):
                lines = [f"Authorization: Bearer {key}"]
                status, _, data = other.post(path, body, lines) if body else other.get(path, lines)
                return status, json.loads(data)["error"]["code"] if status >= 400 else None

            for path, body in (("/metrics", None), ("/models/unload", {"model": other.model}),
                               ("/models/load", {"model": other.model})):
                assert ask(path, "sk-alice", body) == (403, "admin_required"), path
                assert ask(path, "sk-ops", body)[0] in (200, 202), path
            # Ollama's way to unload is one too; its clients say it with every question, and are answered.
            name = {"model": other.model, "stream": False}
            lines = ["Authorization: Bearer sk-alice"]
            assert other.post("/api/generate", {**name, "keep_alive": 0}, lines)[0] == 403
            status, headers, _ = other.post(
                "/api/generate", {**name, "prompt": "a", "keep_alive": 0, "options": {"num_predict": 1}}, lines)
            assert status == 200 and headers["x-mlxserve-ignored"] == "keep_alive", (status, headers)
            assert other.model in [found["name"].partition(":")[0] for found in json.loads(other.get("/api/ps", lines)[2])["models"]]
            assert ask("/v1/models", "sk-alice") == (200, None)
        finally:
            assert other.stop() == 0
