"""The configurations of docs/deploy: real proxies before two replicas, of which one is killed."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from reliability.watch import CHAT, body, encode, get, read_all, read_event, responses, state, wait_for
from server import ROOT, Server, parse

PLACES = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
NGINX = """daemon off; worker_processes 2; pid {place}/pid; error_log {place}/log; events {{ worker_connections 1024; }}
http {{ access_log off; client_body_temp_path {place}/1; proxy_temp_path {place}/2; fastcgi_temp_path {place}/3;
uwsgi_temp_path {place}/4; scgi_temp_path {place}/5; {content} }}
"""


class Proxy:
    """Stands in for a server in the helpers of `watch`."""

    def __init__(self, port, model, certificate=None):
        self.host, self.port, self.model = "127.0.0.1", port, model
        self.certificate = certificate

    def connect(self):
        connection = socket.create_connection((self.host, self.port), timeout=60)
        if not self.certificate:
            return connection
        context = ssl.create_default_context(cafile=self.certificate)
        return context.wrap_socket(connection, server_hostname="localhost")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def with_tls(content, port, place):
    """The documented lines for TLS in force, with a certificate of our own; its path."""
    names = {name: f"{place}/{name}" for name in ("mlxserve.pem", "mlxserve.key")}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", names["mlxserve.key"], "-out", f"{place}/certificate"],
        check=True, capture_output=True)
    certificate = pathlib.Path(place, "certificate").read_text()
    # HAProxy wants both in one file, and nginx does not mind.
    pathlib.Path(names["mlxserve.pem"]).write_text(certificate + pathlib.Path(names["mlxserve.key"]).read_text())
    lines = []
    for line in content.split("\n"):
        found = re.match(r"( +)# ((?:listen|bind|ssl_\w+) .*)", line)
        lines.append(found[1] + found[2] if found else line)
    content = re.sub(r"listen 443|bind :443", lambda match: f"{match[0].split()[0]} 127.0.0.1:{port}", "\n".join(lines))
    content = re.sub(r"/etc/\w+/(mlxserve\.\w+)", lambda match: names[match[1]], content)
    assert f"127.0.0.1:{port}" in content and names["mlxserve.pem"] in content, content
    return content, f"{place}/certificate"


@contextlib.contextmanager
def proxy(program, file, replicas):
    """Runs the documented configuration with these ports in place of its own: a front without TLS, and one with it where
    there is a program to make a certificate."""
    port, tls_port = free_port(), free_port()
    content = (ROOT / "docs" / "deploy" / file).read_text()
    for old, new in (("8080", port), ("8081", replicas[0].port), ("8082", replicas[1].port)):
        assert f"127.0.0.1:{old}" in content
        content = content.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    with tempfile.TemporaryDirectory(prefix="mlxserve-") as place:
        path, secure = pathlib.Path(place) / file, None
        if shutil.which("openssl"):
            content, certificate = with_tls(content, tls_port, place)
            secure = Proxy(tls_port, replicas[0].model, certificate)
        path.write_text(NGINX.format(place=place, content=content) if file == "nginx.conf" else content)
        command = [program, "-e", f"{place}/log", "-c", str(path)] if file == "nginx.conf" else [program, "-db", "-f", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        front = Proxy(port, replicas[0].model)
        try:
            wait_for(lambda: is_healthy(front), 20, f"{program} to answer")
            yield front, secure
        finally:
            process.terminate()
            process.wait(timeout=20)


def is_healthy(front):
    try:
        return ask(front, get("/health", "Connection: close"))[0] == 200
    except (OSError, IndexError, AssertionError):
        return False


def ask(front, data):
    with front.connect() as connection:
        connection.sendall(data)
        return responses(read_all(connection))[0]


def question(front, session, **options):
    content = body(front, max_tokens=4, ignore_eos=True, **options)
    return encode(CHAT, content, "Connection: close", f"X-Session-Id: {session}")


def longer(front, tokens):
    content = body(front, max_tokens=tokens, ignore_eos=True, stream=True)
    return encode(CHAT, content, "Connection: close", "X-Session-Id: stream")


def owner(front, replicas, session):
    """Which replica a session is sent to."""
    before = [state(replica)["started_total"] for replica in replicas]
    for _ in range(2):
        assert ask(front, question(front, session))[0] == 200
    grown = [state(replica)["started_total"] - old for replica, old in zip(replicas, before)]
    assert sorted(grown) == [0, 2], grown
    return grown.index(2)


def check_stream(front, replicas):
    with front.connect() as connection:
        connection.sendall(longer(front, 30))
        answer = read_event(connection)
        # The first event is here while the answer is still being made.
        assert sum(state(replica)["slots_busy"] for replica in replicas) == 1 and b"[DONE]" not in answer
        pieces = 0
        while piece := connection.recv(65536):
            answer, pieces = answer + piece, pieces + 1
    assert responses(answer)[0][2].endswith(b"data: [DONE]\n\n") and pieces > 8, pieces


def check_cache(front):
    """What a session has computed is found again, because its requests meet one replica."""
    def cached(session):
        content = body(front, f"Tell me a story of {session}. " * 30, max_tokens=2)
        data = encode(CHAT, content, "Connection: close", f"X-Session-Id: cache-{session}")
        usages = [json.loads(ask(front, data)[2])["usage"] for _ in range(3)]
        found = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
        # Blocks of the end that are not full may be computed again.
        return found, found[0] < 100 and min(found[1:]) > usages[0]["prompt_tokens"] - 40

    # On a busy machine a replica may answer its check too late, and hand its sessions over for a while.
    tries = [cached(f"{number}") for number in range(6)]
    assert sum(is_found for _, is_found in tries) >= 4, tries


def check_kill(front, replicas):
    sessions = {0: [], 1: []}
    for number in range(200):
        if min(len(kept) for kept in sessions.values()) >= 2:
            break
        index = owner(front, replicas, f"s{number}")
        if len(sessions[index]) < 2:
            sessions[index].append(f"s{number}")
    assert all(len(kept) == 2 for kept in sessions.values()), sessions
    stop, killed = threading.Event(), threading.Event()
    failures = {0: [], 1: []}
    answered_after = [0]

    def client(index, session):
        while not stop.is_set():
            began = time.monotonic()
            try:
                status, _, content = ask(front, question(front, session, stream=True))
                assert status == 200 and content.endswith(b"data: [DONE]\n\n"), (status, content[-200:])
                if killed.is_set():
                    answered_after[0] += 1
            except (OSError, AssertionError, IndexError, ValueError) as problem:
                failures[index].append((began, repr(problem)[:200]))

    threads = [threading.Thread(target=client, args=(index, session)) for index, kept in sessions.items() for session in kept]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    replicas[0].process.kill()
    killed_at = time.monotonic()
    replicas[0].process.wait()
    killed.set()
    time.sleep(5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures[1], failures[1]
    # What the dead one was answering is lost, once for each of its clients; what came later went to the other.
    assert len(failures[0]) <= 2 and all(began <= killed_at for began, _ in failures[0]), (killed_at, failures[0])
    assert answered_after[0] > 3, answered_after
    return f"{len(failures[0])} streams of the killed replica lost, none of the other; {answered_after[0]} answers afterwards"


def check_drain(front, replicas):
    """One replica ends while an answer runs on it: its own port tells that, no request fails, none of them meets it once
    that is known, and the answer comes to its end."""
    def meets(session):
        before = state(replicas[0])["started_total"]
        assert ask(front, question(front, session))[0] == 200
        return int(state(replicas[0])["started_total"] == before)

    met = {session: meets(session) for session in map("d{}".format, range(12))}
    with front.connect() as connection:
        connection.sendall(longer(front, 1500))
        answer = read_event(connection)
        index = [state(replica)["slots_busy"] for replica in replicas].index(1)
        leaving, other = replicas[index], replicas[1 - index]
        mine = [session for session, place in met.items() if place == index][:3]
        assert mine, met
        leaving.process.terminate()
        wait_for(lambda: leaving.get("/health")[0] == 503, 5, "unreadiness")
        # While a check has not come, or a failure not been seen, a request may go to it and be passed on.
        for session in mine:
            assert ask(front, question(front, session))[0] == 200
        time.sleep(2)
        seen, answered = refusals(leaving), state(other)["started_total"]
        for _ in range(5):
            for session in mine:
                assert ask(front, question(front, session))[0] == 200
            for path in ("/health", "/ready", "/readyz"):
                status, headers, _ = leaving.get(path)
                assert status == 503 and "retry-after" in headers, (path, status)
            assert leaving.get("/livez")[0] == 200
            status, headers, content = leaving.post(CHAT, body(leaving, max_tokens=1))
            assert (status, json.loads(content)["error"]["code"]) == (503, "shutting_down"), content
            assert "retry-after" in headers and headers["connection"] == "close"
        # Its five refusals here, and none of what a proxy sent: but nginx, which makes no checks, tries again after 5 s.
        # One is counted when its answer has gone out, which its client may read first.
        wait_for(lambda: refusals(leaving) - seen >= 5, 5, "five refusals")
        assert refusals(leaving) - seen in (5, 6), refusals(leaving) - seen
        assert state(other)["started_total"] == answered + 5 * len(mine)
        assert leaving.process.poll() is None
        answer += read_all(connection)
    assert b'"finish_reason":"length"' in answer and answer.rstrip().endswith((b"[DONE]", b"0")), answer[-200:]
    assert leaving.process.wait(timeout=20) == 0
    assert is_healthy(front)
    return "a drain lost nothing"


def refusals(replica):
    """Chat requests that a server has refused."""
    return sum(f"path={CHAT}" in line and "status=503" in line for line in replica.log)


def pair(s):
    return [Server(s.binary, "--test-hooks", "--step-delay-ms", "10", "--speculate", "off") for _ in range(2)]


def run(s, name, file):
    program = shutil.which(name, path=PLACES)
    if not program:
        return f"skipped: {name} is not installed"
    replicas = pair(s)
    try:
        with proxy(program, file, replicas) as (front, _):
            drained = check_drain(front, replicas)
    finally:
        for replica in replicas:
            replica.process.kill()
    replicas = pair(s)
    try:
        with proxy(program, file, replicas) as (front, secure):
            check_stream(front, replicas)
            if secure:
                check_stream(secure, replicas)
            check_cache(front)
            note = f"{drained}; " + check_kill(front, replicas) + ("" if secure else "; without TLS: there is no openssl")
    finally:
        for replica in replicas:
            replica.process.kill()
    return note


def test_nginx(s):
    return run(s, "nginx", "nginx.conf")


def test_haproxy(s):
    return run(s, "haproxy", "haproxy.cfg")
