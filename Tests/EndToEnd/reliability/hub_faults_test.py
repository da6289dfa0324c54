"""A download into the hub's cache whose n-th system call of each kind fails: what it says is there is there, whole, and
the next download mends the rest."""

import pathlib
import shutil
import subprocess
import tempfile

from hub_test import check_layout, environment, pull, snapshot, world

# Names of system calls of one kind, as systems differ, and how they fail.
FAULTS = [
    ("write,pwrite64", "ENOSPC"), ("openat,open", "EMFILE"), ("fsync,fdatasync", "EIO"), ("rename,renameat,renameat2", "EIO"),
    ("mkdir,mkdirat", "ENOSPC"), ("symlink,symlinkat", "ENOSPC"), ("ftruncate", "EIO"), ("flock", "ENOLCK"), ("read,pread64", "EIO"),
]


def test_after_any_failing_call_the_cache_is_whole_or_says_so(s, calls=4):
    if not shutil.which("strace"):
        return "skipped: strace is absent"
    ran = acknowledged = 0
    for names, code in FAULTS:
        for number in range(1, calls + 1):
            with world() as hub, tempfile.NamedTemporaryFile() as trace:
                # Each thread counts its own calls; curl is another program, and left alone.
                known = [name for name in names.split(",") if is_known(name)]
                command = ["strace", "-f", "-b", "execve", "-qq", "-o", trace.name, "-e", "trace=" + ",".join(known),
                           "-e", f"inject={','.join(known)}:error={code}:when={number}",
                           s.binary, "pull", "owner/demo", "--jobs", "1"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(hub))
                seen = pathlib.Path(trace.name).read_text()
                if "strace" in done.stderr and "ptrace" in done.stderr:
                    return "skipped: strace cannot trace here"
                if "(INJECTED)" not in seen:
                    break
                ran += 1
                if done.returncode == 0:
                    acknowledged += 1
                    check_layout(hub)
                pull(s, hub)
                check_layout(hub)
                assert snapshot(hub).is_dir()
    assert ran > len(FAULTS) and acknowledged < ran
    return f"{ran} downloads with a failing call, {acknowledged} of them whole all the same"


def is_known(name):
    """Whether this machine has a system call of that name."""
    return subprocess.run(["strace", "-e", "trace=" + name, "true"], capture_output=True).returncode == 0
