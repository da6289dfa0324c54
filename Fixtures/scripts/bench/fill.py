"""How soon a completion in an editor begins: fill.py BINARY MODEL [TOKENS]. The model's vocabulary needs marks for it.

Behind about 2,000 cached tokens of code somebody types a line, letter by letter, each a request of its own to /infill
with a stream. The bar: the first token within two decode steps and 20 ms; where the request before is left in the middle
of a step, one step later. The step is measured before, between and after. Prints JSON; times in milliseconds."""

import json
import pathlib
import statistics
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[3] / "Tests" / "EndToEnd"
sys.path.insert(0, str(TESTS))

from server import Server  # noqa: E402

LINE = "    return value + numbers["


def code(count):
    return "".join(f"def function_{line}(value):\n    return value + {line}\n\n" for line in range(count))


def request(body):
    data = json.dumps(body).encode()
    return b"POST /infill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data


def first_piece(server, body):
    """From the first byte sent to the first token: what an editor waits for."""
    with server.connect() as connection:
        begin = time.perf_counter()
        connection.sendall(request(body))
        seen = b""
        while b"data: " not in seen:
            seen += connection.recv(1 << 16)
        return (time.perf_counter() - begin) * 1000


def typing(server, prefix, leaves=False):
    """The times of a line's letters.

    leaves: each request comes while the one of the letter before, which is left, is in the middle of a step.
    """
    def body(count):
        return {"input_prefix": prefix, "prompt": LINE[:count], "input_suffix": "\n", "n_predict": 8, "stream": True, "temperature": 0, "ignore_eos": True}

    times = []
    for count in range(1, len(LINE) + 1):
        if leaves and count > 1:
            with server.connect() as connection:
                connection.sendall(request(body(count - 1)))
                time.sleep(0.015)
        times.append(first_piece(server, body(count)))
        # As fast as people type; the request before has been left by then.
        time.sleep(0.08)
    return times[2:]


def told(times):
    return {"median": round(statistics.median(times), 1), "worst": round(max(times), 1)}


def main():
    # Without drafts: a step that verifies one gives several tokens, and a step is what is counted.
    server = Server(sys.argv[1], "--speculate", "off", model=pathlib.Path(sys.argv[2]))
    try:
        wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
        count = 10
        while len(json.loads(server.post("/tokenize", {"content": code(count)})[2])["tokens"]) < wanted:
            count += 5
        prefix = code(count)
        plain = {"input_prefix": prefix, "input_suffix": "\n", "n_predict": 32, "temperature": 0, "ignore_eos": True}
        server.post("/infill", {**plain, "n_predict": 0})
        def step():
            return json.loads(server.post("/infill", plain)[2])["timings"]["predicted_per_token_ms"]

        steps = [step()]
        alone = typing(server, prefix)
        steps.append(step())
        left = typing(server, prefix, leaves=True)
        steps.append(step())
        # A chat whose prompt is being read meanwhile.
        chat = {"model": server.model, "messages": [{"role": "user", "content": code(4 * count).replace("value", "other")}], "max_tokens": 1}
        thread = threading.Thread(target=server.post, args=("/v1/chat/completions", chat))
        thread.start()
        time.sleep(0.3)
        beside = []
        while thread.is_alive() and len(beside) < 20:
            beside.append(first_piece(server, {**plain, "prompt": LINE[: 5 + len(beside)], "stream": True, "n_predict": 2}))
        thread.join()
        middle = statistics.median(steps)
        print(json.dumps({
            "decode_steps": [round(step, 1) for step in steps], "bar": round(2 * middle + 20, 1), "first_token": told(alone),
            "bar_after_leaving": round(3 * middle + 20, 1), "first_token_after_leaving": told(left),
            "first_token_beside_a_prompt": told(beside) if beside else None}))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
