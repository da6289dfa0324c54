"""The command line as scripts and people use it: what it prints where, and the exit codes."""

import fcntl
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

from reliability import operating_system_test
from server import DEMO, ROOT, Server


def run(server, *arguments, input="", timeout=120):
    return subprocess.run(
        [server.binary, *map(str, arguments)], input=input, capture_output=True, text=True, timeout=timeout)


def refused(server, model, *words, flags=()):
    """The server does not start with this folder: one line on stderr, nothing on stdout, exit code 2."""
    result = run(server, "--model", model, "--port", 0, *flags)
    lines = result.stderr.strip().splitlines()
    assert result.returncode == 2, result
    assert result.stdout == "", result.stdout
    assert len(lines) == 1, lines
    assert lines[0].startswith("mlxserve: "), lines
    for word in words:
        assert str(word) in lines[0], f"{word!r} is not in {lines[0]!r}"


def copy_of_demo(folder):
    target = pathlib.Path(folder) / "copy"
    shutil.copytree(DEMO, target)
    return target


def test_usage_errors_end_with_2_and_say_what_was_meant(server):
    result = run(server, "--modle", "x")
    assert result.returncode == 2 and "did you mean '--model'" in result.stderr, result
    assert run(server, "serv").returncode == 2
    result = run(server, DEMO)
    assert result.returncode == 2 and f"did you mean 'serve {DEMO}'" in result.stderr, result
    assert run(server).returncode == 2
    with tempfile.TemporaryDirectory() as empty:
        result = run(server, "--port", "0", "--cache-dir", empty)
        assert result.returncode == 2 and "there is no model here yet" in result.stderr, result
    assert run(server, "--model", DEMO, "--port", "70000").returncode == 2
    for words, said, advice in (
        (["search", "/tmp", ""], "say what to look for", "Try 'mlxserve search --help'."),
        (["search"], "name a folder and say what to look for", "Try 'mlxserve search --help'."),
        (["bench"], "name a model: a folder, a short name such as qwen3:0.6b", "Try 'mlxserve bench --help'."),
        (["verify", DEMO, DEMO], "unexpected argument", "Try 'mlxserve verify --help'."),
        (["show", "qwen3:0.6b", "--cache-dir", "/tmp/none"], "'mlxserve pull qwen3:0.6b' downloads it", "show --help'."),
    ):
        result = run(server, *words)
        assert result.returncode == 2 and said in result.stderr and advice in result.stderr, (words, result)


def test_a_model_is_named_by_the_first_word(server):
    for words in (["run", DEMO, "-p", "Say hello.", "--max-tokens", "2"], ["run", "-m", DEMO, "Say", "hello.", "--max-tokens", "2"],
                  ["embed", ROOT / "Fixtures/models/encoder-tiny", "a text"], ["verify", DEMO], ["show", DEMO],
                  ["bench", DEMO, "--prompt-tokens", "8", "--generate-tokens", "2", "--depth", "0", "--repetitions", "1"]):
        result = run(server, *words)
        assert result.returncode == 0 and result.stdout, (words, result)
    with Server(server.binary, model=None, words=[DEMO]) as other:
        assert other.chat("Hello", max_tokens=2).choices[0].message.content


def test_without_a_name_the_cache_is_used(server):
    with tempfile.TemporaryDirectory() as cache:
        cached(cache, "mlx-community", "one")
        # One: it is taken. Several: they are told.
        result = run(server, "run", "--cache-dir", cache, "-p", "Say hello.", "--max-tokens", "2")
        assert result.returncode == 0 and "model: mlx-community/one" in result.stderr, result
        assert run(server, "show", "MLX-Community/ONE", "--cache-dir", cache).returncode == 0
        cached(cache, "mlx-community", "two")
        result = run(server, "run", "--cache-dir", cache, "-p", "Say hello.")
        assert result.returncode == 2 and "name a model: mlx-community/one, mlx-community/two" in result.stderr, result
        with Server(server.binary, "--cache-dir", cache, model=None) as other:
            assert {model.id for model in other.client.models.list()} == {"mlx-community/one", "mlx-community/two"}
            answer = other.client.chat.completions.create(
                model="mlx-community/two", messages=[{"role": "user", "content": "Hello"}], max_tokens=2)
            assert answer.model == "mlx-community/two" and answer.usage.completion_tokens == 2


def cached(cache, owner, name):
    """The demo model in a cache of the hub's form."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    base = pathlib.Path(cache) / f"models--{owner}--{name}"
    (base / "refs").mkdir(parents=True)
    (base / "refs" / "main").write_text(commit)
    shutil.copytree(DEMO, base / "snapshots" / commit)


def test_help_and_version_are_on_stdout(server):
    for arguments in (["--help"], ["serve", "--help"], ["chat", "-h"], ["bench", "--help"], ["help", "bench"]):
        result = run(server, *arguments)
        assert result.returncode == 0 and "mlxserve" in result.stdout and result.stderr == "", result
    assert "--max-stall" not in run(server, "serve", "--help").stdout
    assert "--max-stall" in run(server, "serve", "--help", "--all").stdout
    assert run(server, "-v").stdout == run(server, "--version").stdout
    lines = run(server, "--version").stdout.splitlines()
    assert re.fullmatch(r"mlxserve \d+\.\d+\.\d+", lines[0]) and "kernels: portable" in lines[2], lines
    assert json.loads(run(server, "version", "--json").stdout)["version"] == lines[0].split()[1]


def test_a_folder_that_is_no_model_is_refused_in_one_line(server):
    with tempfile.TemporaryDirectory() as folder:
        refused(server, pathlib.Path(folder) / "missing", "missing")
        refused(server, folder, "config.json")
        model = copy_of_demo(folder)
        (model / "model.safetensors").unlink()
        refused(server, model, "safetensors")


def test_models_are_found_where_people_have_them(server):
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        snapshot = home / "models--owner--demo" / "snapshots" / "0123abcd"
        shutil.copytree(DEMO, snapshot)
        refs = home / "models--owner--demo" / "refs"
        refs.mkdir()
        (refs / "main").write_text("0123abcd")
        for path in ("~/models--owner--demo", str(snapshot.parent.parent), str(snapshot)):
            result = subprocess.run(
                [server.binary, "verify", "--model", path], env={**os.environ, "HOME": folder}, capture_output=True,
                text=True, timeout=120)
            assert result.returncode == 0 and "sample texts come back" in result.stdout, result


def test_names_do_not_steer_a_terminal(server):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "ev\u202eil\u009b31m\x1b[2J"
        shutil.copytree(DEMO, place)
        for words, code in ((["verify", "--model", place], 0), (["show", place], 0), (["config", "--model", place], 0),
                            (["serve", "--model", place / "x"], 2), (["serve", "--state-dir", place / "config.json", "--model",
                                                                      place, "--port", "0"], 2),
                            (["se\u202e\x1b"], 2), (["serve", "--fl\u009bag"], 2),
                            (["embed", "--model", place, "x"], 2)):
            result = run(server, *words)
            assert result.returncode == code, (words, result)
            shown = result.stdout + result.stderr
            assert shown and not [c for c in shown if c in "\u202e\u009b\x1b"], (words, shown)


def test_foreign_formats_are_named(server):
    with tempfile.TemporaryDirectory() as folder:
        gguf = pathlib.Path(folder) / "model.gguf"
        gguf.write_bytes(b"GGUF" + struct.pack("<I", 3) + bytes(64))
        refused(server, gguf, "GGUF")
        refused(server, folder, "GGUF")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text('{"model_type": "llama"}')
        (pathlib.Path(folder) / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(64))
        refused(server, folder, "PyTorch")


def test_a_truncated_shard_is_refused_by_name(server):
    with tempfile.TemporaryDirectory() as folder:
        model = copy_of_demo(folder)
        weights = model / "model.safetensors"
        os.truncate(weights, weights.stat().st_size // 2)
        refused(server, model, "model.safetensors")


def test_an_unknown_family_lists_what_is_supported(server):
    with tempfile.TemporaryDirectory() as folder:
        model = copy_of_demo(folder)
        config = json.loads((model / "config.json").read_text())
        config["model_type"] = "mamba9"
        (model / "config.json").write_text(json.dumps(config))
        refused(server, model, "mamba9", "llama", "qwen3", "phi3")


def test_a_wrong_config_names_tensor_and_shapes(server):
    with tempfile.TemporaryDirectory() as folder:
        model = copy_of_demo(folder)
        config = json.loads((model / "config.json").read_text())
        config["intermediate_size"] *= 2
        (model / "config.json").write_text(json.dumps(config))
        refused(server, model, "mlp.")


def test_a_context_that_cannot_be_is_refused(server):
    refused(server, DEMO, "max-context", flags=("--max-context", "1000000"))


def test_a_port_in_use_is_refused(server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(server, "--model", DEMO, "--port", port)
        assert result.returncode == 2 and result.stdout == "", result
        assert str(port) in result.stderr.strip().splitlines()[-1], result.stderr


def test_the_listening_line_is_json_when_asked(server):
    process = subprocess.Popen(
        [server.binary, "--model", str(DEMO), "--port", "0", "--json-log", "--model-id", "my/model"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = json.loads(process.stdout.readline())
    assert line["event"] == "listening" and line["model_id"] == "my/model", line
    assert line["base_url"] == f"http://{line['host']}:{line['port']}/v1", line
    process.send_signal(signal.SIGTERM)
    rest, log = process.communicate(timeout=20)
    assert process.returncode == 0 and rest == "", (process.returncode, rest)
    assert all(json.loads(entry)["event"] for entry in log.splitlines())


def test_the_log_says_where_the_page_is(server):
    for flags, has_page in ((), True), (("--no-ui",), False):
        other = Server(server.binary, *flags)
        address = f"http://127.0.0.1:{other.port}/"
        assert other.stop() == 0
        assert any("chat page" in line and line.rstrip().endswith(f"address={address}") for line in other.log) == has_page, other.log


def test_interrupt_ends_an_idle_server_with_0(server):
    other = Server(server.binary)
    other.process.send_signal(signal.SIGINT)
    assert other.process.wait(timeout=20) == 0


def test_bench_prints_one_json_object(server):
    result = run(
        server, "bench", "--model", DEMO, "--prompt-tokens", 32, "--generate-tokens", 8, "--depth", "0,64",
        "--repetitions", 1, "--json")
    assert result.returncode == 0, result
    report = json.loads(result.stdout)
    for key in ("prefill_tokens_per_second", "decode_tokens_per_second", "load_seconds", "peak_rss_bytes",
                "tokenizer_bytes_per_second", "memory_read_bytes_per_second"):
        assert report[key] > 0, (key, report)
    share = report["decode_share_of_read_loop"]
    assert 0 < share["least"] <= share["median"] <= share["largest"], report
    beside = report["decode_share_beside_forward"]
    assert beside["least"] <= beside["median"] <= beside["largest"] < 1, report
    assert [m["depth"] for m in report["measurements"] if m["phase"] == "decode"] == [0, 64]


def test_bench_prints_a_table_and_csv_and_needs_no_tokenizer(server):
    with tempfile.TemporaryDirectory() as folder:
        model = copy_of_demo(folder)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (model / name).unlink()
        flags = ("--model", model, "--prompt-tokens", 16, "--generate-tokens", 4, "--depth", 0, "--repetitions", 1)
        table = run(server, "bench", *flags)
        assert table.returncode == 0 and "of loop" in table.stdout, table
        csv = run(server, "bench", *flags, "--csv").stdout.splitlines()
        assert csv[0].startswith("phase,depth,sequences,tokens,") and len(csv) == 3, csv
        refused(server, model, "tokenizer.json")


def test_an_index_is_measured(server):
    with tempfile.TemporaryDirectory() as place:
        for first in (True, False):
            result = run(server, "bench", "--index", "10000", "--index-dir", place, "--json")
            assert result.returncode == 0, result
            report = json.loads(result.stdout)
            assert (report["add_10000_seconds"] is not None) == first and report["open_seconds"] > 0, report
            found = {search["name"]: search for search in report["searches"]}
            assert found["exact"]["recall"] == 1 and found["signs"]["recall"] >= 0.98, report
            assert all(search["queries_per_second"]["least"] > 0 for search in found.values()), report
        assert "a second" in run(server, "bench", "--index", "10000", "--index-dir", place).stdout
        assert os.listdir(place) == ["rows-10000"]


def test_an_index_that_is_measured_has_a_place_of_its_own(server):
    with tempfile.TemporaryDirectory() as place:
        bench = subprocess.Popen([server.binary, "bench", "--index", "20000"], env={**os.environ, "TMPDIR": place},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while bench.poll() is None and not os.listdir(place):
            time.sleep(0.01)
        name, = os.listdir(place)
        assert os.stat(os.path.join(place, name)).st_mode & 0o777 == 0o700
        assert re.fullmatch(r"mlxserve-temporary-\d{20,}", name), name
        assert bench.wait() == 0 and os.listdir(place) == []


def test_bench_refuses_more_than_the_context(server):
    result = run(server, "bench", "--model", DEMO, "--depth", "999999")
    assert result.returncode == 2 and "context" in result.stderr, result


def test_perplexity_prints_one_json_object_and_a_table(server):
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_text("What is the capital of France? The capital of France is Paris. " * 20)
        flags = ("perplexity", "--model", DEMO, "--text", text, "--context", 64)
        result = run(server, *flags, "--json")
        assert result.returncode == 0 and result.stderr == "", result
        report = json.loads(result.stdout)
        assert report["context"] == 64 and report["windows"] > 2, report
        assert abs(math.log(report["perplexity"]) - report["mean_nll"]) < 1e-9, report
        assert report["tokens"] > 200 and report["tokens_per_second"] > 0 and "comparison" not in report, report
        assert json.loads(run(server, *flags, "--json", "--tokens", 70).stdout)["tokens"] == 70
        table = run(server, *flags)
        assert table.returncode == 0 and f"perplexity  {report['perplexity']:.4f}" in table.stdout, table
        report = json.loads(run(server, *flags, "--compute", "exact", "--json").stdout)
        compared = run(server, *flags, "--compare", "--json")
        if "no integer kernels" in compared.stderr:
            assert compared.returncode == 2, compared
            return
        found = json.loads(compared.stdout)
        assert found["perplexity"] == report["perplexity"], found
        assert 0 < found["comparison"]["mean_kl"] <= found["comparison"]["max_kl"] < 0.1, found
        assert abs(found["comparison"]["perplexity_ratio"] - 1) < 0.02, found
        assert 0.9 < found["comparison"]["same_top_token_share"] <= 1, found


def test_perplexity_predicts_token_ids_without_a_tokenizer(server):
    with tempfile.TemporaryDirectory() as folder:
        model = copy_of_demo(folder)
        (model / "tokenizer.json").unlink()
        ids = pathlib.Path(folder) / "ids.json"
        ids.write_text(json.dumps([7, 15, 9, 7, 15, 9, 21] * 20))
        report = json.loads(run(server, "perplexity", "--model", model, "--ids", ids, "--context", 70, "--json").stdout)
        # The first token of each of the two windows is not predicted.
        assert report["tokens"] == 138 and report["windows"] == 2 and report["perplexity"] > 1, report
        for text, word in (("[1, 2.5]", "token ids"), ("[]", "token ids"), ("{", "token ids"), ("[1, 99999999]", "99999999")):
            ids.write_text(text)
            result = run(server, "perplexity", "--model", model, "--ids", ids)
            assert result.returncode == 2 and word in result.stderr and len(result.stderr.splitlines()) == 1, result
        result = run(server, "perplexity", "--model", model, "--ids", ids.with_name("none.json"))
        assert result.returncode == 2 and "none.json" in result.stderr and "token ids" not in result.stderr, result
        result = run(server, "perplexity", "--model", model, "--ids", ids, "--text", ids)
        assert result.returncode == 2 and "one of them" in result.stderr, result


def test_perplexity_says_in_one_line_what_it_cannot_use(server):
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"

        def fails(word, *flags, model=DEMO):
            result = run(server, "perplexity", "--model", model, "--text", text, *flags)
            lines = result.stderr.splitlines()
            assert result.returncode == 2 and result.stdout == "" and len(lines) == 1, result
            assert lines[0].startswith("mlxserve: ") and word in lines[0], (word, lines)

        fails("text.txt")
        text.write_bytes(b"")
        fails("empty")
        text.write_bytes(b"caf\xe9 au lait")
        fails("UTF-8")
        text.write_text("a")
        fails("at least 2")
        text.write_text("a few words")
        fails("--context 999999", "--context", 999999)
        fails("nothing to compare", "--compare", "--isa", "portable")
        model = copy_of_demo(folder)
        (model / "tokenizer.json").unlink()
        fails("tokenizer.json", model=model)
    result = run(server, "perplexity", "--model", DEMO)
    assert result.returncode == 2 and "--text is required" in result.stderr, result


def test_chat_answers_lines_from_a_pipe(server):
    result = run(
        server, "chat", "--model", DEMO, "--temperature", 0, "--no-thinking",
        input="What is the capital of France?\nWhat is the capital of Italy?\n")
    assert result.returncode == 0, result
    assert "Paris" in result.stdout and "Rome" in result.stdout, result.stdout


def test_settings_come_from_flags_variables_and_a_file(server):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mlxserve" / "config"
        path.parent.mkdir()
        path.write_text(f"port = 0\nmodel = {DEMO}\nmax-body = 5\n")
        variables = {**os.environ, "XDG_CONFIG_HOME": folder, "MLXSERVE_MAX_BODY": "6"}
        result = subprocess.run(
            [server.binary, "config", "--host", "::1"], env=variables, capture_output=True, text=True, timeout=60)
        rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
        assert rows["host"] == ["::1", "flag"] and rows["max-body"] == ["6", "MLXSERVE_MAX_BODY"], rows
        assert rows["port"] == ["0", f"{path}:1"], rows
        process = subprocess.Popen([server.binary], env=variables, stdout=subprocess.PIPE, text=True)
        try:
            assert "listening on" in process.stdout.readline()
        finally:
            process.terminate()
            process.communicate(timeout=30)
        path.write_text("prot = 1\n")
        result = subprocess.run([server.binary], env=variables, capture_output=True, text=True, timeout=60)
        assert result.returncode == 2 and f"{path}:1: there is no flag 'prot'; did you mean 'port'" in result.stderr, result
        result = subprocess.run(
            [server.binary, "--no-config", "version"], env=variables, capture_output=True, text=True, timeout=60)
        assert result.returncode == 2, result  # flags stand after the command
        assert run(server, "version", "--config", folder).returncode == 2


def test_flags_go_before_variables_variables_before_the_file_and_the_file_before_defaults(server):
    sources = {"host": ("127.0.0.2", "127.0.0.3", "127.0.0.4"), "port": ("1234", "2345", "3456"), "queue-limit": ("5", "6", "7")}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "settings"

        def shown(name, flag, variable, file):
            path.write_text(f"{name} = {file}\n" if file else "")
            words = [f"--{name}", flag] if flag else []
            variables = {"MLXSERVE_" + name.upper().replace("-", "_"): variable} if variable else {}
            result = subprocess.run(
                [server.binary, "config", "--show", "--config", path, *words], env={"HOME": folder, **variables}, capture_output=True, text=True, timeout=60)
            assert result.returncode == 0, result
            return next(line.split()[1:] for line in result.stdout.splitlines() if line.split()[:1] == [name])

        for name, (flag, variable, file) in sources.items():
            from_file, from_variable = [file, f"{path}:1"], [variable, "MLXSERVE_" + name.upper().replace("-", "_")]
            assert shown(name, flag, variable, file) == [flag, "flag"]
            assert shown(name, None, variable, file) == from_variable
            assert shown(name, None, None, file) == from_file
            assert shown(name, flag, None, file) == shown(name, flag, variable, None) == shown(name, flag, None, None) == [flag, "flag"]
            assert shown(name, None, variable, None) == from_variable
            assert shown(name, None, None, None)[-1] == "default", shown(name, None, None, None)


def test_a_health_check_needs_no_other_program(server):
    result = run(server, "health", "--port", server.port)
    assert result.returncode == 0 and result.stdout == "ready\n", result
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    gone = run(server, "health", "--port", port)
    assert gone.returncode == 1 and "nothing answers" in gone.stderr and not gone.stdout, gone
    # One that answers late, one that answers nonsense, and a server that comes to its end.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert run(server, "health", "--port", silent.getsockname()[1], "--timeout", "0.3").returncode == 1
    assert run(server, "health", "--port", "none").returncode == 2
    ending = Server(server.binary)
    with ending.connect() as connection:
        body = json.dumps({"model": ending.model, "prompt": "x", "max_tokens": 300, "ignore_eos": True, "stream": True}).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.recv(1000)
        ending.process.send_signal(signal.SIGTERM)
        late = run(server, "health", "--port", ending.port)
        assert late.returncode == 1 and not late.stdout, late
    assert ending.process.wait(40) == 0
    result = run(server, "doctor", "--port", server.port)
    assert result.returncode == 1 and "is taken" in result.stdout, result
    facts = json.loads(run(server, "doctor", "--port", port, "--json").stdout)
    assert {"processor", "memory", "disk", "curl"} <= {check["check"] for check in facts["checks"]}


def test_a_settings_file_of_another_editor_is_read_and_a_broken_one_named(server):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config"

        def shown(data):
            path.write_bytes(data)
            return run(server, "config", "--show", "--config", path)

        rows = {line.split()[0]: line.split()[1] for line in shown(b"\xef\xbb\xbfport = 1234\r\n# why\r\n\r\nmemory = 6G\r\n").stdout.splitlines()}
        assert rows["port"] == "1234" and rows["memory"] == "6G", rows
        for data, words in ((b"port = 1\nprot = 2\n", ":2: there is no flag 'prot'"), (b"port = many\n", ":1: port 'many': expected"),
                            (b"port\n", ":1:"), (b"port = \xff\n", "")):
            result = shown(data)
            assert result.returncode == 2 and result.stdout == "" and len(result.stderr.splitlines()) <= 2, result
            assert words in result.stderr.splitlines()[0], result.stderr
        for place, words in ((folder, "is not a regular file"), (f"{folder}/none", "No such file")):
            result = run(server, "config", "--show", "--config", place)
            assert result.returncode == 2 and words in result.stderr, result
        if os.geteuid():
            path.chmod(0)
            assert run(server, "config", "--show", "--config", path).returncode == 2


def on_terminal(binary, *words, width=80, **variables):
    """Everything that a command writes on a terminal of some width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**{name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CLICOLOR_FORCE")}, **variables}
    process = subprocess.Popen([binary, *map(str, words)], stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    seen = b""
    try:
        while piece := os.read(main, 1 << 16):
            seen += piece
    except OSError:
        pass  # The other side is closed.
    assert process.wait(60) == 0, seen
    os.close(main)
    return seen.decode()


def test_colours_are_for_terminals_that_have_them(server):
    """The same command in a pipe, in terminals, and where colours are not wanted."""
    words = ["run", str(server.demo), "Say **bold** words: `code`.", "--temperature", "0", "--max-tokens", "12"]
    piped = run(server, *words)
    assert "\x1b" not in piped.stdout + piped.stderr, piped
    colour = re.compile(r"\x1b\[[\d;]*m")
    assert colour.search(on_terminal(server.binary, *words, TERM="xterm-256color"))
    for variables in ({"NO_COLOR": "1", "TERM": "xterm-256color"}, {"TERM": "dumb"}):
        assert not colour.search(on_terminal(server.binary, *words, **variables)), variables
    narrow = on_terminal(server.binary, "models", width=20, TERM="xterm")
    assert "qwen3:0.6b" in narrow
    assert on_terminal(server.binary, "--help", width=20, TERM="dumb", NO_COLOR="1").count("\x1b") == 0


def test_a_command_that_needs_no_network_asks_for_none(server):
    if not shutil.which("strace"):
        return "SKIPPED: strace is not installed."
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        environment = {**os.environ, "HOME": folder}

        def calls(*words):
            command = ["strace", "-f", "-e", "trace=connect,sendto,sendmsg", "-o", trace, server.binary, *words]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            if "ptrace" in done.stderr:
                return None
            return [line for line in trace.read_text().splitlines() if re.search(r"AF_INET|\d+\.\d+\.\d+\.\d+", line)]

        for words in (["version"], ["doctor", "--port", "0"], ["list"], ["models"], ["config", "--show"]):
            found = calls(*words)
            if found is None:
                return "SKIPPED: strace may not trace here."
            assert found == [], (words, found)


def test_the_doctor_names_what_is_missing(server):
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([server.binary, "doctor", "--port", "0"], env={"HOME": folder, "PATH": folder}, capture_output=True, text=True, timeout=60)
        assert result.returncode == 0 and "curl is not installed" in " ".join(result.stdout.split()), result
        assert "sk-" not in result.stdout
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        result = run(server, "doctor", "--port", listener.getsockname()[1])
        assert result.returncode == 1 and "is taken" in result.stdout, result
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True).returncode:
            missing.append("a full disk: nothing may be mounted here")
        else:
            result = run(server, "doctor", "--port", "0", "--cache-dir", folder)
            subprocess.run(["umount", folder], check=True)
            said = " ".join(result.stdout.split())
            assert result.returncode == 0 and f"free at {folder}" in said and "make room before you download" in said, result
    with operating_system_test.control_group(512) as group:
        if not group:
            missing.append("512 MB: no control group can be made here")
        else:
            command = f'echo $$ > {group}/cgroup.procs; exec "$0" doctor --port 0'
            result = subprocess.run(["sh", "-c", command, server.binary], capture_output=True, text=True, timeout=60)
            said = " ".join(result.stdout.split())
            assert result.returncode == 0 and "of which its control group leaves 512 MiB" in said, result
            assert "enough for the smallest models only" in said and "none of the usual ones fits" in said, result
    return "SKIPPED for " + ", ".join(missing) if missing else None


def test_shells_take_the_completions_and_man_the_page(server):
    bash = run(server, "completions", "bash").stdout
    script = bash + "\nCOMP_WORDS=(mlxserve serve --max-b); COMP_CWORD=2; _mlxserve; echo \"${COMPREPLY[*]}\"\n"
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split() == ["--max-body"]
    for shell, check in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
        text = run(server, "completions", shell).stdout
        assert "--max-body" in text or "-l max-body" in text
        if shutil.which(shell):
            with tempfile.NamedTemporaryFile("w", suffix="." + shell) as file:
                file.write(text)
                file.flush()
                assert subprocess.run([*check, file.name], capture_output=True).stderr == b""
    page = run(server, "man").stdout
    plain = page.replace("\\-", "-")
    commands = re.findall(r"^  ([a-z]+)  ", run(server, "--help").stdout, re.MULTILINE)
    assert {"serve", "pull", "doctor", "config"} <= set(commands), commands
    for command in commands:
        for flag in re.findall(r"^  (--[a-z][a-z-]*)", run(server, command, "--help", "--all").stdout, re.MULTILINE):
            assert f"{flag}\\fR" in plain, (command, flag)
    if shutil.which("groff"):
        result = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True)
        assert result.returncode == 0 and not result.stderr, result.stderr


def in_zsh(folder, binary, text, wanted):
    """Whether a zsh in a terminal, with the completions of a folder, shows what is wanted once this is typed."""
    process, terminal = pty.fork()
    if process == 0:
        path = f"{pathlib.Path(binary).resolve().parent}:{os.environ['PATH']}"
        os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": path, "TERM": "dumb", "HOME": folder, "PS1": "start> "})

    def is_shown(mark):
        seen, end = b"", time.monotonic() + 30
        while mark not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 1 << 16)
        return mark in seen

    try:
        os.write(terminal, f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; PS1='now''type> '\n".encode())
        # What is typed before the line editor is there is not completed.
        assert is_shown(b"nowtype> ")
        os.write(terminal, text.encode())
        return is_shown(wanted.encode())
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def test_zsh_and_fish_complete_commands_flags_and_values(server):
    cases = [("pu", "pull "), ("serve --max-b", "--max-body "), ("--hos", "--host "), ("serve --isa avx5", "avx512 "),
             ("pull --revi", "--revision ")]
    missing = [shell for shell in ("zsh", "fish") if not shutil.which(shell)]
    with tempfile.TemporaryDirectory() as folder:
        for shell, name in (("zsh", "_mlxserve"), ("fish", "mlxserve.fish")):
            (pathlib.Path(folder) / name).write_text(run(server, "completions", shell).stdout)
        for typed, wanted in cases:
            if "zsh" not in missing:
                assert in_zsh(folder, server.binary, f"mlxserve {typed}\t", f"mlxserve {typed.rsplit(' ', 1)[0]} {wanted}"
                              if " " in typed else f"mlxserve {wanted}"), typed
            if "fish" not in missing:
                script = f"source {folder}/mlxserve.fish; complete -C 'mlxserve {typed}'"
                found = subprocess.run(["fish", "-c", script], env={**os.environ, "HOME": folder}, capture_output=True, text=True).stdout
                words = [line.split("\t")[0] for line in found.splitlines()]
                assert wanted.split()[-1] in words, (typed, found)
    return f"SKIPPED for {' and '.join(missing)}, which are not installed" if missing else None


def test_run_answers_alone_into_a_pipe(server):
    words = ["run", str(server.demo), "Is the capital of France Paris? Answer Yes or No.", "--temperature", "0", "--no-thinking"]
    plain = run(server, *words)
    assert plain.returncode == 0 and plain.stdout.strip() and "\x1b" not in plain.stdout, plain
    assert "tokens/s" not in plain.stdout and ">" not in plain.stdout
    # Reasoning is not the answer.
    thinking = run(server, *words[:-1])
    assert thinking.returncode == 0 and "<think>" not in thinking.stdout, thinking
    whole = json.loads(run(server, *words, "--json").stdout)
    assert whole["content"].strip() == plain.stdout.strip() and whole["finish_reason"] == "stop", whole
    assert whole["usage"]["completion_tokens"] > 0
    # Standard input is what the prompt is about.
    piped = run(server, "run", str(server.demo), "Answer Yes or No.", *words[3:], "--json", input="Is the capital of France Paris?\n")
    # An empty line in the place of a space.
    assert 0 <= json.loads(piped.stdout)["usage"]["prompt_tokens"] - whole["usage"]["prompt_tokens"] <= 2, piped.stdout
    alone = run(server, "run", str(server.demo), *words[3:], input="Is the capital of France Paris? Answer Yes or No.\n")
    assert alone.stdout == plain.stdout
    with tempfile.TemporaryDirectory() as folder:
        schema = pathlib.Path(folder) / "schema.json"
        schema.write_text('{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"],"additionalProperties":false}')
        answer = run(server, *words, "--schema", str(schema))
        assert isinstance(json.loads(answer.stdout)["yes"], bool), answer
    refusal = run(server, "run", str(server.demo), input="")
    assert refusal.returncode == 2 and "no prompt" in refusal.stderr, refusal
    refusal = run(server, "run")
    assert refusal.returncode == 2, refusal
    picture = pathlib.Path(DEMO).parent.parent / "media" / "png-flat.png"
    refusal = run(server, "run", str(server.demo), f"describe @{picture}")
    assert refusal.returncode == 2 and "takes no images" in refusal.stderr, refusal


def test_weights_are_prepared_once(server):
    with tempfile.TemporaryDirectory() as folder:
        place = ["--prepared-dir", folder]
        result = run(server, "prepare", server.demo, *place)
        if result.returncode == 2:
            assert "nothing needs preparing" in result.stderr, result
            return "SKIPPED: the kernels of this CPU read weights as they lie in the files"
        file = pathlib.Path(result.stdout.strip())
        assert file.parent == pathlib.Path(folder).resolve() and file.stat().st_size > 1 << 20, result
        assert "prepared" in result.stderr and result.returncode == 0, result
        question = ["run", server.demo, "Is the capital of France Paris?", "--temperature", 0, "--no-thinking"]
        wanted = run(server, *question, "--weights", "mapped").stdout
        assert wanted.strip() and run(server, *question, *place).stdout == wanted
        verify = run(server, "verify", "--model", server.demo, *place)
        assert verify.returncode == 0 and "prepared weights" in verify.stdout, verify

        def change(position):
            whole = bytearray(file.read_bytes())
            whole[position] ^= 1
            file.write_bytes(whole)

        # What is damaged at its head is not used, and says so; the rest only verify reads.
        change(70)
        answer = run(server, *question, *place)
        assert answer.stdout == wanted and "damaged" in answer.stderr, answer
        change(70)
        change(-100)
        verify = run(server, "verify", "--model", server.demo, *place)
        assert verify.returncode == 1 and "--remove" in verify.stdout, verify
        freed = run(server, "prepare", server.demo, *place, "--remove")
        assert freed.returncode == 0 and "freed" in freed.stdout and not file.exists(), freed
        assert "nothing was prepared" in run(server, "prepare", server.demo, *place, "--remove").stdout
        small = run(server, "prepare", server.demo, *place, "--prepared-dir-size", 1)
        assert small.returncode == 2 and "--prepared-dir-size" in small.stderr, small
        assert [name for name in os.listdir(folder) if name != "lock"] == []


def test_mistyped_commands_get_a_hint(server):
    for typed, meant in (("serv", "serve"), ("pul", "pull"), ("delete", "rm"), ("prompt", "run"), ("lst", "list")):
        result = run(server, typed)
        assert result.returncode == 2 and f"did you mean '{meant}'?" in result.stderr, result
    result = run(server, "help", "nonsense")
    assert result.returncode == 2 and "unknown command 'nonsense'" in result.stderr and result.stdout == "", result
    assert "did you mean 'chat'?" in run(server, "help", "chta").stderr
    assert run(server, "help", "run").stdout.count("--json") == 1


class Terminal:
    """A program on a pseudo terminal: keys in, everything that it wrote out."""

    def __init__(self, *words, columns=60, **variables):
        self.process, self.seen = None, ""
        pid, self.descriptor = pty.fork()
        if pid == 0:
            os.environ.update(variables)
            os.execv(words[0], list(words))
        self.pid = pid
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def expect(self, text, seconds=60):
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen[-2000:])
            if select.select([self.descriptor], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.descriptor, 65536).decode(errors="replace")
                except OSError:
                    assert text in self.seen, (text, self.seen[-2000:])
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def end(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        return code


def test_only_typed_words_name_files(server):
    """A diff, a mail and a secret path in a pipe are data; an argument that is a file is read."""
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret.txt"
        secret.write_text("quartz " * 100)

        def tokens(words, piped):
            answer = run(server, "run", server.demo, words, "--max-tokens", 1, "--json", input=piped)
            assert answer.returncode == 0, answer
            return json.loads(answer.stdout)["usage"]["prompt_tokens"], answer.stderr

        diff = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@ def f():\n-    @cache\n+    @property\n"
        assert 20 < tokens("Explain.", diff)[0] < 300
        plain, named = tokens("Repeat.", "of some text\n")[0], tokens("Repeat.", f"@{secret}\n")[0]
        assert abs(named - plain) < 60 < tokens(f"Repeat. @{secret}", "of some text\n")[0] - plain, (plain, named)
        assert "@nobody is not a file here, so it stays text" in tokens("Ask @nobody.", "")[1]
        # Lines of a chat that come through a pipe are data, too.
        answers = run(server, "chat", server.demo, "--max-tokens", 1, input=f"@{secret}\n@/nowhere/x.png\n")
        assert answers.returncode == 0 and "cannot open" not in answers.stderr, answers


def test_a_paste_names_no_file(server):
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret.txt"
        secret.write_text("quartz")
        chat = Terminal(os.path.abspath(server.binary), "chat", str(server.demo), "--max-tokens", "2", columns=200,
                        TERM="xterm-256color", XDG_STATE_HOME=folder)
        try:
            chat.expect(">>> ")
            paste = "\x1b[200~look:\r@app.route\r@" + str(secret) + "\x1b[201~"
            chat.type(paste + "\r")
            assert "added" not in chat.expect("tokens/s]")
            chat.expect(">>> ")
            # From the history it is what it was.
            chat.type("\x1b[A\r")
            assert "added" not in chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type(f"@nobody @\x1b[200~{secret}\x1b[201~\r")
            told = chat.expect("tokens/s]")
            assert "added secret.txt" in told and "@nobody is not a file here" in told, told
            chat.expect(">>> ")
            kept = pathlib.Path(folder) / "kept.json"
            chat.type(f"/save {kept}\r")
            chat.expect("messages to")
            said = [entry["content"] for entry in json.loads(kept.read_text())["messages"] if entry["role"] == "user"]
            assert said[0] == said[1] == f"look:\n@app.route\n@{secret}", said
            assert "quartz" in said[2] and "@nobody" in said[2], said
            chat.type("\x04")
            assert chat.end() == 0
        except BaseException:
            os.kill(chat.pid, 9)
            raise


def lines_of_progress(seen):
    """What stood in a line at some moment, without styles."""
    text = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", seen)
    return [line for line in re.split(r"[\r\n]", text) if line]


def test_progress_fits_the_terminal(server):
    """Every line that is drawn again in its place is narrower than the terminal: else each would begin another one."""
    encoder = pathlib.Path(DEMO).parent / "encoder-tiny"
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder) / "a-folder-of-notes-with-a-name-that-is-rather-long-for-a-terminal-of-forty-columns"
        notes.mkdir()
        for number in range(60):
            (notes / f"{number}.md").write_text("\n\n".join(f"note {number} {word} of a cat" for word in range(60)))
        text = notes / "0.md"
        for width in (40, 60, 80, 120):
            index = pathlib.Path(folder) / f"index-{width}"
            commands = {
                "search": ["search", notes, "cat", "--model", encoder, "--index-dir", index, "--files"],
                "perplexity": ["perplexity", "--model", DEMO, "--text", text, "--context", 32, "--tokens", 256],
            }
            for name, words in commands.items():
                lines = lines_of_progress(on_terminal(server.binary, *words, width=width, TERM="xterm"))
                drawn = [line for line in lines if " %  " in line]
                assert drawn and all(len(line) < width for line in drawn), (name, width, drawn)


def test_a_chat_is_changed_on_a_terminal(server):
    """What was said is answered again, taken back, changed; another model goes on; the next chat takes it up."""
    with tempfile.TemporaryDirectory() as folder:
        words = [os.path.abspath(server.binary), "chat", str(server.demo), "--temperature", "0", "--no-thinking",
                 "--max-tokens", "3"]
        chat = Terminal(*words, columns=100, TERM="xterm-256color", XDG_STATE_HOME=folder)

        def kept():
            return json.load(open(os.path.join(folder, "kept.json")))["messages"]

        def save():
            chat.type(f"/save {folder}/kept.json\r")
            chat.expect("messages to")
            chat.expect(">>> ")
            return kept()

        try:
            chat.expect(">>> ")
            for message in ("Say one.", "Say two."):
                chat.type(message + "\r")
                chat.expect("tokens/s]")
                chat.expect(">>> ")
            before = save()
            assert len(before) == 4
            chat.type("/regen\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            assert save() == before
            chat.type("/undo\r")
            chat.expect("Forgotten: Say two.")
            chat.expect(">>> ")
            assert save() == before[:2]
            # The last message stands in the line again, with the cursor at its end.
            chat.type("/edit\r")
            chat.expect(">>> Say one.")
            chat.type(" And three.\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type("/system Be brief.\r")
            chat.expect(">>> ")
            changed = save()
            assert [message["content"] for message in changed[:2]] == ["Be brief.", "Say one. And three."], changed
            chat.type('"""One\r')
            chat.expect("... ")
            chat.type('two"""\r')
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            assert save()[-2]["content"] == "One\ntwo"
            # Tab completes, Ctrl-R finds what was typed before.
            chat.type("/sh\t")
            chat.expect("/show")
            chat.type("\x15/se\t\x15Say tw\x12")
            chat.expect(">>> Say two.")
            chat.type("\x15")
            chat.type(f"/model {server.demo}\r")
            chat.expect("continues with demo.")
            chat.expect(">>> ")
            chat.type("/model /nowhere\r")
            chat.expect("/nowhere")
            chat.expect(">>> ")
            chat.type("Say four.\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            # What was taken back is not there when the conversation is taken up again.
            chat.type("Say five.\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type("/undo\r")
            chat.expect("Forgotten: Say five.")
            chat.expect(">>> ")
            last = save()
            chat.type("exit\r")
            assert chat.end() == 0
            place = os.path.join(folder, "mlxserve", "last-chat.json")
            assert os.stat(place).st_mode & 0o077 == 0
            chat = Terminal(*words, "--continue", columns=100, TERM="xterm-256color", XDG_STATE_HOME=folder)
            chat.expect(f"Loaded {len(last)} messages from")
            chat.expect(">>> ")
            assert save() == last
            chat.type("\x04")
            assert chat.end() == 0
        except BaseException:
            os.kill(chat.pid, 9)
            raise


def test_a_chat_on_a_terminal(server):
    with tempfile.TemporaryDirectory() as folder:
        chat = Terminal(os.path.abspath(server.binary), "chat", str(server.demo), "--temperature", "0", "--no-thinking",
                        TERM="xterm-256color", XDG_STATE_HOME=folder)
        try:
            chat.expect(">>> ")
            # Typed with a mistake, which is mended in the middle.
            chat.type("Is the capital of France Pari? Answer Yes or No." + "\x1b[D" * 19 + "s\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            # Several lines at once are one message; a control sequence in them is not obeyed.
            chat.type("\x1b[200~Is 2 + 2 = 4?\rAnswer Yes or No.\x1b[201~\r")
            chat.expect("tokens/s]")
            chat.expect(">>> ")
            chat.type("/show\r")
            shown = chat.expect("wordwrap")
            assert "messages 4" in shown, shown
            chat.expect(">>> ")
            # Ctrl-C takes back what is typed, with nothing typed it says how to leave, and the conversation stays.
            # A window that becomes narrower has the line drawn anew, broken between words.
            chat.type("several words that fit one row of sixty")
            chat.expect("of sixty")
            time.sleep(0.5)
            fcntl.ioctl(chat.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
            chat.expect(">>> several words that fit one\r\r\nrow of sixty")
            time.sleep(0.5)
            fcntl.ioctl(chat.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
            chat.expect(">>> several words that fit one row of sixty")
            chat.type("\x15nothing\x03")
            chat.expect("^C")
            chat.expect(">>> ")
            chat.type("\x03")
            chat.expect("leaves")
            chat.expect(">>> ")
            chat.type("Write a very long story about the sea.\r")
            time.sleep(1)
            chat.type("\x03")
            chat.expect(">>> ")
            path = os.path.join(folder, "kept.json")
            chat.type(f"/save {path}\r")
            chat.expect("messages to")
            kept = json.load(open(path))["messages"]
            assert kept[2]["content"] == "Is 2 + 2 = 4?\nAnswer Yes or No.", kept
            assert kept[0]["content"] == "Is the capital of France Paris? Answer Yes or No.", kept
            chat.type(f"/clear\r/load {path}\r/hlep\r")
            chat.expect(f"Loaded {len(kept)} messages from")
            chat.expect("did you mean /help?")
            # Up leads to what was typed before.
            chat.type("\x1b[A")
            chat.expect("/hlep")
            chat.type("\x15\x04")
            assert chat.end() == 0
            history = os.path.join(folder, "mlxserve", "history")
            assert os.stat(history).st_mode & 0o077 == 0, oct(os.stat(history).st_mode)
            assert "capital of France Paris" in open(history).read()
        except BaseException:
            os.kill(chat.pid, 9)
            raise
