"""What `make release` packs around a binary: the archive, the Debian package and the image's files, used as a new user would."""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from server import DEMO, ROOT

QUESTION = ["--temperature", "0", "--no-thinking", "Is the capital of France Paris? Answer Yes or No."]


def lacking(*programs, root=False):
    """Why a case cannot run here, or nothing."""
    if sys.platform != "linux":
        return "SKIPPED: archives of Linux are packed on Linux"
    for program in ("git", *programs):
        if not shutil.which(program):
            return f"SKIPPED: {program} is not installed"
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True).returncode != 0:
        return "SKIPPED: this is no clone, so there is no commit to release"
    if root and os.geteuid() != 0:
        return "SKIPPED: only root can change the root folder"
    return None


@functools.cache
def packed(binary):
    """The release of the last commit with this binary, in a folder that stays until the tests end."""
    folder = tempfile.TemporaryDirectory()
    out = pathlib.Path(folder.name) / "out"
    result = subprocess.run(
        ["sh", ROOT / "docs/deploy/package/release.sh", out], env={**os.environ, "BINARY": binary}, cwd=ROOT,
        capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result
    return folder, out


def archive(binary):
    return next(packed(binary)[1].glob("*.tar.gz"))


@contextlib.contextmanager
def bare_root(binary):
    """A root folder with what the archive has, the libraries that its binary names, the demo and /proc, and nothing else."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        root.chmod(0o755)
        subprocess.run(["tar", "-xf", archive(binary), "-C", root, "--strip-components", "1"], check=True)
        lines = subprocess.run(["ldd", root / "mlxserve"], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(?:=> |^\s*)(/\S+) \(", lines, re.MULTILINE):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        shutil.copytree(DEMO, root / "demo")
        for part in ("proc", "tmp"):
            (root / part).mkdir()
        if subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], capture_output=True).returncode != 0:
            raise PermissionError("mount")
        try:
            yield root
        finally:
            subprocess.run(["umount", "-l", root / "proc"], check=True)


def test_the_checksums_are_those_of_the_files(server):
    if reason := lacking("sha256sum", "tar"):
        return reason
    out = packed(server.binary)[1]
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=out, capture_output=True).returncode == 0
    names = {line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    files = {path.name for path in out.iterdir() if path.is_file()} - {"SHA256SUMS"}
    assert names == files, (names, files)
    with tempfile.TemporaryDirectory() as folder:
        for path in out.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        damaged = pathlib.Path(folder) / archive(server.binary).name
        data = bytearray(damaged.read_bytes())
        data[len(data) // 2] ^= 1
        damaged.write_bytes(data)
        result = subprocess.run(check, cwd=folder, capture_output=True, text=True)
        assert result.returncode != 0 and damaged.name in result.stdout, result
    formula = (out / "mlxserve.rb").read_text()
    digest = next(line.split()[0] for line in (out / "SHA256SUMS").read_text().splitlines() if line.endswith(archive(server.binary).name))
    assert f'sha256 "{digest}"' in formula and archive(server.binary).name in formula and "@" not in re.sub(r"#.*", "", formula)
    contents = json.loads(next(out.glob("*.spdx.json")).read_text())
    assert contents["packages"][0]["checksums"][0]["checksumValue"] == digest


def test_the_same_binary_is_packed_to_the_same_bytes(server):
    if reason := lacking("tar"):
        return reason
    first = (packed(server.binary)[1] / "SHA256SUMS").read_text()
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["sh", ROOT / "docs/deploy/package/release.sh", folder], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "BINARY": server.binary, "TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, timeout=600)
        assert result.returncode == 0, result
        assert (pathlib.Path(folder) / "SHA256SUMS").read_text() == first


def test_a_user_installs_without_root(server):
    if reason := lacking("tar", "sh"):
        return reason
    out, script = packed(server.binary)[1], ROOT / "docs/deploy/package/install.sh"
    version = subprocess.run([server.binary, "--version"], capture_output=True, text=True).stdout.splitlines()[0]

    def install(*words, home):
        return subprocess.run(["sh", script, *words], env={"PATH": os.environ["PATH"], "HOME": home}, capture_output=True, text=True)

    with tempfile.TemporaryDirectory() as home:
        for place in (archive(server.binary), out):
            result = install(place, home=home)
            assert result.returncode == 0 and version in result.stdout and f"add {home}/.local/bin to your PATH" in result.stdout, result
        files = {str(path.relative_to(home)) for path in pathlib.Path(home).rglob("*") if path.is_file()}
        assert files == {
            ".local/bin/mlxserve", ".local/share/man/man1/mlxserve.1", ".local/share/bash-completion/completions/mlxserve",
            ".local/share/zsh/site-functions/_mlxserve", ".local/share/fish/vendor_completions.d/mlxserve.fish"}, files
        again = subprocess.run([f"{home}/.local/bin/mlxserve", "run", DEMO, *QUESTION], capture_output=True, text=True)
        assert again.stdout.strip() == "Yes", again
        # The same from an address.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        with subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)], cwd=out, **quiet) as pages:
            try:
                for _ in range(100):
                    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                        break
                    time.sleep(0.05)
                result = install(f"http://127.0.0.1:{port}", home=home)
                assert result.returncode == 0, result
                nothing = install(f"http://127.0.0.1:{port}/none", home=home)
                assert nothing.returncode == 1 and "has no SHA256SUMS" in nothing.stderr, nothing
            finally:
                pages.terminate()
        assert install("--remove", home=home).returncode == 0
        assert not [path for path in pathlib.Path(home).rglob("*") if path.is_file()]
        # What is not what was released leaves nothing behind.
        for change, said in (("flip", "is damaged"), ("nosums", "SHA256SUMS is missing"), ("noname", "does not name")):
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / archive(server.binary).name
                data = bytearray(archive(server.binary).read_bytes())
                if change == "flip":
                    data[len(data) // 2] ^= 1
                copy.write_bytes(data)
                if change != "nosums":
                    (copy.parent / "SHA256SUMS").write_text("" if change == "noname" else (out / "SHA256SUMS").read_text())
                result = install(copy, home=home)
                assert result.returncode == 1 and said in result.stderr, (change, result)
        assert "fetch releases over https://" in install("http://releases.example", home=home).stderr
        assert not [path for path in pathlib.Path(home).rglob("*") if path.is_file()]


def test_the_archive_runs_where_nothing_else_is(server):
    if reason := lacking("tar", "ldd", "mount", "chroot", root=True):
        return reason
    try:
        with bare_root(server.binary) as root:
            def run(*words, **options):
                return subprocess.run(
                    [shutil.which("chroot"), root, "/mlxserve", *words], capture_output=True, text=True, timeout=120, env={}, **options)

            assert {"LICENSE", "README.md", "mlxserve.1", "mlxserve.service", "completions"} <= {p.name for p in root.iterdir()}
            version = run("--version")
            assert version.returncode == 0 and version.stdout.startswith("mlxserve ") and not version.stderr, version
            doctor = run("doctor", "--port", "0")
            assert doctor.returncode == 0 and "curl is not installed" in " ".join(doctor.stdout.split()), doctor
            answer = run("run", "/demo", *QUESTION)
            assert answer.returncode == 0 and answer.stdout.strip() == "Yes", answer
            pull = run("pull", "qwen3:0.6b")
            assert pull.returncode == 6 and "curl" in pull.stderr and len(pull.stderr.splitlines()) == 1, pull
    except PermissionError:
        return "SKIPPED: nothing may be mounted here"


def test_the_image_runs_as_nobody_and_cannot_write(server):
    """Its files as the root folder, which cannot be written to, for user 65532 without capabilities."""
    if reason := lacking("unshare", "nsenter", "pgrep", "mount", root=True):
        return reason
    image = next(packed(server.binary)[1].glob("*.oci"))
    container = (image / "Containerfile").read_text()
    assert "USER 65532:65532" in container and 'CMD ["/mlxserve", "health"]' in container and "STOPSIGNAL SIGTERM" in container
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", container, re.MULTILINE)[1])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name) / "root"
        shutil.copytree(image / "root", root)
        shutil.copytree(DEMO, root / "models" / "demo")
        (root / "proc").mkdir()
        for path in [pathlib.Path(name), root, *root.rglob("*")]:
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        inside = ('mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec unshare --pid --fork --kill-child --root="$0" '
                  '--wd=/ --mount-proc=/proc --setgid 65532 --setuid 65532 "$@"')

        def start(*words):
            """The program is the first of its container, as SIGTERM finds it there."""
            return subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", inside, str(root), *words], env={**os.environ, "HOME": "/home/mlxserve", "MLXSERVE_API_KEY": "sk-test"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        with subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL) as tried:
            if tried.wait() != 0:
                return "SKIPPED: no namespaces may be made here"
        program = start(*entry, "--models-dir", "/models", "--port", port)
        try:
            line = program.stdout.readline()
            assert f"listening on http://0.0.0.0:{port}" in line, (line, program.stderr.read() if program.poll() is not None else "")
            first = int(subprocess.run(["pgrep", "-P", str(program.pid)], capture_output=True, text=True).stdout.split()[0])
            status = dict(part.split(":", 1) for part in pathlib.Path(f"/proc/{first}/status").read_text().splitlines())
            assert status["Uid"].split() == ["65532"] * 4 and int(status["CapEff"], 16) == 0, status
            assert status["NSpid"].split()[-1] == "1" and "mlxserve" in status["Name"], status
            mounts = [line.split() for line in pathlib.Path(f"/proc/{first}/mounts").read_text().splitlines()]
            assert [options.split(",")[0] for _, place, _, options, *_ in mounts if place == "/"][-1:] == ["ro"], mounts
            # The health check of the image, as the container's own user.
            health = subprocess.run(
                [shutil.which("nsenter"), "-t", str(first), "--mount", "--pid", "--root", "--wd", "--setuid", "65532", "--setgid", "65532", "/mlxserve", "health", "--port", port],
                capture_output=True, text=True, timeout=30, env={})
            assert health.returncode == 0 and health.stdout == "ready\n", health

            def ask(**options):
                body = {"model": "demo", "messages": [{"role": "user", "content": "Tell me a very long story."}], "temperature": 0, **options}
                return urllib.request.urlopen(urllib.request.Request(
                    f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                    {"Content-Type": "application/json", "Authorization": "Bearer sk-test"}), timeout=60)

            assert json.load(ask(max_tokens=4))["usage"]["completion_tokens"] == 4
            # SIGTERM lets what runs come to its end.
            with ask(stream=True, max_tokens=300, ignore_eos=True) as stream:
                stream.readline()
                os.kill(first, signal.SIGTERM)
                rest = stream.read()
            assert b'"finish_reason":"length"' in rest and rest.rstrip().endswith(b"[DONE]"), rest[-300:]
            assert program.wait(40) == 0, program.stderr.read()[-500:]
        finally:
            # Another user's program is not killed with its parent.
            subprocess.run(["pkill", "-KILL", "-P", str(program.pid)])
            program.kill()
            program.communicate(timeout=30)


def test_the_debian_package_comes_and_goes(server):
    """Installed, upgraded, removed and purged in a root folder of its own, with settings and a unit of the administrator."""
    if reason := lacking("dpkg", "dpkg-deb", root=True):
        return reason
    package = next(iter(packed(server.binary)[1].glob("*.deb")), None)
    assert package, "release.sh made no package"
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name) / "root"
        (root / "var/lib/dpkg").mkdir(parents=True)
        for part in ("status", "available"):
            (root / "var/lib/dpkg" / part).write_text("")

        def dpkg(*words):
            result = subprocess.run(
                ["dpkg", f"--root={root}", "--force-depends", "--force-confold", "--log=/dev/null", *map(str, words)], capture_output=True, text=True,
                timeout=120, stdin=subprocess.DEVNULL)
            assert result.returncode == 0, result
            return result.stdout

        def files():
            return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "var/lib/dpkg" not in str(path)}

        dpkg("-i", package)
        unit = "usr/lib/systemd/system/mlxserve.service"
        assert {"usr/bin/mlxserve", unit, "etc/mlxserve/config", "etc/default/mlxserve", "usr/share/man/man1/mlxserve.1.gz",
                "usr/share/bash-completion/completions/mlxserve", "usr/share/zsh/vendor-completions/_mlxserve",
                "usr/share/fish/vendor_completions.d/mlxserve.fish", "usr/share/doc/mlxserve/copyright"} <= files(), files()
        assert os.access(root / "usr/bin/mlxserve", os.X_OK)
        version = subprocess.run([root / "usr/bin/mlxserve", "--version"], capture_output=True, text=True).stdout
        assert version.splitlines()[0].split()[1] in dpkg("-s", "mlxserve")
        # Nothing starts it before the administrator says so.
        assert not any("wants/mlxserve" in file for file in files())
        # What the administrator has written stays through an upgrade that has other settings and another unit.
        (root / "etc/mlxserve/config").write_text("port = 9999\n")
        own = root / "etc/systemd/system/mlxserve.service"
        own.parent.mkdir(parents=True)
        own.write_text((root / unit).read_text().replace("MemoryMax=8G", "MemoryMax=2G"))
        cache = root / "var/cache/mlxserve/models--o--n/refs/main"
        cache.parent.mkdir(parents=True)
        cache.write_text("a model")
        newer = pathlib.Path(name) / "newer"
        subprocess.run(["dpkg-deb", "-R", package, newer], check=True)
        for part, before, after in (("DEBIAN/control", r"Version: .*", "Version: 99.0"), ("etc/mlxserve/config", r"\A", "# newer\n"),
                                    (unit, "MemoryMax=8G", "MemoryMax=9G")):
            text, count = re.subn(before, after, (newer / part).read_text(), count=1)
            assert count == 1, part
            (newer / part).write_text(text)
        sums = subprocess.run("find usr etc -type f | sort | xargs md5sum", shell=True, cwd=newer, capture_output=True, text=True, check=True).stdout
        (newer / "DEBIAN/md5sums").write_text(sums)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", newer, f"{name}/newer.deb"], check=True, capture_output=True)
        dpkg("-i", f"{name}/newer.deb")
        assert "Version: 99.0" in dpkg("-s", "mlxserve")
        assert (root / "etc/mlxserve/config").read_text() == "port = 9999\n"
        assert "MemoryMax=2G" in own.read_text() and "MemoryMax=9G" in (root / unit).read_text()
        dpkg("-r", "mlxserve")
        assert not (root / "usr/bin/mlxserve").exists() and (root / "etc/mlxserve/config").read_text() == "port = 9999\n"
        dpkg("-P", "mlxserve")
        left = {file for file in files() if "mlxserve" in file}
        # The administrator's own unit and the models are not the package's.
        assert left == {"etc/systemd/system/mlxserve.service", "var/cache/mlxserve/models--o--n/refs/main"}, left
    if not shutil.which("lintian"):
        return "lintian is not installed, so its opinion was not asked"
    result = subprocess.run(["lintian", "--fail-on", "error,warning", package], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout
    return None
