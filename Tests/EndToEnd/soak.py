"""A long mixed load against the release binary: soak.py BINARY [--minutes N] [--requests N] [--idle N] [--clients N].

Ends with 1 after an unprovoked fault of the server, an answer that differs from the one the same request got alone,
memory, descriptors, threads or KV blocks that stay behind, or a /health that became slow. Every figure is printed.

The cache of keys and values is filled first, with prompts that it forgets later: it has a limit, and until then it would
grow with whatever is asked. Then a warm-up of the same mix, without pauses, goes on until the cache has exchanged these
prompts for those of the mix, and pieces that live long lie all over the heap. From there all memory that no file stands behind is compared,
nothing taken off, at rest after each quarter of the load.
"""

import argparse
import json
import multiprocessing
import pathlib
import random
import re
import selectors
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from reliability.watch import CHAT, body, encode, get, is_at_rest, responses, state, together, wait_for
from server import ROOT, Server

ENCODER = ROOT / "Fixtures" / "models" / "encoder-tiny"
WARM_UP = 10_000
QUARTERS = 4
QUESTIONS = ("What is the capital of France?", "Tell me a story.", "Is Paris the capital of France?", "Hello!",
             "What is the weather in Paris?", "Tell me a story. " * 30)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
    "additionalProperties": False}, "strict": True}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {
    "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "w": {"enum": ["a", "b"]}},
    "required": ["n", "w"], "additionalProperties": False}}}
BROKEN = (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST /v1/nope HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
          b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 9000 + b"\r\n\r\n")


class Target:
    """What a client process must know of the server; stands in for it in the helpers of `watch`."""

    def __init__(self, host, port, model):
        self.host, self.port, self.model = host, port, model

    def connect(self):
        return socket.create_connection((self.host, self.port), timeout=120)

    def get(self, path):
        return exchange(self, get(path, "Connection: close"))


def exchange(target, data):
    with target.connect() as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    if not answer:
        raise ConnectionAbortedError("no answer")
    return responses(answer)[0]


def comparable(path, status, data):
    """The part of an answer that the request alone decides."""
    if data.startswith(b"data: ") or data.startswith(b"event: ") or data.startswith(b": "):
        text = []
        for event in data.decode().split("\n\n"):
            line = event.rpartition("\n")[2]
            if not line.startswith("data: {"):
                continue
            content = json.loads(line[6:])
            text += [json.dumps(choice["delta"], sort_keys=True) for choice in content.get("choices", [])]
            if content.get("type") == "response.output_text.delta":
                text.append(content["delta"])
        # Ids of calls are random, and so is where a stream is cut into chunks.
        return "".join(part for part in text if '"tool_calls"' not in part)
    content = json.loads(data)
    for choice in content.get("choices", []):
        for call in (choice.get("message") or {}).get("tool_calls") or []:
            call.pop("id")
    if "choices" in content:
        return json.dumps(content["choices"])
    if path == "/v1/responses":
        return json.dumps([item.get("content") for item in content["output"]])
    return json.dumps(content.get("content"))


def requests_of(target):
    """Every kind of good request, by name: path and body."""
    found = {}
    for index, question in enumerate(QUESTIONS):
        chat = body(target, question, max_tokens=24, seed=index, temperature=(0, 1)[index % 2])
        found[f"chat {index}"] = (CHAT, chat)
        found[f"stream {index}"] = (CHAT, {**chat, "stream": True})
        found[f"response {index}"] = ("/v1/responses", {
            "model": target.model, "input": question, "max_output_tokens": 24, "temperature": 0, "store": index % 2 == 0})
    found["response stream"] = ("/v1/responses", {
        "model": target.model, "input": QUESTIONS[0], "max_output_tokens": 24, "temperature": 0, "stream": True})
    found["message"] = ("/v1/messages", {
        "model": target.model, "max_tokens": 24, "temperature": 0,
        "messages": [{"role": "user", "content": QUESTIONS[0]}]})
    found["schema"] = (CHAT, body(target, max_tokens=60, response_format=SCHEMA))
    found["tool"] = (CHAT, body(target, max_tokens=80, tools=[TOOL], tool_choice="required"))
    found["completion"] = ("/v1/completions", {
        "model": target.model, "prompt": "x", "max_tokens": 16, "temperature": 0, "logprobs": 3, "n": 2})
    return found


class Client:
    """One thread's share of the load."""

    def __init__(self, target, expected, seed, stores=True, pause=0):
        self.target, self.expected, self.pause = target, expected, pause
        self.chance = random.Random(seed)
        self.counts, self.problems = Counter(), []
        self.good = requests_of(target)
        self.seed, self.stores = seed, stores

    def run(self, count, end):
        while count > 0 and time.monotonic() < end and len(self.problems) < 5:
            count -= 1
            time.sleep(self.chance.random() * 2 * self.pause)
            kind = self.chance.random()
            try:
                if kind < 0.1:
                    self.leave()
                elif kind < 0.2:
                    self.blunder()
                elif kind < 0.23:
                    self.dawdle()
                elif kind < 0.26 and self.stores:
                    self.search()
                elif kind < 0.27 and self.stores:
                    self.batch()
                else:
                    self.ask()
            except (OSError, AssertionError, IndexError, ValueError) as problem:
                self.problems.append(f"connection: {problem!r}")

    def ask(self):
        name = self.chance.choice(list(self.good))
        path, content = self.good[name]
        while True:
            status, headers, data = exchange(self.target, encode(path, content, "Connection: close"))
            if status != 429:
                break
            self.counts["429"] += 1
            assert int(headers["retry-after"]) >= 1
            time.sleep(self.chance.random())
        self.counts[name.split()[0]] += 1
        if status != 200:
            self.problems.append(f"{name}: {status} {data[:200]}")
        elif comparable(path, status, data) != self.expected[name]:
            self.problems.append(f"{name}: {data[-400:]} is not {self.expected[name][-300:]}")

    def leave(self):
        """Closes, politely or not, while queued, in the prompt or in the answer."""
        self.counts["left"] += 1
        with self.target.connect() as connection:
            content = body(self.target, self.chance.choice(QUESTIONS), max_tokens=400, ignore_eos=True,
                           stream=self.chance.random() < 0.5)
            connection.sendall(encode(CHAT, content))
            connection.settimeout(self.chance.random() * 0.2)
            try:
                connection.recv(200)
            except TimeoutError:
                pass
            if self.chance.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def blunder(self):
        self.counts["refused"] += 1
        good = body(self.target)
        choice = self.chance.randrange(6)
        if choice == 0:
            data = self.chance.choice(BROKEN)
        else:
            wrong = ({**good, "n": -1}, {**good, "messages": []}, {**good, "model": "nope"},
                     {**good, "temperature": "x"}, {**good, "guided_regex": "("})[choice - 1]
            data = encode(CHAT, wrong, "Connection: close")
        status, _, content = exchange(self.target, data)
        if not 400 <= status < 500:
            self.problems.append(f"bad input got {status}: {content[:200]}")

    def call(self, method, path, content=b"", kind="application/json"):
        """What is answered, as JSON where it is; tried again while the server is full."""
        while True:
            data = encode(path, content, f"Content-Type: {kind}", "Connection: close", method=method)
            status, headers, data = exchange(self.target, data)
            if status != 429:
                break
            self.counts["429"] += 1
            time.sleep(self.chance.random())
        assert status == 200, (method, path, status, data[:300])
        return json.loads(data) if headers["content-type"] == "application/json" else data

    def upload(self, name, purpose, text):
        form = (f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n{purpose}\r\n--b\r\n'
                f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{text}\r\n--b--\r\n')
        return self.call("POST", "/v1/files", form.encode(), "multipart/form-data; boundary=b")["id"]

    def poll(self, path):
        """The object there when it is no longer worked on."""
        end = time.monotonic() + 120
        while (found := self.call("GET", path))["status"] in ("in_progress", "validating", "finalizing", "cancelling"):
            assert time.monotonic() < end, found
            time.sleep(0.1)
        return found

    def search(self):
        """Puts files into a store, finds what stands in one, takes it away, and finds it no more."""
        self.counts["store"] += 1
        words = [f"w{self.seed}x{self.chance.randrange(10**9)}" for _ in range(3)]
        files = [self.upload(f"{word}.md", "assistants", f"# About {word}\n\n" + f"The lantern {word} hangs in a harbour. " * 30)
                 for word in words]
        store = self.call("POST", "/v1/vector_stores", dict(name=words[0], file_ids=files))["id"]
        path = f"/v1/vector_stores/{store}"
        counts = self.poll(path)["file_counts"]
        assert counts["completed"] == 3, counts

        def found():
            page = self.call("POST", f"{path}/search", dict(query=f"where does {words[1]} hang?"))
            return [result["file_id"] for result in page["data"]]

        assert files[1] in found(), (store, files)
        self.call("DELETE", f"/v1/files/{files[1]}")
        assert files[1] not in found(), (store, files)
        self.call("DELETE", path)
        for file in (files[0], files[2]):
            self.call("DELETE", f"/v1/files/{file}")

    def batch(self):
        """Two requests that are answered in the background as they are alone."""
        self.counts["batch"] += 1
        names = ("chat 0", "chat 2")
        lines = [dict(custom_id=name, method="POST", url=CHAT, body=self.good[name][1]) for name in names]
        file = self.upload("in.jsonl", "batch", "\n".join(map(json.dumps, lines)))
        batch = self.call("POST", "/v1/batches", dict(input_file_id=file, endpoint=CHAT, completion_window="24h"))["id"]
        done = self.poll(f"/v1/batches/{batch}")
        assert done["request_counts"] == {"total": 2, "completed": 2, "failed": 0}, done
        for text in self.call("GET", f"/v1/files/{done['output_file_id']}/content").splitlines():
            answer = json.loads(text)
            got = json.dumps(answer["response"]["body"]["choices"])
            assert got == self.expected[answer["custom_id"]], (answer, self.expected[answer["custom_id"]])
        self.call("DELETE", f"/v1/batches/{batch}")
        for name in (file, done["output_file_id"]):
            self.call("DELETE", f"/v1/files/{name}")

    def dawdle(self):
        self.counts["slow"] += 1
        content = body(self.target, "Tell me a story.", max_tokens=40, stream=True)
        with self.target.connect() as connection:
            connection.sendall(encode(CHAT, content, "Connection: close"))
            while connection.recv(1024):
                time.sleep(0.01)


def client_process(target, expected, seed, count, threads, pause, end, results):
    clients = [Client(target, expected, seed * 1000 + index, pause=pause) for index in range(threads)]
    workers = [threading.Thread(target=client.run, args=(count // threads, end)) for client in clients]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    counts, problems = Counter(), []
    for client in clients:
        counts += client.counts
        problems += client.problems
    results.put((counts, problems))


def idle_process(target, count, stop, results):
    """Keeps so many connections open that say nothing; the server lets each go after its idle time."""
    selector = selectors.DefaultSelector()
    opened, refused = 0, 0

    def open_one():
        connection = target.connect()
        connection.sendall(get("/health"))
        selector.register(connection, selectors.EVENT_READ)

    try:
        for _ in range(count):
            open_one()
            opened += 1
        while not stop.is_set():
            for key, _ in selector.select(0.2):
                try:
                    answer = key.fileobj.recv(65536)
                except OSError:
                    answer = b""
                if not answer:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    open_one()
                    opened += 1
                elif b" 503 " in answer[:20]:
                    refused += 1
    finally:
        for key in list(selector.get_map().values()):
            key.fileobj.close()
    results.put((opened, refused))


def health_process(target, stop, results):
    times = []
    while not stop.is_set():
        begin = time.monotonic()
        status, _, _ = exchange(target, get("/health", "Connection: close"))
        assert status == 200
        times.append(time.monotonic() - begin)
        time.sleep(0.02)
    results.put(sorted(times))


def load(target, expected, arguments, seed, count, end, pause):
    """Runs everything at once; counts, problems, times of /health and openings of idle connections."""
    context = multiprocessing.get_context("fork")
    results, health, idle, stop = context.Queue(), context.Queue(), context.Queue(), context.Event()
    around = [context.Process(target=health_process, args=(target, stop, health)),
              context.Process(target=idle_process, args=(target, arguments.idle, stop, idle))]
    share = max(1, arguments.clients // 2)
    clients = [context.Process(target=client_process,
                               args=(target, expected, seed + index, count // 2, share, pause, end, results))
               for index in range(2)]
    for process in around + clients:
        process.start()
    counts, problems = Counter(), []
    for _ in clients:
        part = results.get()
        counts, problems = counts + part[0], problems + part[1]
    stop.set()
    times, (opened, refused) = health.get(), idle.get()
    for process in around + clients:
        process.join()
    return counts, problems, times, opened, refused


def fill(target):
    """Has the cache of keys and values take all the memory that it may."""
    def ask(number):
        words = " ".join(f"w{(number * 7919 + index * 31) % 1000}" for index in range(500))
        status, _, data = exchange(target, encode(CHAT, body(target, words, max_tokens=4), "Connection: close"))
        assert status == 200, data

    for round in range(8):
        together(8, lambda index: ask(8 * round + index))
        now = state(target)
        if now["kv_pages_cached"] * 10 >= now["kv_pages_total"] * 9:
            return
    raise AssertionError(f"the cache does not fill: {now}")


def rest_of(target):
    # The threads of a thousand connections that ended at once take their time where the machine is busy.
    wait_for(lambda: is_at_rest(state(target)) and state(target)["threads"] < 20, 60, "rest")
    # A second after the last request the server gives back what the heap has kept.
    time.sleep(4)
    return state(target)


def ledger_of(target):
    """KiB by what they are held for, those of keys and values reserved ones."""
    text = target.get("/metrics")[2].decode()
    return {part: int(number) >> 10 for part, number in re.findall(r'mlxserve_memory_bytes{part="(\w+)"} (\d+)', text)}


def mappings_of(server):
    """KiB that no file stands behind, by mapping: the largest ones, so that a step can be told where it is."""
    held, name = Counter(), ""
    for line in pathlib.Path(f"/proc/{server.process.pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            start, end = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            name = line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) > 5 else f"{(end - start) >> 10} KiB"
        elif line.startswith("Anonymous:"):
            held[name.rpartition("/")[2]] += int(line.split()[1])
    return dict(held.most_common(8))


def verdicts(before, after, done, problems, times, arguments):
    """What is wrong, in words."""
    found = list(problems)
    growth = after["rss"] - before["rss"]
    if growth >= before["rss"] * arguments.growth / 100 or growth >= done << 10:
        found.append(f"memory grew by {growth >> 10} KiB from {before['rss'] >> 10} KiB")
    for name in ("fds", "threads"):
        if after[name] > before[name] + 2:
            found.append(f"{name} grew from {before[name]} to {after[name]}")
    if after["kv_pages_used"] != after["kv_pages_cached"]:
        found.append(f"KV blocks are lost: {after}")
    p99 = times[len(times) * 99 // 100]
    if p99 > arguments.health_ms / 1000:
        found.append(f"p99 of /health is {p99 * 1000:.1f} ms")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--health-ms", type=float, default=50)
    parser.add_argument("--growth", type=float, default=1, help="of memory, percent; sanitizers keep more")
    parser.add_argument("--warm-up", type=int, help=f"requests; {WARM_UP}, or a quarter of the requests if that is more")
    parser.add_argument("--pause", type=float, default=0, help="seconds between a client's requests, on average: a load that "
                        "does not fill a machine on which others work")
    parser.add_argument("--threads", type=int, help="of the server that compute; fewer where others use the machine too")
    arguments = parser.parse_args()
    if arguments.warm_up is None:
        arguments.warm_up = max(WARM_UP, arguments.requests // 4)
    folder = tempfile.TemporaryDirectory()
    server = Server(arguments.binary, "--model", str(ENCODER), "--state-dir", folder.name, "--test-hooks", "--max-connections",
                    str(arguments.idle + arguments.clients + 200), "--log-level", "error", "--store-responses", "50", *(["--threads", str(arguments.threads)] if arguments.threads else []))
    target = Target(server.host, server.port, server.model)
    try:
        expected = {name: comparable(path, *exchange(target, encode(path, content, "Connection: close"))[::2])
                    for name, (path, content) in requests_of(target).items()}
        fill(target)
        load(target, expected, arguments, 10_000, arguments.warm_up, time.monotonic() + 600, 0)
        before = after = rest_of(target)
        print("after the warm-up:", json.dumps(before), json.dumps(ledger_of(target)),
              json.dumps(mappings_of(server)), flush=True)
        counts, problems, times, opened, refused, seconds = Counter(), [], [], 0, 0, 0.0
        for quarter in range(QUARTERS):
            start = time.monotonic()
            more = load(target, expected, arguments, arguments.seed + 10 * quarter, arguments.requests // QUARTERS,
                        start + arguments.minutes * 60 / QUARTERS, arguments.pause)
            seconds += time.monotonic() - start
            counts, problems, times = counts + more[0], problems + more[1], times + more[2]
            opened, refused = opened + more[3], refused + more[4]
            after = rest_of(target)
            print(f"quarter {quarter + 1}:", json.dumps(after), json.dumps(ledger_of(target)),
                  json.dumps(mappings_of(server)), flush=True)
        times.sort()
        growth = after["rss"] - before["rss"]
        done = sum(value for name, value in counts.items() if name != "429")
        print(f"{done} requests in {seconds:.0f} s beside {arguments.idle} idle connections "
              f"({opened} opened, {refused} refused): {dict(counts)}")
        print(f"/health: {len(times)} times, p50 {times[len(times) // 2] * 1000:.1f} ms, "
              f"p99 {times[len(times) * 99 // 100] * 1000:.1f} ms, longest {times[-1] * 1000:.1f} ms")
        print(f"memory: {growth / 1024:.0f} KiB more ({100 * growth / before['rss']:.2f} %, {growth / done:.0f} bytes per "
              f"request), {after['decode_steps_total'] - before['decode_steps_total']} steps")
        wrong = verdicts(before, after, done, problems, times, arguments)
    finally:
        code = server.stop()
        folder.cleanup()
    if code != 0:
        wrong.append(f"the server ended with {code}: {server.log[-5:]}")
    for line in wrong:
        print("WRONG:", line)
    print("soak: failed" if wrong else "soak: passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
