"""A hub on two loopback ports, with repositories in memory and troubles to order.

The first port answers as the hub does, the second as the place where it keeps large files. `Repository.trouble` says
what goes wrong with a path; `Hub.seen` lists what was asked for. The hub's own Python client takes it for a hub too."""

import dataclasses
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

LARGE = 100_000
"""Files of at least so many bytes are stored elsewhere, under their SHA-256."""


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclasses.dataclass
class Seen:
    """A request: which port, method, path with query, headers."""

    place: str
    method: str
    path: str
    headers: dict

    @property
    def range(self):
        return self.headers.get("range")

    @property
    def token(self):
        return self.headers.get("authorization")


class Repository:
    def __init__(self, name, files, revisions=None, commit=None, **info):
        self.name, self.files, self.info = name, dict(files), info
        state = json.dumps({path: git_blob(data) for path, data in sorted(self.files.items())})
        self.commit = commit or hashlib.sha1((name + state).encode()).hexdigest()
        self.revisions = {"main": self.commit, **(revisions or {})}
        # Path, or "revision" or "tree" → a function of (handler, count of requests before this) that answers and
        # returns true, or does nothing.
        self.trouble = {}
        self.counts = {}

    def is_large(self, path):
        return len(self.files[path]) >= LARGE or path.endswith(".safetensors")

    def entry(self, path):
        data = self.files[path]
        entry = {"type": "file", "path": path, "size": len(data), "oid": git_blob(data)}
        if self.is_large(path):
            sha = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 134}
            entry["xetHash"] = sha[::-1]
        return entry


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def hub(self):
        return self.server.hub

    def answer(self, status=200, body=b"", **headers):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("content-type", "application/json")
        self.send_response(status)
        for key, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def fail(self, status, code=None, message=None):
        headers = {}
        if code:
            headers["x-error-code"] = code
        if message:
            headers["x-error-message"] = message
        return self.answer(status, b'{"error":"no"}', **headers)

    def give(self, data, cut=None, ignores_range=False, pace=None, **headers):
        """The bytes of a file, as far as the request wants them."""
        start = 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range") or "")
        if wanted and not ignores_range:
            start = int(wanted[1])
            if start >= len(data):
                return self.answer(416, content_range=f"bytes */{len(data)}", **headers)
        body = data[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("content-range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("content-length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command == "HEAD":
            return True
        body = body if cut is None else body[:cut]
        step = pace[0] if pace else 1 << 16
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            self.hub.sent += len(body[at:at + step])
            if pace:
                self.wfile.flush()
                time.sleep(pace[1])
        if cut is not None:
            self.close_connection = True
        return True

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.hub.seen.append(
            Seen(self.server.place, self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        try:
            if self.server.place == "hub":
                self.from_hub()
            else:
                self.from_store()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # The hub.

    def from_hub(self):
        path, _, query = self.path.partition("?")
        if self.hub.portal:
            return self.answer(200, b"<html>Please log in to the network</html>", content_type="text/html")
        token = self.headers.get("authorization")
        if self.hub.token and token not in (None, f"Bearer {self.hub.token}"):
            return self.fail(401, message="Invalid credentials in Authorization header")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            repository = self.hub.repositories.get("/".join(parts[2:4]))
            return self.from_api(repository, parts[4:], urllib.parse.parse_qs(query))
        if len(parts) >= 5 and parts[2] == "resolve":
            return self.resolve(
                self.hub.repositories.get("/".join(parts[:2])), urllib.parse.unquote(parts[3]),
                urllib.parse.unquote("/".join(parts[4:])))
        return self.fail(404)

    def missing(self):
        return self.fail(404, "RepoNotFound") if self.headers.get("authorization") else self.fail(401)

    def troubled(self, repository, what):
        count = repository.counts.get(what, 0)
        repository.counts[what] = count + 1
        trouble = repository.trouble.get(what)
        return bool(trouble and trouble(self, count))

    def from_api(self, repository, rest, query):
        if not repository:
            return self.missing()
        if not rest or rest[0] == "revision":
            revision = urllib.parse.unquote(rest[1]) if rest else "main"
            if self.troubled(repository, "revision"):
                return True
            commit = self.commit(repository, revision)
            if not commit:
                return self.fail(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return self.answer(200, {
                "id": repository.name, "sha": commit, "gated": False, "private": False, "disabled": False,
                "siblings": [{"rfilename": path} for path in repository.files], "tags": [], **repository.info})
        if rest[0] == "refs":
            return self.answer(200, {
                "branches": [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit}
                             for name, commit in repository.revisions.items()], "converts": [], "tags": []})
        if rest[0] == "tree":
            if self.troubled(repository, "tree"):
                return True
            start = int(query.get("cursor", ["0"])[0])
            entries = [repository.entry(path) for path in repository.files]
            page = entries[start:start + self.hub.page]
            headers = {}
            if start + self.hub.page < len(entries):
                # A mirror passes on addresses of the hub itself.
                headers["link"] = (
                    f'<{self.hub.page_origin or self.hub.endpoint}{self.path.partition("?")[0]}'
                    f'?recursive=true&expand=false&cursor={start + self.hub.page}>; rel="next"')
            return self.answer(200, page, **headers)
        if rest[0] == "paths-info":
            return self.fail(404)
        return self.fail(404)

    @staticmethod
    def commit(repository, revision):
        if revision in repository.revisions:
            return repository.revisions[revision]
        known = set(repository.revisions.values())
        found = [commit for commit in known if len(revision) >= 7 and commit.startswith(revision)]
        return found[0] if len(found) == 1 else None

    def resolve(self, repository, revision, path):
        if not repository:
            return self.missing()
        commit = self.commit(repository, revision)
        if not commit:
            return self.fail(404, "RevisionNotFound")
        if path not in repository.files:
            return self.fail(404, "EntryNotFound")
        if self.troubled(repository, path):
            return True
        data = repository.files[path]
        headers = {"x_repo_commit": commit, **self.hub.headers}
        if not repository.is_large(path):
            return self.give(data, etag=f'"{git_blob(data)}"', **headers)
        sha = hashlib.sha256(data).hexdigest()
        place = urllib.parse.quote(f"/{repository.name}/{path}")
        return self.answer(
            302, location=f"{self.hub.store}{place}?signature=secret", etag=f'"{sha}"', x_linked_etag=f'"{sha}"',
            x_linked_size=str(len(data)), **headers)

    # Where large files are.

    def from_store(self):
        parts = urllib.parse.unquote(self.path.partition("?")[0]).strip("/").split("/")
        repository = self.hub.repositories["/".join(parts[:2])]
        path = "/".join(parts[2:])
        if self.troubled(repository, "store:" + path):
            return
        self.give(repository.files[path])


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients leave


class Hub:
    """Runs while it is entered."""

    def __init__(self, *repositories, page=1000, token=None):
        self.repositories = {repository.name: repository for repository in repositories}
        self.page, self.token = page, token
        self.page_origin = None
        self.portal = False
        self.headers = {}
        self.seen = []
        self.sent = 0

    def __enter__(self):
        self.servers = []
        for place in ("hub", "store"):
            server = Listener(("127.0.0.1", 0), Handler)
            server.hub, server.place = self, place
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self.servers.append(server)
        self.endpoint, self.store = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, repository):
        self.repositories[repository.name] = repository

    def paths(self, place=None):
        return [seen.path for seen in self.seen if place in (None, seen.place)]

    def of(self, part):
        return [seen for seen in self.seen if part in seen.path]


# Troubles.

def status(code, times=10**9, **headers):
    """Answers with a status the first times."""
    return lambda handler, count: count < times and handler.answer(code, b"no", **headers)


def error(code, name=None, message=None):
    return lambda handler, count: handler.fail(code, name, message)


def moved(location):
    return lambda handler, count: handler.answer(302, location=location, x_repo_commit="0" * 40)


def cut(data, after, times):
    """The body ends early, again and again."""
    return lambda handler, count: count < times and handler.give(data, cut=after, x_repo_commit="0" * 40)


def slowly(data, step, seconds, times=10**9):
    return lambda handler, count: count < times and handler.give(data, pace=(step, seconds), x_repo_commit="0" * 40)


def stall(data, after, seconds, times=1):
    """Some bytes, then nothing for a time."""
    def trouble(handler, count):
        if count >= times:
            return False
        handler.send_response(200)
        handler.send_header("content-length", str(len(data)))
        handler.send_header("x-repo-commit", "0" * 40)
        handler.end_headers()
        handler.wfile.write(data[:after])
        handler.wfile.flush()
        time.sleep(seconds)
        handler.close_connection = True
        return True
    return trouble


def instead(data, times=10**9, **options):
    """Other bytes than the list of files says."""
    return lambda handler, count: count < times and handler.give(data, x_repo_commit="0" * 40, **options)
