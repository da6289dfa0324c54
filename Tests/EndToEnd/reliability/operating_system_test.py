"""Faults of the operating system: signals, descriptors, disks, clocks, surroundings."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from reliability.folders import changed, with_members
from reliability.watch import (
    CHAT, answered, begin, body, code_of, cpu_seconds, encode, endless, fields_of, get, health_times, read_all, read_event,
    responses, state, talk, text_of, together, wait_for)
from server import DEMO, Server, parse


def slow(s, *flags, delay=20):
    return Server(s.binary, "--test-hooks", "--step-delay-ms", str(delay), "--speculate", "off", "--threads", "1", *flags)


def ends_with(other, seconds=5.0):
    return other.process.wait(timeout=seconds)


def test_a_drain_finishes_what_runs(s):
    other = slow(s, "--max-sequences", "16", delay=5)
    streams = [begin(other, body(other, stream=True, ignore_eos=True, max_tokens=15)) for _ in range(50)]
    wait_for(lambda: state(other)["slots_busy"] + state(other)["queue_len"] == 50, 10, "fifty requests")
    other.process.send_signal(signal.SIGTERM)
    wait_for(lambda: other.get("/health")[0] == 503, 5, "unreadiness")
    # As long as something runs, whoever asks is answered, also where nothing is sent but a connection is made.
    silent = [other.connect() for _ in range(100)]
    for path, status in (("/ready", 503), ("/readyz", 503), ("/livez", 200), ("/metrics", 200), ("/v1/models", 200)):
        assert other.get(path)[0] == status, path
    assert other.post("/v1/chat/completions", body(other))[0] == 503
    for stream in streams:
        answer = read_all(stream)
        assert b'"finish_reason":"length"' in answer and b"data: [DONE]\n\n" in answer, answer[-300:]
    assert ends_with(other, 20) == 0


def started_with_limit(s, soft, hard, *flags):
    """A server whose limit of open files was this at its start."""
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    start = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$0" "$@"'
    assert kept[1] >= hard, kept
    return Server("/bin/sh", *flags, prefix=["-c", start, s.binary])


def test_a_soft_limit_of_descriptors_is_raised(s):
    """A shell gives 1024; a thousand idle connections leave /health true."""
    other = started_with_limit(s, 1024, 4096, "--test-hooks")
    soft, hard = next(line for line in pathlib.Path(f"/proc/{other.process.pid}/limits").read_text().splitlines()
                      if line.startswith("Max open files")).split()[3:5]
    assert (soft, hard) == ("4096", "4096")
    ready = next(line for line in other.log if " ready " in line)
    assert "connections=1024" in ready and "descriptors=4096" in ready, ready
    idle_connections_change_nothing(other, 1500)
    assert other.stop() == 0


def test_fewer_descriptors_than_connections(s):
    """The table of connections fits, and says so."""
    other = started_with_limit(s, 300, 300, "--test-hooks")
    assert any("fewer connections than --max-connections" in line and "connections=150" in line for line in other.log)
    idle_connections_change_nothing(other, 500)
    # What the limit does not foresee: others take descriptors away.
    held = state(other)["fds"]
    resource.prlimit(other.process.pid, resource.RLIMIT_NOFILE, (held, held))
    idle_connections_change_nothing(other, 200)
    assert other.stop() == 0


def idle_connections_change_nothing(other, count):
    idle = []
    for number in range(count):
        client = socket.create_connection((other.host, other.port), timeout=20)
        if number % 2:
            client.sendall(get("/livez"))
        idle.append(client)
        if number % 50 == 49:
            for path in ("/health", "/ready", "/livez"):
                status, _, content = other.get(path)
                assert status == 200, (number, path, content)
            assert other.get("/v1/models")[0] == 200
    for client in idle:
        client.close()


def test_a_second_signal_ends_at_once(s):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        other = slow(s)
        stream = begin(other, endless(other))
        read_event(stream)
        other.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert other.process.poll() is None
        start = time.monotonic()
        other.process.send_signal(number)
        assert ends_with(other) == 128 + number and time.monotonic() - start < 2
        stream.close()


def test_a_signal_finds_idle_connections(s):
    other = slow(s)
    idle = [other.connect() for _ in range(20)]
    for connection in idle[:10]:
        connection.sendall(get("/health"))
    time.sleep(0.3)
    start = time.monotonic()
    other.process.send_signal(signal.SIGTERM)
    assert ends_with(other) == 0 and time.monotonic() - start < 3
    # As long as something is answered, who had not asked yet is answered too, with 503 to all that begins something.
    other = slow(s)
    stream = begin(other, endless(other))
    read_event(stream)
    asks, begins, asked = [other.connect() for _ in range(3)]
    asked.sendall(get("/health"))
    assert asked.recv(1) == b"H"
    other.process.send_signal(signal.SIGTERM)
    # One between two requests ends at once.
    assert read_all(asked).startswith(b"TTP/1.1 200")
    asks.sendall(get("/ready"))
    begins.sendall(encode(CHAT, body(other)))
    assert [parse(read_all(late))[0] for late in (asks, begins)] == [503, 503]
    stream.close()
    assert ends_with(other) == 0
    # While it loads there is nothing to finish.
    process = subprocess.Popen([s.binary, "serve", "--model", str(DEMO), "--port", "0"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) in (0, -signal.SIGTERM, 143)
    process.stdout.close()


def test_no_descriptors_left(s):
    other = slow(s)
    stream = begin(other, endless(other))
    read_event(stream)
    held = state(other)["fds"]
    resource.prlimit(other.process.pid, resource.RLIMIT_NOFILE, (held + 20, held + 20))
    before = cpu_seconds(other)
    clients = []
    for _ in range(200):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((other.host, other.port))
        clients.append(client)
    start = time.monotonic()
    while time.monotonic() - start < 3:
        read_event(stream)
    # The stream itself costs something; spinning would cost all of a core.
    assert (cpu_seconds(other) - before) / 3 < 0.6, (cpu_seconds(other) - before) / 3
    assert sum("out of descriptors" in line for line in other.log) in (1, 2), other.log[-5:]
    for client in clients:
        client.close()
    wait_for(lambda: parse(talk(other, get("/health", "Connection: close"))[0] or b"HTTP/1.1 0 \r\n\r\n")[0] == 200, 5)
    stream.close()
    wait_for(lambda: state(other)["slots_busy"] == 0, 5)
    assert other.stop() == 0


def test_a_killed_server_starts_again(s):
    other = slow(s)
    stream = begin(other, endless(other))
    read_event(stream)
    other.process.kill()
    other.process.wait()
    again = subprocess.Popen(
        [s.binary, "serve", "--model", str(DEMO), "--port", str(other.port)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)
    assert "listening on" in again.stdout.readline()
    again.terminate()
    assert again.wait(timeout=10) == 0
    again.stdout.close()
    stream.close()


def test_signals_without_meaning(s):
    for number in (signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCHLD, signal.SIGURG):
        s.process.send_signal(number)
    assert s.get("/health")[0] == 200


def test_a_stopped_process_goes_on_when_continued(s):
    stream = begin(s, endless(s))
    read_event(stream)
    idle = [s.connect() for _ in range(20)]
    s.process.send_signal(signal.SIGSTOP)
    time.sleep(3)
    s.process.send_signal(signal.SIGCONT)
    for connection in idle:
        connection.sendall(get("/health", "Connection: close"))
        assert parse(read_all(connection))[0] == 200
    read_event(stream)
    stream.close()


def test_the_wall_clock_jumps(s):
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None) or os.environ.get("FAKETIME_LIB")
    if not library:
        return "skipped: libfaketime is absent"
    with tempfile.NamedTemporaryFile("w") as clock:
        clock.write("+0")
        clock.flush()
        environment = {**os.environ, "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": clock.name,
                       "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
        # By way of another program: libfaketime changes the environment of the first one before `main`, and Swift
        # looks for the arguments beside it.
        process = subprocess.Popen(["env", s.binary, "serve", "--model", str(DEMO), "--port", "0"], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            line = process.stdout.readline()
            port = int(line.split(":")[2].split("/")[0])
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            idle = socket.create_connection(("127.0.0.1", port), timeout=10)
            idle.sendall(get("/health"))
            assert idle.recv(1000).startswith(b"HTTP/1.1 200 ")
            days = set()
            with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
                stream.sendall(encode(CHAT, endless(s), "Connection: close"))
                read_event(stream)
                for jump in ("+86400", "-86400", "+0"):
                    clock.seek(0)
                    clock.write(jump + "      ")
                    clock.flush()
                    connection.sendall(get("/health"))
                    answer = connection.recv(1000)
                    assert answer.startswith(b"HTTP/1.1 200 "), jump
                    days.add(fields_of(answer.partition(b"\r\n\r\n")[0])["date"][:16])
                # Neither a stream nor a connection that waits is given up for the sake of the calendar.
                assert read_all(stream).endswith(b"0\r\n\r\n")
            idle.sendall(get("/health"))
            assert idle.recv(1000).startswith(b"HTTP/1.1 200 ")
            assert len(days) == 3, days
        finally:
            process.terminate()
            assert process.wait(timeout=10) == 0
            process.stdout.close()


def test_a_full_disk(s):
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([s.binary, "serve", "--model", str(DEMO), "--port", "0"], stdout=subprocess.PIPE,
                                   stderr=full, text=True)
        port = int(process.stdout.readline().split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            for _ in range(20):
                connection.sendall(get("/health"))
                assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        process.terminate()
        assert process.wait(timeout=10) == 0
        process.stdout.close()
    with tempfile.TemporaryDirectory() as place:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True)
        if mounted.returncode != 0:
            return "the log alone: a small disk cannot be mounted here"
        try:
            other = Server(s.binary, "--state-dir", place)
            stored, refused = [], []
            for _ in range(40):
                status, headers, data = answered(other, "/v1/responses", {
                    "model": other.model, "input": "Hello! " * 100, "max_output_tokens": 1, "temperature": 0})
                answer = json.loads(data)
                assert status == 200 and answer["usage"]["output_tokens"] == 1, data
                # What the disk does not take is answered, and said not to be stored.
                assert answer["store"] == (headers.get("x-mlxserve-not-stored") is None), (answer, headers)
                (stored if answer["store"] else refused).append(answer["id"])
            assert stored and refused, (len(stored), len(refused))
            assert json.loads(other.get("/ready")[2]) == {"status": "ok", "store": "failing"}
            status, _, data = answered(other, "/v1/conversations", {"metadata": {"a": "b" * 500}, "items": []})
            while status == 200:
                status, _, data = answered(other, "/v1/conversations", {"metadata": {"a": "b" * 500}})
            assert status == 507 and json.loads(data)["error"]["code"] == "storage_full", (status, data)
            assert all(other.get(f"/v1/responses/{name}")[0] == 404 for name in refused)
            assert other.stop() == 0
            again = Server(s.binary, "--state-dir", place)
            assert all(again.get(f"/v1/responses/{name}")[0] == 200 for name in stored)
            assert again.stop() == 0
        finally:
            subprocess.run(["umount", "-l", place], capture_output=True)
    return f"{len(stored)} of 40 stored, the others refused"


@contextlib.contextmanager
def control_group(megabytes):
    """A memory group of the kernel inside our own; None where we may not make one."""
    place = None
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            place, name = pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        elif not controllers and not place:
            place, name = pathlib.Path("/sys/fs/cgroup" + path), "memory.max"
    group = place / f"mlxserve-{os.getpid()}" if place else None
    try:
        group.mkdir()
    except (AttributeError, OSError):
        yield None
        return
    try:
        (group / name).write_text(str(megabytes << 20))
        made = group
    except OSError:
        made = None
    try:
        yield made
    finally:
        # The kernel takes a moment until a group of ended processes is empty.
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def test_a_control_group_has_its_limit(s):
    """The server finds the limit by itself, and what is too much is refused or waits before the kernel ends anything."""
    limit = 96
    with control_group(limit) as group, changed(config_dot_json=with_members(max_position_embeddings=16384)) as folder:
        if not group:
            return "skipped: no control group can be made here"
        start = folder.parent / "start"
        start.write_text(f"#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {s.binary} \"$@\"\n")
        start.chmod(0o755)
        other = Server(str(start), "--test-hooks", "--kv-cache-type", "f32", "--queue-limit", "4", "--max-sequences", "4",
                       model=folder)
        try:
            ready = next(line for line in other.log if " ready " in line)
            assert f'memory="{limit * 9 // 10} MiB"' in ready, ready

            def work(index):
                content = {"model": other.model, "prompt": [300 + index] * 5000, "max_tokens": 8}
                with other.connect() as connection:
                    connection.settimeout(400)
                    connection.sendall(encode("/v1/completions", content, "Connection: close"))
                    return responses(read_all(connection))[0]

            answers = together(16, work)
            statuses = sorted(answer[0] for answer in answers)
            assert set(statuses) <= {200, 429, 503} and 200 in statuses, statuses
            assert all(int(answer[1]["retry-after"]) >= 1 for answer in answers if answer[0] != 200)
            assert text_of(answered(other, CHAT, body(other, max_tokens=4)))
            events = group / "memory.events"
            killed = (events if events.exists() else group / "memory.oom_control").read_text()
            assert "oom_kill 0" in killed, killed
            held = state(other)["rss"]
        finally:
            assert other.stop() == 0
        counts = {status: statuses.count(status) for status in set(statuses)}
    return f"{counts} in a group of {limit} MiB, {held >> 20} MiB held at the end"


def test_nobody_reads_the_log(s):
    read_end, write_end = os.pipe()
    process = subprocess.Popen([s.binary, "serve", "--model", str(DEMO), "--port", "0"], stdout=subprocess.PIPE,
                               stderr=write_end, text=True)
    port = int(process.stdout.readline().split(":")[2].split("/")[0])
    process.stdout.close()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        for number in range(900):
            connection.sendall(get(f"/nope{number}" + "x" * 200))
            assert connection.recv(2000).startswith(b"HTTP/1.1 404 ")
    os.close(read_end)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(get("/health"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
    process.terminate()
    assert process.wait(timeout=10) == 0
    os.close(write_end)


def test_interrupted_system_calls_are_repeated(s):
    if not shutil.which("strace"):
        return "skipped: strace is absent"
    # Only what sockets use: a program whose loader cannot read is none.
    faults = ["recvfrom:error=EINTR:when=1+3", "recvfrom:error=EAGAIN:when=2+5", "sendto:error=EINTR:when=1+3",
              "poll,ppoll:error=EINTR:when=2+3", "accept,accept4:error=ECONNABORTED:when=2+4",
              "accept,accept4:error=EINTR:when=1+3", "accept,accept4:error=ENOBUFS:when=2+5"]
    ran = 0
    for fault in faults:
        with tempfile.NamedTemporaryFile() as trace:
            process = subprocess.Popen(
                ["strace", "-D", "-f", "-qq", "-o", trace.name, "-e", "trace=" + fault.split(":")[0], "-e", "inject=" + fault,
                 s.binary, "serve", "--model", str(DEMO), "--port", "0", "--threads", "1"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            line = process.stdout.readline()
            if "listening" not in line:
                process.kill()
                process.wait()
                process.stdout.close()
                assert ran == 0 and "accept" not in fault, (fault, line)
                return "skipped: strace cannot trace here"
            port = int(line.split(":")[2].split("/")[0])
            good = 0
            for _ in range(12):
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                        connection.sendall(get("/health", "Connection: close"))
                        good += read_all(connection).startswith(b"HTTP/1.1 200 ")
                except ConnectionResetError:
                    pass
            # A connection that accept reports as aborted is gone; nothing else may be lost.
            assert good == 12 or ("accept" in fault and good >= 8), (fault, good)
            process.terminate()
            process.wait(timeout=20)
            process.stdout.close()
            ran += 1
    return f"{ran} kinds of faults"


def test_health_is_quick_beside_busy_programs(s):
    """As many busy loops as there are cores, of equal priority."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        times = health_times(s, 4, 0.005)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    # The clock is read by a program that competes too, and perhaps not with these alone.
    assert times[len(times) // 2] < 0.1, times[len(times) // 2]
    return (f"{len(hogs)} beside: median {times[len(times) // 2] * 1000:.1f} ms, "
            f"p99 {times[len(times) * 99 // 100] * 1000:.1f} ms of {len(times)}")


def test_locale_and_working_folder_change_nothing(s):
    expected = text_of(answered(s, CHAT, body(s)))
    for settings in ({"LANG": "C"}, {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"}, {"LANG": "ar_EG.UTF-8"}, {"TZ": "Asia/Kolkata"}):
        environment = {key: value for key, value in os.environ.items() if key not in ("HOME", "LANG", "LC_ALL")}
        process = subprocess.Popen([s.binary, "serve", "--model", str(DEMO), "--port", "0"], cwd="/proc",
                                   env={**environment, **settings}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True)
        try:
            port = int(process.stdout.readline().split(":")[2].split("/")[0])
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(encode(CHAT, body(s), "Connection: close"))
                assert text_of(responses(read_all(connection))[0]) == expected, settings
        finally:
            process.terminate()
            assert process.wait(timeout=10) == 0
            process.stdout.close()
