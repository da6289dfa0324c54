"""The systemd unit and the Kubernetes manifest, run: as another user, with a file system that cannot be written to and
under the filter of system calls that the unit names."""

import contextlib
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

from reliability import sandbox
from reliability.watch import CANARY, wait_for
from server import DEMO, ROOT, Server

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
    status = pathlib.Path(f"/proc/{other.process.pid}/status").read_text()
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


def test_the_kubernetes_manifest(s):
    if reason := sandbox.is_possible():
        return f"skipped: {reason}"
    manifest = (DEPLOY / "kubernetes.yaml").read_text()
    for part in ("runAsNonRoot: true", f"runAsUser: {sandbox.NOBODY}", "seccompProfile: {type: RuntimeDefault}",
                 "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true", "capabilities: {drop: [ALL]}"):
        assert part in manifest, part
    arguments = [part.strip().strip('"') for part in re.search(r"args: \[(.*)\]", manifest)[1].split(",")]
    with place(s) as folder:
        flags = without(arguments, "--model", "--port", "--host")
        flags.remove("--json-log")
        # Pods are reached by their address; here the loopback one stands for it.
        other, said = started(folder, "ERRNO", flags)
        try:
            used(other)
            wait_for(lambda: other.get("/health")[0] == 200, 5, "the probe")
        finally:
            assert other.stop() == 0
    return said
