"""Starts a program as docs/deploy/mlxserve.service or kubernetes.yaml would have it started, without systemd or
Kubernetes: sandbox.py KILL|ERRNO WRITABLE-FOLDER PROGRAM ARGUMENT..., or sandbox.py POD ROOT-FOLDER PROGRAM ARGUMENT...

What is in force is told on standard error: a user that is not root, a root file system that cannot be written to, no
new privileges, and a filter of system calls. What cannot be had here is told too."""

import ctypes
import errno
import fcntl
import os
import pathlib
import platform
import re
import socket
import struct
import sys

NOBODY = 65534
HEADER = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

# The calls of x86-64 that `SystemCallFilter=@system-service` with `~@privileged @resources` leaves out (systemd 252,
# `systemd-analyze syscall-filter`), less `sched_setaffinity`. The default profile of container runtimes leaves out fewer.
DENIED = """_sysctl acct adjtimex afs_syscall bpf capset chown chroot clock_adjtime clock_settime create_module
delete_module fanotify_init fanotify_mark fchown fchownat finit_module fsconfig fsmount fsopen fspick get_kernel_syms
getpmsg init_module ioperm iopl ioprio_set kexec_file_load kexec_load landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lookup_dcookie mbind memfd_secret migrate_pages mincore modify_ldt mount mount_setattr
move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root pkey_alloc pkey_free
pkey_mprotect process_mrelease ptrace putpmsg query_module quotactl quotactl_fd reboot sched_setattr
sched_setparam sched_setscheduler seccomp security set_mempolicy set_mempolicy_home_node setdomainname setfsuid
setgroups sethostname setpriority setresuid setreuid setrlimit settimeofday setuid swapoff swapon sysfs syslog tuxcall
umount2 uselib ustat vhangup vserver""".split()

KILL, ALLOW = 0x80000000, 0x7FFF0000


def fails(code):
    return 0x00050000 | code


def is_possible():
    """Why the filter cannot be made here; None where it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the numbers of system calls are those of Linux on x86-64"
    if not HEADER.exists():
        return f"{HEADER} is absent"
    if os.geteuid() != 0:
        return "only root can become somebody else"
    return None


def program(action):
    """The filter as classic BPF: what SystemCallFilter, SystemCallArchitectures, RestrictAddressFamilies,
    RestrictNamespaces and MemoryDenyWriteExecute of the unit say."""
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", HEADER.read_text())}
    load, equal, above, any_bit, end = 0x20, 0x15, 0x35, 0x45, 0x06
    code = []

    def emit(operation, k, yes=0, no=0):
        code.append((operation, yes, no, k))

    def argument(index):
        return 16 + 8 * index

    emit(load, 4)
    emit(equal, 0xC000003E, 1, 0)
    emit(end, KILL)
    emit(load, 0)
    # x32 has numbers of its own; calls that this table does not know yet.
    emit(above, max(numbers.values()) + 1, 0, 1)
    emit(end, fails(errno.ENOSYS))

    def when(name, *rest):
        """These instructions for one call; they must not fall through."""
        emit(equal, numbers[name], 0, len(rest))
        code.extend(rest)

    allowed, denied = (end, 0, 0, ALLOW), (end, 0, 0, fails(errno.EPERM))
    when("socket", (load, 0, 0, argument(0)), (equal, 3, 0, 1), (equal, 2, 0, 2), (equal, 1, 0, 10),
         (end, 0, 0, fails(errno.EAFNOSUPPORT)), allowed)
    when("mmap", (load, 0, 0, argument(2)), (0x54, 0, 0, 6), (equal, 1, 0, 6), allowed, denied)
    when("mprotect", (load, 0, 0, argument(2)), (any_bit, 1, 0, 4), allowed, denied)
    when("clone", (load, 0, 0, argument(0)), (any_bit, 1, 0, 0x7E020000), allowed, denied)
    when("clone3", (end, 0, 0, fails(errno.ENOSYS)))
    for name in ("unshare", "setns"):
        when(name, denied)
    for name in DENIED:
        if name in numbers:
            when(name, (end, 0, 0, KILL if action == "KILL" else fails(errno.EPERM)))
    emit(end, ALLOW)
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def enter_pod(libc, root):
    """The folder as the root, which cannot be written to but for /tmp, and a network with nothing but a loopback address.
    Empty folders in it stand for those of the system that have their names."""
    def check(result, what):
        if result != 0:
            raise OSError(ctypes.get_errno(), what)

    check(libc.unshare(0x00020000 | 0x40000000), "no namespaces may be made here")
    check(libc.mount(None, b"/", None, 16384 | 262144, None), "private mounts")
    check(libc.mount(os.fsencode(root), os.fsencode(root), None, 4096, None), "bind the root")
    for place in pathlib.Path(root).iterdir():
        if place.is_dir() and not place.is_symlink() and place.name != "tmp" and not any(place.iterdir()):
            source = os.fsencode(f"/{place.name}")
            check(libc.mount(source, os.fsencode(place), None, 4096 | 16384, None), f"bind /{place.name}")
    check(libc.mount(b"tmpfs", os.fsencode(f"{root}/tmp"), b"tmpfs", 0, b"mode=1777,size=64m"), "tmpfs")
    check(libc.mount(None, os.fsencode(root), None, 32 | 4096 | 1, None), "read-only")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
    os.chroot(root)
    return ["read-only", "a network of its own"]


def confine(action, writable):
    """Gives this process what it keeps through exec; the words that tell what is in force."""
    libc = ctypes.CDLL(None, use_errno=True)
    # What is read from files is read before they are out of sight.
    instructions = program("ERRNO" if action == "POD" else action)
    told = []
    if action == "POD":
        told += enter_pod(libc, writable)
    elif libc.unshare(0x00020000) == 0 and libc.mount(None, b"/", None, 16384 | 262144, None) == 0:
        kept = libc.mount(b"tmpfs", os.fsencode(writable), b"tmpfs", 0, f"mode=700,uid={NOBODY},size=64m".encode()) == 0
        closed = libc.mount(None, b"/", None, 32 | 4096 | 1, None) == 0
        told.append("read-only" if kept and closed else f"writable: {os.strerror(ctypes.get_errno())}")
    else:
        told.append(f"writable: {os.strerror(ctypes.get_errno())}")
    os.chdir("/")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    told.append(f"user {os.geteuid()}")
    if libc.prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no new privileges")
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = struct.pack("HxxxxxxQ", len(instructions) // 8, ctypes.addressof(buffer))
    if libc.prctl(22, 2, ctypes.c_char_p(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    told.append(f"filtered: {action}")
    return told


if __name__ == "__main__":
    told = confine(sys.argv[1], sys.argv[2])
    sys.stderr.write(f"sandbox: {', '.join(told)}\n")
    sys.stderr.flush()
    os.execv(sys.argv[3], sys.argv[3:])
