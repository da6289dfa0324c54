"""The systemd unit and the Kubernetes manifest, run: as another user, with a file system that cannot be written to and
under the filter of system calls that the unit names."""

import concurrent.futures
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading

import yaml

from reliability import sandbox
from reliability.watch import CANARY, CHAT, body, encode, read_all, read_event, wait_for
from server import DEMO, ROOT, Server, parse

DEPLOY = ROOT / "docs" / "deploy"


@contextlib.contextmanager
def place(s):
    """A folder that everybody can read, with the binary, the model and room for what is stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        shutil.copy(s.binary, folder / "mlxserve")
        shutil.copytree(DEMO, folder / "model")
        (folder / "state").mkdir()
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.name == "mlxserve" else 0o644)
        yield folder


def started(folder, action, flags):
    """A server under the sandbox, and what the sandbox says of itself."""
    start = folder / "start"
    start.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(sandbox.__file__)} {action} {folder}/state '
        f'{folder}/mlxserve "$@"\n')
    start.chmod(start.stat().st_mode | stat.S_IXUSR)
    other = Server(str(start), *flags, model=folder / "model")
    said = next(line for line in other.log if line.startswith("sandbox: "))
    return other, said.removeprefix("sandbox: ").strip()


def used(other):
    """Uses the server: an answer, a stream, one that is stored, and a long prompt on all threads."""
    assert other.chat(CANARY, max_tokens=8).choices[0].message.content
    assert [chunk for chunk in other.chat(CANARY, max_tokens=8, stream=True)]
    stored = other.client.responses.create(model=other.model, input=CANARY, max_output_tokens=8)
    assert other.client.responses.retrieve(stored.id).id == stored.id
    assert other.complete([300] * 1500, max_tokens=2).choices[0].finish_reason == "length"
    for path in ("/health", "/metrics", "/v1/models"):
        assert other.get(path)[0] == 200, path
    confined(other.process.pid)


def confined(process):
    """Asserts that a process is nobody, without capabilities and under a filter."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert fields["Uid"].split() == [str(sandbox.NOBODY)] * 4, fields["Uid"]
    assert fields["Seccomp"].strip() == "2" and fields["NoNewPrivs"].strip() == "1"
    assert int(fields["CapEff"], 16) == 0


def without(flags, *names):
    """Flags without these, each with its value."""
    kept, rest = [], iter(flags)
    for flag in rest:
        if flag in names:
            next(rest)
        else:
            kept.append(flag)
    return kept


def test_the_filter_filters(s):
    """The sandbox is one: what it denies is denied."""
    if reason := sandbox.is_possible():
        return f"skipped: {reason}"
    with place(s) as folder:
        def run(action, code):
            return subprocess.run(
                [sys.executable, sandbox.__file__, action, str(folder / "state"), "/bin/sh", "-c", code],
                capture_output=True, text=True)

        assert run("KILL", "nice -n 5 true").returncode in (-signal.SIGSYS, 128 + signal.SIGSYS)
        assert run("ERRNO", "chown 1 /").returncode not in (0, -signal.SIGSYS)
        written = run("KILL", f"echo kept > {folder}/state/a && cat {folder}/state/a && echo no > {folder}/b")
        assert written.returncode != 0 and not (folder / "b").exists()
        if "read-only" in written.stderr:
            assert written.stdout == "kept\n", written


def test_the_systemd_unit(s):
    if reason := sandbox.is_possible():
        return f"skipped: {reason}"
    lines = [line for line in (DEPLOY / "mlxserve.service").read_text().splitlines() if line and line[0] not in "#["]
    unit = {}
    for line in lines:
        name, _, value = line.partition("=")
        unit.setdefault(name, []).append(value)
    # What sandbox.py does is what the unit says.
    assert unit["SystemCallFilter"] == ["@system-service", "~@privileged @resources", "sched_setaffinity"]
    assert unit["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    assert unit["OOMPolicy"] == ["continue"]
    for name in ("NoNewPrivileges", "MemoryDenyWriteExecute", "RestrictNamespaces", "DynamicUser"):
        assert unit[name] == ["yes"], name
    assert unit["ProtectSystem"] == ["strict"] and unit["SystemCallArchitectures"] == ["native"]
    command = shlex.split(unit["ExecStart"][0])
    with place(s) as folder:
        flags = without(command[1:], "--model", "--port", "--state-dir")
        flags.remove("--json-log")
        other, said = started(folder, "KILL", [*flags, "--state-dir", str(folder / "state")])
        try:
            used(other)
            # SIGHUP without a key file is a SIGTERM; both end politely.
            other.process.send_signal(getattr(signal, unit["KillSignal"][0]))
            assert other.process.wait(timeout=20) == 0
        finally:
            other.process.kill()
    return said


class Pod(Server):
    """The container of the manifest as it stands, in a root folder and a network of its own. Connections are made inside
    that network, by a thread that has gone there."""

    host = "127.0.0.1"

    def __init__(self, container, root, secrets):
        self.port = next(port["containerPort"] for port in container["ports"])
        self.ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        environment = {"PATH": "/usr/bin:/bin", "HOSTNAME": "mlxserve-7d9c"}
        for variable in container["env"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            environment[variable["name"]] = secrets[reference["name"], reference["key"]]
        command = [*container["command"], *container["args"]]
        self.process = subprocess.Popen(
            [sys.executable, sandbox.__file__, "POD", str(root), *command], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = []
        self._reader = threading.Thread(target=self._collect_log, daemon=True)
        self._reader.start()
        self.inside = concurrent.futures.ThreadPoolExecutor(1)

    def enter(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/proc/{self.process.pid}/ns/net") as network:
            if libc.setns(network.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "enter the network")

    def connect(self):
        return self.inside.submit(socket.create_connection, (self.host, self.port), timeout=60).result()

    def probe(self, probe):
        """What the kubelet is told: it asks the pod by its address."""
        place = probe["httpGet"]
        assert self.ports[place["port"]] == self.port
        return self.get(place["path"], host=f"10.1.0.7:{self.port}")[0]


def test_the_kubernetes_manifest(s):
    if reason := sandbox.is_possible():
        return f"skipped: {reason}"
    deployment, service, _ = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    container, = pod["containers"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": sandbox.NOBODY, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert pod["enableServiceLinks"] is False and service["metadata"]["name"] == "mlxserve"
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts["models"] == {"name": "models", "mountPath": "/models", "readOnly": True}
    assert mounts["tmp"]["mountPath"] == "/tmp" and {volume["name"] for volume in pod["volumes"]} == set(mounts)
    # The drain, and what the manifest adds before it.
    drain = 30 + 5 + container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > drain
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        # As a small system has them, and where else the binary's libraries are.
        libraries = re.findall(r"=> /(\w+)/", subprocess.run(["ldd", s.binary], capture_output=True, text=True).stdout)
        for folder in {"usr", "lib", "lib64", "proc", "dev", "tmp", *libraries}:
            if (pathlib.Path("/", folder)).is_symlink():
                (root / folder).symlink_to(os.readlink(f"/{folder}"))
            else:
                (root / folder).mkdir()
        shutil.copy(s.binary, root / "mlxserve")
        model = next(value for flag, value in zip(container["args"], container["args"][1:]) if flag == "--model")
        shutil.copytree(DEMO, root / model.lstrip("/"))
        for path in [root, *(root / "models").rglob("*"), root / "models", root / "mlxserve"]:
            path.chmod(0o755 if path.is_dir() or path.name == "mlxserve" else 0o644)
        other = Pod(container, root, {("mlxserve", "api-key"): "sk-pod"})
        try:
            line = other.process.stdout.readline()
            assert json.loads(line)["event"] == "listening", (line, other.log)
            said = next(line for line in other.log if line.startswith("sandbox: "))
            other.inside.submit(other.enter).result()
            other.model = json.loads(line)["model_id"]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert other.probe(container[probe]) == 200, probe
            confined(other.process.pid)
            key = "Authorization: Bearer sk-pod"
            question = body(other, max_tokens=4, ignore_eos=True)
            for host in ("mlxserve", "mlxserve.default.svc.cluster.local", "llm.example.com", "10.1.0.7:8080"):
                assert parse(other.raw(encode(CHAT, question, "Connection: close", key, host=host)))[0] == 200, host
            assert parse(other.raw(encode(CHAT, question, "Connection: close", host="mlxserve")))[0] == 401
            # A file to be searched has a place, though the root cannot be written to.
            stored = other.post("/v1/responses", {"model": other.model, "input": "Hello", "max_output_tokens": 4}, [key])
            assert stored[0] == 200, stored
            upload = (b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--x\r\n'
                      b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--x--\r\n')
            kept = other.post("/v1/files", upload, [key, "Content-Type: multipart/form-data; boundary=x"])
            assert kept[0] == 200, kept
            with other.connect() as stream:
                stream.sendall(encode(
                    CHAT, body(other, max_tokens=2000, ignore_eos=True, stream=True), "Connection: close", key))
                answer = read_event(stream)
                other.process.terminate()
                wait_for(lambda: other.probe(container["readinessProbe"]) == 503, 5, "unreadiness")
                assert other.probe(container["livenessProbe"]) == 200
                assert parse(other.raw(encode(CHAT, question, "Connection: close", key)))[0] == 503
                answer += read_all(stream)
            assert b'"finish_reason":"length"' in answer and answer.rstrip().endswith((b"[DONE]", b"0")), answer[-300:]
            assert other.process.wait(timeout=drain) == 0
        finally:
            other.process.kill()
    return said.removeprefix("sandbox: ").strip()
