"""Models from the hub, against a hub of this test's own: `pull`, `list`, `show`, `rm`, and names where folders go."""

import contextlib
import hashlib
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
import urllib.error
import urllib.request

from fake_hub import Hub, Repository, cut, error, git_blob, instead, moved, slowly, stall, status
from server import DEMO, Server

try:
    import huggingface_hub
except ImportError:
    huggingface_hub = None

MODEL = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.is_file() and path.name != "expected.json"}
WEIGHTS = MODEL["model.safetensors"]
STORE = "store:model.safetensors"


def demo(name="owner/demo", more=(), **options):
    return Repository(name, {**MODEL, **dict(more)}, **options)


@contextlib.contextmanager
def world(*repositories, **options):
    """A hub and an empty cache."""
    with Hub(*(repositories or (demo(),)), **options) as hub, tempfile.TemporaryDirectory() as folder:
        hub.cache = pathlib.Path(folder) / "cache"
        hub.home = pathlib.Path(folder)
        yield hub


def environment(hub, **variables):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "MLXSERVE_"))}
    return {
        **inherited, "HOME": str(hub.home), "HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(hub.cache),
        "NO_PROXY": "*", **variables}


def run(server, hub, *words, input=None, timeout=120, **variables):
    return subprocess.run(
        [server.binary, *map(str, words)], input=input, capture_output=True, text=True, timeout=timeout,
        env=environment(hub, **variables))


def pull(server, hub, *words, code=0, name="owner/demo", **variables):
    result = run(server, hub, "pull", name, *words, **variables)
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    return result


def snapshot(hub, repository=None, commit=None):
    repository = repository or next(iter(hub.repositories.values()))
    folder = hub.cache / ("models--" + repository.name.replace("/", "--"))
    return folder / "snapshots" / (commit or repository.commit)


def wait_for_part(blobs, size):
    """Until more than `size` bytes of a file have come. Small files are whole, and renamed, at any moment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in blobs.glob("*.incomplete"):
            try:
                if path.stat().st_size > size:
                    return
            except FileNotFoundError:
                pass
        time.sleep(0.02)
    raise AssertionError(f"no file has more than {size} bytes after a minute")


def check_layout(hub, repository=None, files=MODEL):
    """The snapshot has these files, each a relative link to a blob with its digest's name."""
    repository = repository or next(iter(hub.repositories.values()))
    place = snapshot(hub, repository)
    found = {str(path.relative_to(place)): path for path in place.rglob("*") if not path.is_dir()}
    assert set(found) == set(files), (set(found) ^ set(files))
    for name, path in found.items():
        data = repository.files[name]
        digest = hashlib.sha256(data).hexdigest() if repository.is_large(name) else git_blob(data)
        assert os.readlink(path) == "../" * (name.count("/") + 2) + "blobs/" + digest, os.readlink(path)
        assert path.read_bytes() == data, name
    assert not list((place.parent.parent / "blobs").glob("*.incomplete"))


def test_a_model_is_pulled_into_the_shared_cache(server):
    with world(demo(more={"pytorch_model.bin": b"x", "run.py": b"x", "onnx/model.onnx": b"x"})) as hub:
        result = pull(server, hub)
        assert result.stdout == f"{snapshot(hub)}\n", result.stdout
        check_layout(hub)
        ref = snapshot(hub).parent.parent / "refs" / "main"
        assert ref.read_bytes() == hub.repositories["owner/demo"].commit.encode()
        assert (hub.cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
        assert not (snapshot(hub).parent.parent / "trees").exists()
        # One question for the commit, one for the files, and every file once.
        assert len(hub.of("/api/")) == 2, hub.paths()
        assert len(hub.of("/resolve/")) == len(MODEL)
        assert result.stderr.count("owner/demo") > 3 and "\x1b" not in result.stderr


def test_an_embedding_model_comes_with_all_its_modules(server):
    """Pooling and dense layers are in folders of their own, and a dense layer has weights of its own."""
    place = DEMO.parent / "encoder-tiny"
    files = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != "expected.json"}
    repository = Repository("owner/encoder", {**files, "onnx/model.safetensors": b"x", "0_Other/code.py": b"x"})
    with world(repository) as hub:
        pull(server, hub, name="owner/encoder")
        check_layout(hub, files=files)
        assert "2_Dense/model.safetensors" in files
        (hub.home / "a.txt").write_text("the cat")
        vectors = run(server, hub, "embed", "owner/encoder", "the cat")
        assert vectors.returncode == 0, vectors


def test_a_model_that_is_there_costs_one_request(server):
    with world() as hub:
        pull(server, hub)
        hub.seen.clear()
        assert pull(server, hub).stdout == f"{snapshot(hub)}\n"
        assert len(hub.seen) == 1, hub.paths()


def test_a_killed_pull_goes_on_where_it_was(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 20_000, 0.02, times=1)
    with world(repository) as hub:
        process = subprocess.Popen([server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        blobs = snapshot(hub).parent.parent / "blobs"
        wait_for_part(blobs, len(WEIGHTS) / 2)
        process.kill()
        process.communicate()
        time.sleep(0.3)  # curl has noticed that nobody reads
        had = next(blobs.glob("*.incomplete")).stat().st_size
        hub.seen.clear()
        hub.sent = 0
        pull(server, hub)
        check_layout(hub)
        ranges = [seen.range for seen in hub.of("model.safetensors")]
        assert ranges == [f"bytes={had}-"] * 2, ranges
        assert hub.sent < 1.05 * (len(WEIGHTS) - had) + 200_000, hub.sent


def test_ctrl_c_keeps_what_has_come(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 10_000, 0.02, times=1)
    with world(repository) as hub:
        process = subprocess.Popen(
            [server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True)
        blobs = snapshot(hub).parent.parent / "blobs"
        wait_for_part(blobs, 50_000)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pids = children.read_text().split() if children.exists() else []
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=20)
        assert process.returncode == 130, (process.returncode, words)
        assert "the same command goes on" in words, words
        assert max(path.stat().st_size for path in blobs.glob("*.incomplete")) > 50_000
        assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        pull(server, hub)
        check_layout(hub)


def partial(hub, data):
    """What an earlier try has left of the weights."""
    blobs = snapshot(hub).parent.parent / "blobs"
    blobs.mkdir(parents=True)
    path = blobs / (hashlib.sha256(WEIGHTS).hexdigest() + ".incomplete")
    path.write_bytes(data)
    return path


def test_a_server_without_ranges_gives_the_whole_file(server):
    repository = demo()
    repository.trouble[STORE] = instead(WEIGHTS, ignores_range=True)
    with world(repository) as hub:
        partial(hub, WEIGHTS[:1_000_000])
        pull(server, hub)
        check_layout(hub)
        assert hub.of("model.safetensors")[0].range == "bytes=1000000-"


def test_partial_files_of_every_kind(server):
    for data, requests in [(WEIGHTS, 0), (WEIGHTS + b"x", 2), (b"x" * 1000, 4), (WEIGHTS[:-1] + b"?", 2)]:
        with world() as hub:
            partial(hub, data)
            result = pull(server, hub)
            check_layout(hub)
            assert len(hub.of("model.safetensors")) == requests, (len(data), hub.paths(), result.stderr)


def test_wrong_bytes_never_become_a_blob(server):
    for path, place, wrong in [
            ("model.safetensors", STORE, b"?" + WEIGHTS[1:]),
            ("tokenizer.json", "tokenizer.json", b"?" + MODEL["tokenizer.json"][1:])]:
        repository = demo()
        repository.trouble[place] = instead(wrong)
        with world(repository) as hub:
            result = pull(server, hub, code=8)
            assert path in result.stderr.splitlines()[-1], result.stderr
            assert repository.counts[place] == 2, repository.counts
            digest = repository.entry(path).get("lfs", repository.entry(path))["oid"]
            assert not (snapshot(hub).parent.parent / "blobs" / digest).exists()
            assert not snapshot(hub).exists()
        # Once is a mishap.
        repository = demo()
        repository.trouble[place] = instead(wrong, times=1)
        with world(repository) as hub:
            assert "once more" in pull(server, hub).stderr
            check_layout(hub)


def test_bodies_of_other_lengths(server):
    for wrong in (WEIGHTS[:-5], WEIGHTS + b"more"):
        repository = demo()
        repository.trouble[STORE] = instead(wrong, times=1)
        with world(repository) as hub:
            pull(server, hub)
            check_layout(hub)


def test_a_body_that_breaks_is_continued(server):
    repository = demo()
    repository.trouble[STORE] = cut_ranges(3)
    with world(repository) as hub:
        pull(server, hub)
        check_layout(hub)
        starts = [int((seen.range or "bytes=0-")[6:-1]) for seen in hub.of("model.safetensors") if seen.place == "store"]
        assert starts == [0, 300_000, 600_000, 900_000], starts


def cut_ranges(times):
    return lambda handler, count: count < times and handler.give(WEIGHTS, cut=300_000)


def test_a_stall_is_given_up_and_continued(server):
    repository = demo()
    repository.trouble[STORE] = stall(WEIGHTS, 500_000, 20)
    with world(repository) as hub:
        begin = time.monotonic()
        result = pull(server, hub, HF_HUB_DOWNLOAD_TIMEOUT="2")
        assert time.monotonic() - begin < 15
        assert "nothing came" in result.stderr, result.stderr
        check_layout(hub)
        assert hub.of("model.safetensors")[-1].range == "bytes=500000-"


def test_rate_limits_are_waited_for(server):
    for headers, seconds in [({"ratelimit": '"api";r=0;t=2'}, 3), ({"retry_after": "2"}, 2), ({}, 1)]:
        repository = demo()
        repository.trouble["revision"] = status(429, times=1, **headers)
        with world(repository) as hub:
            begin = time.monotonic()
            result = pull(server, hub)
            assert time.monotonic() - begin >= seconds
            assert f"rate limited, waiting {seconds} s" in result.stderr, result.stderr
    repository = demo()
    repository.trouble["revision"] = status(429, ratelimit='"api";r=0;t=3000')
    with world(repository) as hub:
        pull(server, hub, code=6)


def test_passing_troubles_pass_and_others_end(server):
    repository = demo()
    repository.trouble["tree"] = status(503, times=2)
    repository.trouble["config.json"] = status(500, times=1)
    with world(repository) as hub:
        pull(server, hub)
        check_layout(hub)
    repository = demo()
    repository.trouble["revision"] = status(503, retry_after="0")
    with world(repository) as hub:
        result = pull(server, hub, code=6)
        assert "503" in result.stderr and len(hub.seen) == 5, (result.stderr, hub.paths())
        # Nobody listens there.
    with world() as hub:
        endpoint = hub.endpoint
    hub.cache.parent.mkdir(exist_ok=True)
    result = pull(server, hub, code=6, HF_ENDPOINT=endpoint)
    assert "refuses connections" in result.stderr, result.stderr
    shutil.rmtree(hub.cache.parent)


def test_refusals_say_what_to_do(server):
    def refused(trouble, code, *words, place="revision", **variables):
        repository = demo()
        repository.trouble[place] = trouble
        with world(repository) as hub:
            result = pull(server, hub, code=code, **variables)
            for word in words:
                assert word in result.stderr, (word, result.stderr)
            assert "hf_secret" not in result.stderr + result.stdout

    token = {"HF_TOKEN": "hf_secret"}
    refused(error(401), 2, "check the spelling", "HF_TOKEN")
    refused(error(404, "RepoNotFound"), 2, "check the spelling", **token)
    refused(error(401, "GatedRepo"), 5, "accept its terms", "HF_TOKEN")
    refused(error(403, "GatedRepo"), 5, "has not been given access", **token)
    refused(error(401, "GatedRepo"), 5, "accept its terms", place="config.json")
    refused(error(401, None, "Invalid credentials in Authorization header"), 5, "the token from HF_TOKEN", **token)
    refused(error(403, None, "Access to this resource is disabled."), 2, "disabled")
    refused(error(403, None, "no scope\x1b[31m"), 5, "may not read", "no scope?[31m", **token)
    refused(error(404, "EntryNotFound"), 2, "has no file config.json", place="config.json")
    with world() as hub:
        result = pull(server, hub, "--revision", "v7", code=2)
        assert "no revision 'v7'" in result.stderr and "main" in result.stderr
        assert "check the spelling" in pull(server, hub, code=2, name="owner/nothing").stderr
        assert "OWNER/NAME" in pull(server, hub, code=2, name="nothing").stderr
        assert "cannot be used" in pull(server, hub, code=2, HF_ENDPOINT="ftp://x").stderr


def test_the_token_goes_to_the_hub_alone_and_is_seen_nowhere(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 50_000, 0.02)
    with world(repository, token="hf_secret") as hub:
        process = subprocess.Popen(
            [server.binary, "pull", "owner/demo"], env=environment(hub, HF_TOKEN=" hf_secret\n"), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        seen = []
        while process.poll() is None:
            for place in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    line = (place / "cmdline").read_bytes()
                    if b"curl" in line:
                        seen.append(line + (place / "environ").read_bytes())
            time.sleep(0.02)
        out, words = process.communicate()
        assert process.returncode == 0, words
        assert seen and not [line for line in seen if b"hf_secret" in line or b"signature" in line], seen
        assert "hf_secret" not in out + words
        assert {seen.token for seen in hub.seen if seen.place == "hub"} == {"Bearer hf_secret"}
        assert {seen.token for seen in hub.seen if seen.place == "store"} == {None}
        # A file is less than a variable, and more is a file that was named.
        (hub.home / ".cache" / "huggingface").mkdir(parents=True)
        (hub.home / ".cache" / "huggingface" / "token").write_text("hf_secret\nmore\n")
        (hub.home / "other").write_text("hf_other")
        (hub.home / ".cache" / "huggingface" / "token").chmod(0o600)
        pull(server, hub)
        pull(server, hub, code=5, HF_TOKEN="hf_wrong")
        assert "--token-file" in pull(server, hub, "--token-file", hub.home / "other", code=5, HF_TOKEN="hf_secret").stderr
        hub.seen.clear()
        pull(server, hub, HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        assert hub.seen[0].token is None


def test_redirects_that_are_not_followed(server):
    for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", "/owner/demo/resolve/loop", "relative"):
        repository = demo()
        repository.trouble["config.json"] = moved(location)
        if location.startswith("/"):
            repository.trouble["config.json"] = lambda handler, count: handler.answer(
                302, location=handler.path, x_repo_commit="0" * 40)
        with world(repository) as hub:
            result = pull(server, hub, code=6)
            assert "leads elsewhere" in result.stderr, result.stderr
            assert repository.counts["config.json"] <= 6


def test_settings_of_curl_have_no_effect(server):
    with world() as hub:
        (hub.home / ".curlrc").write_text("location-trusted\noutput=/dev/null\nproxy=http://127.0.0.1:9\n")
        pull(server, hub)
        check_layout(hub)


def test_a_token_is_not_sent_in_the_clear(server):
    with world() as hub:
        result = pull(
            server, hub, code=2, HF_TOKEN="hf_secret", HF_ENDPOINT="http://hub.invalid", HTTP_PROXY=hub.endpoint,
            http_proxy=hub.endpoint, NO_PROXY="", no_proxy="")
        assert "the token is not sent" in result.stderr, result.stderr
        assert not [seen for seen in hub.seen if seen.token], hub.seen


def test_names_that_lead_elsewhere_are_refused(server):
    for name in ("../x.json", "/etc/x", "a/../../x", "C:\\x", "\\\\h\\s", "a\0b", "x" * 300):
        with world(demo(more={name: b"evil"})) as hub:
            result = pull(server, hub, "--all-files", code=2)
            assert "leads elsewhere" in result.stderr, result.stderr
            assert not hub.of("/resolve/")
    # A link that somebody has put into the cache.
    with world(demo(more={"sub/x.json": b"evil"})) as hub, tempfile.TemporaryDirectory() as outside:
        snapshot(hub).mkdir(parents=True)
        (snapshot(hub) / "sub").symlink_to(outside)
        pull(server, hub, "--all-files", code=2)
        assert not list(pathlib.Path(outside).iterdir())


def test_strange_names_in_many_pages(server):
    strange = {name: name.encode() for name in ("a b.json", "a#b.json", "a?b.json", "a%41.json", "東京/größe.json", "[x]{y}.json")}
    many = {f"part/{index}.txt": b"%d" % index for index in range(30)}
    with world(demo(more={**strange, **many}), page=2) as hub:
        hub.page_origin = "https://hub.invalid"
        pull(server, hub, "--all-files")
        check_layout(hub, files={**MODEL, **strange, **many})
    with world(demo(more={f"x{index}.txt": b"" for index in range(1500)})) as hub:
        pull(server, hub)
        assert len(hub.of("/api/")) == 3
        check_layout(hub)


def test_two_pulls_at_once_fetch_everything_once(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 50_000, 0.02)
    with world(repository) as hub:
        both = [
            subprocess.Popen([server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
        words = [process.communicate(timeout=60)[1] for process in both]
        assert [process.returncode for process in both] == [0, 0], words
        check_layout(hub)
        assert len([seen for seen in hub.of("model.safetensors") if seen.place == "store"]) == 1
        assert any("another download" in text for text in words), words


def test_what_is_pulled_serves_the_hubs_own_tools(server):
    if not huggingface_hub:
        return "SKIPPED: there is no huggingface_hub"
    with world(demo(more={"pytorch_model.bin": b"x"})) as hub:
        folder = pull(server, hub).stdout.strip()
        script = """
import os, huggingface_hub as h
place = h.snapshot_download("owner/demo")
assert place == os.environ["FOLDER"], place
assert h.hf_hub_download("owner/demo", "config.json") == os.path.join(place, "config.json")
cache = h.scan_cache_dir()
assert not cache.warnings, cache.warnings
assert [repo.repo_id for repo in cache.repos] == ["owner/demo"], cache
"""
        python(hub, script, FOLDER=folder, HF_HUB_OFFLINE="1")
        # On line it asks, and fetches what no server needs; nothing twice.
        hub.seen.clear()
        python(hub, 'import huggingface_hub as h; h.snapshot_download("owner/demo", allow_patterns=["*.json", "*.safetensors"])')
        assert not [seen for seen in hub.seen if seen.method == "GET" and "/resolve/" in seen.path], hub.paths()


def python(hub, script, code=0, **variables):
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment(hub, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", **variables),
        capture_output=True, text=True, timeout=120)
    assert result.returncode == code, result.stderr
    return result


def test_what_the_hubs_own_tools_fetched_is_served(server):
    if not huggingface_hub:
        return "SKIPPED: there is no huggingface_hub"
    with world() as hub:
        python(hub, 'import huggingface_hub as h; h.snapshot_download("owner/demo")')
        hub.seen.clear()
        result = run(server, hub, "chat", "--model", "owner/demo", "--max-tokens", "8", "--no-thinking", input="Hello\n")
        assert result.returncode == 0 and result.stdout.strip(), result
        assert not hub.seen, hub.paths()
        # A pull finds it whole: what the commit has, those tools wrote down.
        assert pull(server, hub).stdout.strip() == str(snapshot(hub))
        assert len(hub.seen) == 1, hub.paths()
        listed = json.loads(run(server, hub, "list", "--json").stdout)
        assert [entry["state"] for entry in listed] == ["ready"], listed
        # Its name is there before its files.
        (snapshot(hub) / "model.safetensors").unlink()
        next(iter((snapshot(hub).parent.parent / "blobs").glob("?" * 64))).unlink()
        listed = json.loads(run(server, hub, "list", "--json").stdout)
        assert listed[0]["state"].startswith("partial"), listed
        pull(server, hub)
        check_layout(hub)


def test_both_may_run_at_once(server):
    if not huggingface_hub:
        return "SKIPPED: there is no huggingface_hub"
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 50_000, 0.02)
    with world(repository) as hub:
        process = subprocess.Popen([server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        python(hub, 'import huggingface_hub as h; h.snapshot_download("owner/demo")')
        process.communicate(timeout=60)
        assert process.returncode == 0
        blobs = [path for path in (snapshot(hub).parent.parent / "blobs").iterdir()]
        assert len(blobs) == len(MODEL), blobs


def test_revisions_have_names(server):
    repository = demo()
    repository.revisions["v1"] = repository.revisions["refs/pr/1"] = repository.commit
    with world(repository) as hub:
        refs = snapshot(hub).parent.parent / "refs"
        pull(server, hub, "--revision", repository.commit)
        assert not [seen for seen in hub.seen if "/revision/" in seen.path]
        assert not list(refs.iterdir())
        pull(server, hub, name=f"owner/demo@{repository.commit[:8]}")
        assert not list(refs.iterdir())
        pull(server, hub, name="owner/demo:v1")
        pull(server, hub, "--revision", "refs/pr/1")
        assert (refs / "v1").read_text() == (refs / "refs" / "pr" / "1").read_text() == repository.commit
        assert any(seen.path.endswith("/revision/refs%2Fpr%2F1") for seen in hub.seen)


def test_a_branch_that_has_moved(server):
    old, new = demo(), demo(more={"chat_template.jinja": b"{{ messages }}"})
    with world(old) as hub:
        pull(server, hub)
        hub.add(new)
        hub.seen.clear()
        result = pull(server, hub)
        assert f"main moved from {old.commit[:7]}" in result.stderr and new.commit[:7] in result.stderr, result.stderr
        assert len(hub.of("/resolve/")) == 1, hub.paths()
        assert snapshot(hub, commit=old.commit).exists()
        check_layout(hub, new)


def test_offline_is_offline(server):
    with world() as hub:
        result = pull(server, hub, code=6, HF_HUB_OFFLINE="yes")
        assert "HF_HUB_OFFLINE" in result.stderr
        pull(server, hub)
        hub.seen.clear()
        assert pull(server, hub, HF_HUB_OFFLINE="1").stdout.strip() == str(snapshot(hub))
        assert pull(server, hub, TRANSFORMERS_OFFLINE="true").stdout.strip() == str(snapshot(hub))
        assert not hub.seen


def test_what_cannot_be_served_is_refused_before_its_weights(server):
    def config(**members):
        usual = {key: value for key, value in json.loads(MODEL["config.json"]).items() if not key.startswith("quant")}
        return {"config.json": json.dumps({**usual, **members}).encode()}

    others = {key: value for key, value in MODEL.items() if key != "model.safetensors"}
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}).encode()
    for files, *words in [
            ({**MODEL, **config(model_type="mamba2")}, "mamba2"),
            ({**MODEL, **config(quantization_config={"quant_method": "exl3", "bits": 4})}, "exl3"),
            ({**others, "model-Q8_0.gguf": b"x"}, "it has GGUF files: add one of its quantizations", "Q8_0"), (others, "no .safetensors"),
            ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}, "LoRA"),
            ({**others, "pytorch_model.bin": b"x"}, "pickles"),
            ({**others, "x.safetensors": b"x", "model.safetensors.index.json": index}, "model-00001-of-00002.safetensors")]:
        with world(Repository("owner/demo", files)) as hub:
            result = pull(server, hub, code=2)
            for word in words:
                assert word in result.stderr, (word, result.stderr)
            assert not hub.of("model.safetensors?"), hub.paths()
    with world(Repository("owner/demo", {**MODEL, **config(model_type="mamba2")})) as hub:
        pull(server, hub, "--force")


def halves():
    """The demo model's weights in two files of their own, by their numbers, and the names of their tensors."""
    length = int.from_bytes(WEIGHTS[:8], "little")
    header, data = json.loads(WEIGHTS[8:8 + length]), WEIGHTS[8 + length:]
    header.pop("__metadata__", None)
    names = sorted(header)
    files = {}
    for number, part in enumerate((names[:len(names) // 2], names[len(names) // 2:]), 1):
        entries, content = {}, b""
        for name in part:
            start, end = header[name]["data_offsets"]
            entries[name] = {**header[name], "data_offsets": [len(content), len(content) + end - start]}
            content += data[start:end]
        text = json.dumps(entries).encode()
        files[f"model-0000{number}-of-00002.safetensors"] = (len(text).to_bytes(8, "little") + text + content, part)
    return files


def test_an_index_gives_way_to_what_is_complete(server):
    """One rule for what is fetched, what is checked and what is loaded."""
    others = {key: value for key, value in MODEL.items() if key != "model.safetensors"}
    first, second = halves()
    parts = {name: content for name, (content, _) in halves().items()}

    def index(**tensors):
        return {"model.safetensors.index.json": json.dumps({"weight_map": tensors}).encode()}

    short = index(**{tensor: first for tensor in halves()[first][1]})
    stale = index(a="model-00001-of-00009.safetensors")
    for files, fetched, words in [
            ({**MODEL, **stale}, ["model.safetensors"], "names model-00001-of-00009.safetensors, which is not there"),
            ({**others, **parts, **stale}, [first, second], "names model-00001-of-00009.safetensors, which is not there"),
            ({**others, **parts, **short}, [first, second], f"leaves out {second}"),
            ({**others, **parts}, [first, second], None),
            ({**MODEL, "model.fp16.safetensors": b"x", "model-extra.safetensors": b"x"}, ["model.safetensors"], None)]:
        with world(Repository("owner/demo", files)) as hub:
            result = pull(server, hub)
            assert words is None or words in " ".join(result.stderr.split()), (words, result.stderr)
            assert sorted(path.name for path in snapshot(hub).glob("*.safetensors")) == fetched
            verified = run(server, hub, "verify", "--model", "owner/demo")
            assert verified.returncode == 0, verified.stdout
            assert words is None or words in " ".join(verified.stdout.split()), verified.stdout
            shown = json.loads(run(server, hub, "show", "owner/demo", "--json").stdout)
            assert shown["parameter_count"] == 3_476_864, shown
            # Without its receipt the cache is judged by the same rule.
            for receipt in (hub.cache / ".locks").glob("*/mlxserve-*.files"):
                receipt.unlink()
            assert run(server, hub, "list", "--json").stdout.count('"ready"') == 1
            assert pull(server, hub, HF_HUB_OFFLINE="1").stdout.strip() == str(snapshot(hub))
    for files, word in [({**others, first: parts[first]}, second), ({**others, first: parts[first], **stale}, "00009")]:
        with world(Repository("owner/demo", files)) as hub:
            result = pull(server, hub, code=2)
            assert word in result.stderr and "which it lacks" in result.stderr, result.stderr
            pull(server, hub, "--force")
            result = run(server, hub, "verify", "--model", snapshot(hub))
            assert result.returncode == 1 and word in result.stdout, result.stdout


def test_a_wrong_size_in_the_list_is_no_trouble_of_the_connection(server):
    """Another try would bring the same: the code is that of what is not what was published."""
    for path in ("model.safetensors", "tokenizer.json"):
        for more in (1, 1000, -1):
            repository = demo()
            usual = repository.entry

            def entry(name, usual=usual, path=path, more=more):
                found = usual(name)
                if name == path:
                    found["size"] += more
                    if "lfs" in found:
                        found["lfs"]["size"] += more
                return found

            repository.entry = entry
            with world(repository) as hub:
                result = pull(server, hub, code=8)
                assert f"{path} is not what was published, twice: it has" in result.stderr, result.stderr
                assert "cannot be reached" not in result.stderr and not snapshot(hub).exists()
                # Without the pauses of troubles that pass.
                assert len([seen for seen in hub.of(path) if seen.place == "hub"]) <= 3, hub.paths()


def test_a_cache_without_refs_is_the_same_everywhere(server):
    with world() as hub:
        pull(server, hub)
        repository = hub.cache / "models--owner--demo"
        shutil.rmtree(repository / "refs")
        for name in ("owner/demo", "owner/demo@main", "demo", repository, snapshot(hub)):
            result = run(server, hub, "verify", "--model", name, HF_HUB_OFFLINE="1")
            assert result.returncode == 0, (name, result.stdout, result.stderr)
        shown = json.loads(run(server, hub, "show", "owner/demo", "--json").stdout)
        assert shown["folder"] == str(snapshot(hub)), shown
        assert json.loads(run(server, hub, "list", "--json").stdout)[0]["state"] == "ready"
        hub.seen.clear()
        assert pull(server, hub, HF_HUB_OFFLINE="1").stdout.strip() == str(snapshot(hub)) and not hub.seen
        # A second snapshot makes it a question.
        shutil.copytree(snapshot(hub), repository / "snapshots" / ("1" * 40), symlinks=True)
        assert pull(server, hub, code=6, HF_HUB_OFFLINE="1")
        assert run(server, hub, "show", repository).returncode == 2
        assert run(server, hub, "show", "owner/demo@" + "1" * 40).returncode == 0
        # What the hub says is written down again.
        pull(server, hub)
        assert (repository / "refs" / "main").read_text() == hub.repositories["owner/demo"].commit


def test_what_is_wanted_can_be_said(server):
    more = {"original/x.bin": b"x", "onnx/a.json": b"{}", "images/cat.png": b"png"}
    with world(demo(more=more)) as hub:
        pull(server, hub, "--include", "*.json", "--exclude", "onnx/*")
        names = {path.name for path in snapshot(hub).iterdir()}
        assert names == {name for name in MODEL if name.endswith(".json")}, names
        pull(server, hub, "--all-files")
        check_layout(hub, files={**MODEL, **more})
    with world(demo(more=more)) as hub:
        folder = hub.home / "plain" / "demo"
        assert pull(server, hub, "--to", folder).stdout.strip() == str(folder)
        assert {path.name for path in folder.iterdir()} == {*MODEL, "SHA256SUMS"}
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
        result = run(server, hub, "verify", "--model", folder)
        assert result.returncode == 0 and "as published" in result.stdout, result.stdout
        assert not hub.cache.exists()
        hub.seen.clear()
        (folder / "tokenizer.json").write_bytes(b"?" * len(MODEL["tokenizer.json"]))
        pull(server, hub, "--to", folder)
        assert [seen.path.rpartition("/")[2] for seen in hub.of("/resolve/")] == ["tokenizer.json"]


def test_what_is_told_and_where(server):
    with world() as hub:
        result = pull(server, hub, "--json")
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert events[0]["event"] == "plan" and events[-1] == {"event": "done", "folder": str(snapshot(hub))}
        assert {event["path"] for event in events if event["event"] == "file"} >= {"model.safetensors"}
        assert not result.stderr, result.stderr
        assert pull(server, hub, "--quiet").stderr == ""
        error_event = json.loads(pull(server, hub, "--json", name="owner/none", code=2).stdout.splitlines()[-1])
        assert error_event["event"] == "error" and error_event["code"] == 2
    with world() as hub:
        result = pull(server, hub, "--dry-run")
        assert "owner/demo" in result.stderr and not hub.of("model.safetensors") and not snapshot(hub).exists()
        assert not hub.cache.exists()


def test_progress_never_falls_and_ends_whole(server):
    repository = demo()
    repository.trouble[STORE] = lambda handler, count: (
        cut(WEIGHTS, 900_000, 1)(handler, count) or instead(b"?" + WEIGHTS[1:], times=2)(handler, count)
        or slowly(WEIGHTS, 20_000, 0.01)(handler, count))
    with world(repository) as hub:
        events = [json.loads(line) for line in pull(server, hub, "--json").stdout.splitlines()]
        progress = [event for event in events if event["event"] == "progress"]
        done = [event["done_bytes"] for event in progress]
        assert done == sorted(done) and done[-1] == progress[-1]["total_bytes"], done
        assert len({event["total_bytes"] for event in progress}) == 1
        assert len(progress) > 5


def test_listing_and_removing(server):
    names = [f"owner/m{index}" for index in range(6)]
    with world(*(demo(name) for name in names)) as hub:
        for name in names[:3]:
            pull(server, hub, name=name)
        (hub.cache / "datasets--owner--x").mkdir()
        (hub.cache / "models--owner--broken" / "snapshots" / ("a" * 40)).mkdir(parents=True)
        (hub.cache / "models--owner--broken" / "snapshots" / ("a" * 40) / "config.json").symlink_to("nowhere")
        listed = json.loads(run(server, hub, "list", "--json").stdout)
        whole = [entry for entry in listed if entry["state"] == "ready"]
        assert [entry["name"] for entry in whole] == names[:3], listed
        assert {entry["bytes"] for entry in whole} == {sum(map(len, MODEL.values()))}
        assert run(server, hub, "rm", "owner/m0").returncode == 2
        result = run(server, hub, "rm", "owner/m0", "--yes")
        assert result.returncode == 0 and "freed" in result.stdout, result
        assert not snapshot(hub, hub.repositories["owner/m0"]).parent.parent.exists()
        assert run(server, hub, "rm", "owner/m0", "--yes").returncode == 2
        # Of a revision only what no other needs.
        old, new = demo("owner/m1"), demo("owner/m1", more={"chat_template.jinja": b"{{ messages }}"})
        hub.add(new)
        pull(server, hub, name="owner/m1")
        run(server, hub, "rm", f"owner/m1@{old.commit}", "--yes")
        check_layout(hub, new)
        blobs = list((snapshot(hub, new).parent.parent / "blobs").iterdir())
        assert len(blobs) == len(MODEL), blobs


def test_a_model_in_use_is_not_removed(server):
    with world() as hub:
        pull(server, hub)
        other = Server(server.binary, model="owner/demo", env=environment(hub))
        try:
            result = run(server, hub, "rm", "owner/demo", "--yes")
            assert result.returncode == 2 and str(other.process.pid) in result.stderr, result
            check_layout(hub)
        finally:
            other.stop()
        assert run(server, hub, "rm", "owner/demo", "--yes").returncode == 0


def test_showing_here_and_there(server):
    with world(demo(cardData={"license": "mit"})) as hub:
        result = run(server, hub, "show", "owner/demo", "--remote", "--json")
        facts = json.loads(result.stdout)
        assert facts["license"] == "mit" and facts["weight_bytes"] == len(WEIGHTS), facts
        assert len(hub.seen) <= 3, hub.paths()
        assert run(server, hub, "show", "owner/demo").returncode == 2
        pull(server, hub)
        facts = json.loads(run(server, hub, "show", "owner/demo", "--json").stdout)
        assert facts["tools"] and facts["context_tokens"] == 2048, facts
        digests = {file["path"]: file["digest"] for file in facts["files"]}
        assert digests["model.safetensors"] == hashlib.sha256(WEIGHTS).hexdigest()
        assert "tools, thinking" in run(server, hub, "show", "demo").stdout


def test_curl_is_needed(server):
    with world() as hub, tempfile.TemporaryDirectory() as folder:
        result = pull(server, hub, code=6, PATH=folder)
        assert "curl is not installed" in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr
        old = pathlib.Path(folder) / "curl"
        old.write_text("#!/bin/sh\necho 'curl 7.29.0 (x86_64)'\n")
        old.chmod(0o755)
        assert "needs curl" in pull(server, hub, code=6, PATH=folder).stderr


def test_a_login_page_is_not_the_hub(server):
    with world() as hub:
        hub.portal = True
        assert "is not the hub" in pull(server, hub, code=6).stderr


def test_modes_follow_the_umask(server):
    with world() as hub:
        result = subprocess.run(
            ["sh", "-c", f"umask 077; exec {server.binary} pull owner/demo"], env=environment(hub), capture_output=True)
        assert result.returncode == 0, result
        for path in snapshot(hub).parent.parent.rglob("*"):
            assert path.lstat().st_mode & 0o077 == 0 or path.is_symlink(), path
    with world() as hub:
        pull(server, hub)
        blob = next((snapshot(hub).parent.parent / "blobs").iterdir())
        assert blob.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_the_hub_says_is_told_once(server):
    with world(demo(gated="manual")) as hub:
        assert "is gated" in pull(server, hub).stderr
    with world() as hub:
        hub.headers = {"x_hf_warning": "old; This is old."}
        assert pull(server, hub).stderr.count("This is old.") == 1


def test_a_disk_that_is_too_small_is_found_before_the_weights(server):
    with world() as hub:
        hub.cache.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(hub.cache)]
        if subprocess.run(mount, capture_output=True).returncode:
            return "SKIPPED: no file system can be mounted here"
        try:
            result = pull(server, hub, code=7)
            assert "free" in result.stderr and str(hub.cache) in result.stderr, result.stderr
            assert not any("model.safetensors" in path for path in hub.paths()), hub.paths()
        finally:
            subprocess.run(["umount", str(hub.cache)], check=True)


def test_a_disk_that_fills_up_keeps_what_has_come(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 10_000, 0.02, times=1)
    with world(repository) as hub:
        hub.cache.mkdir(parents=True)
        # Sizes are limits: nothing of it takes memory before it is written.
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "none", str(hub.cache)], capture_output=True).returncode:
            return "SKIPPED: no file system can be mounted here"
        try:
            process = subprocess.Popen(
                [server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            blobs = snapshot(hub).parent.parent / "blobs"
            wait_for_part(blobs, 50_000)
            room = os.statvfs(hub.cache)
            used = (room.f_blocks - room.f_bfree) * room.f_frsize
            subprocess.run(["mount", "-o", f"remount,size={used + 200_000}", str(hub.cache)], check=True)
            _, words = process.communicate(timeout=60)
            assert process.returncode == 7, (process.returncode, words)
            last = words.splitlines()[-1]
            assert "room" in last or "space" in last, words
            kept = max(path.stat().st_size for path in blobs.glob("*.incomplete"))
            assert kept > 50_000, kept
            subprocess.run(["mount", "-o", "remount,size=2g", str(hub.cache)], check=True)
            pull(server, hub)
            check_layout(hub)
            assert hub.of("model.safetensors")[-1].range == f"bytes={kept}-", hub.of("model.safetensors")
        finally:
            subprocess.run(["umount", "-l", str(hub.cache)], check=True)


def test_every_exit_code_of_the_manual_is_met(server):
    manual = run_alone(server, "man").stdout.split(".SH EXIT STATUS")[1]
    codes = {}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    codes["version"] = run_alone(server, "version").returncode
    codes["health, nobody there"] = run_alone(server, "health", "--port", port).returncode
    codes["unknown flag"] = run_alone(server, "--modle").returncode
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        shutil.copytree(DEMO, model)
        other = Server(server.binary, "--weights", "mapped", model=model)
        os.truncate(model / "model.safetensors", 0)
        try:
            other.chat("Hello")
        except Exception:
            pass  # The connection ends with the process.
        codes["cut model"] = other.process.wait(60)
    with world() as hub:
        codes["offline"] = run(server, hub, "pull", "owner/demo", HF_HUB_OFFLINE="1").returncode
    for name, trouble in (("gated", error(403, "GatedRepo")), ("damaged", None)):
        repository = demo()
        repository.trouble["revision" if trouble else STORE] = trouble or instead(b"?" + WEIGHTS[1:])
        with world(repository) as hub:
            codes[name] = run(server, hub, "pull", "owner/demo").returncode
    for number in (signal.SIGINT, signal.SIGTERM):
        repository = demo()
        repository.trouble[STORE] = stall(WEIGHTS, 500_000, 20)
        with world(repository) as hub:
            process = subprocess.Popen([server.binary, "pull", "owner/demo"], env=environment(hub), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not any(seen.place == "store" for seen in list(hub.seen)):
                time.sleep(0.02)
            process.send_signal(number)
            codes[number.name] = process.wait(30)
    with world() as hub:
        hub.cache.mkdir(parents=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(hub.cache)], capture_output=True).returncode == 0:
            codes["no room"] = run(server, hub, "pull", "owner/demo").returncode
            subprocess.run(["umount", str(hub.cache)], check=True)
    wanted = {"version": 0, "health, nobody there": 1, "unknown flag": 2, "cut model": 3, "gated": 5, "offline": 6, "no room": 7, "damaged": 8,
              "SIGINT": 130, "SIGTERM": 143}
    assert codes == {name: code for name, code in wanted.items() if name in codes}, codes
    assert set(wanted.values()) == {int(code) for code in re.findall(r"^\.B (\d+)$", manual, re.MULTILINE)}, manual
    return None if "no room" in codes else "SKIPPED for 7: no file system can be mounted here"


def run_alone(server, *words):
    return subprocess.run([server.binary, *map(str, words)], capture_output=True, text=True, timeout=60)


def test_a_cache_that_can_only_be_read(server):
    with world() as hub:
        pull(server, hub)
        for path in sorted(hub.cache.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o555)
        try:
            assert pull(server, hub).stdout.strip() == str(snapshot(hub))
            result = run(server, hub, "chat", "--model", "owner/demo", "--max-tokens", "8", input="Hello\n")
            assert result.returncode == 0, result.stderr
        finally:
            for path in hub.cache.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)


def test_a_name_is_a_model_wherever_a_folder_is(server):
    with world() as hub:
        result = run(server, hub, "verify", "--model", "owner/demo")
        assert result.returncode == 0 and "This model can be served" in result.stdout, result
        other = Server(server.binary, model="mine=owner/demo", env=environment(hub))
        try:
            assert other.model == "mine"
            assert other.chat("Hello", max_tokens=2).choices[0].message
        finally:
            assert other.stop() == 0
        result = run(server, hub, "chat", "--model", "owner/none")
        assert result.returncode == 2 and "check the spelling" in result.stderr
        result = run(server, hub, "chat", "--model", "./owner/demo")
        assert result.returncode == 2 and "model folder" in result.stderr


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    except OSError:
        return None, None


def test_serve_fetches_a_model_first_and_tells_clients_how_far_it_is(server):
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 20_000, 0.03)
    with world(repository) as hub:
        port = free_port()
        process = subprocess.Popen(
            [server.binary, "--model", "owner/demo", "--port", str(port)], env=environment(hub), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            answers, until = [], time.monotonic() + 60
            while not answers or answers[-1][0] != 200:
                assert time.monotonic() < until and process.poll() is None, answers
                answers.append(ask(port, "/health"))
                time.sleep(0.1)
            waiting = [body["error"] for status, body in answers if status == 503]
            assert any(error["code"] == "downloading" and "%" in error["message"] for error in waiting), waiting
            assert process.stdout.readline().startswith("mlxserve listening on ")
        finally:
            process.terminate()
            process.communicate(timeout=30)
        check_layout(hub)
        # It is a model like any other that is not there.
        result = run(server, hub, "--model", "owner/none", "--port", "0")
        assert result.returncode == 2 and "check the spelling" in result.stderr, result


def test_short_names(server):
    with world(demo("mlx-community/Qwen3-0.6B-4bit")) as hub:
        assert "mlx-community/Qwen3-0.6B-4bit" in pull(server, hub, name="qwen3:0.6b").stderr
        listed = json.loads(run(server, hub, "models", "0.6b", "--json").stdout)
        assert [(entry["name"], entry["here"]) for entry in listed] == [("qwen3:0.6b", True), ("qwen3-embedding:0.6b", False)], listed
        result = pull(server, hub, name="qwen4:0.6b", code=2)
        assert "did you mean qwen3:0.6b" in result.stderr, result.stderr
        assert run(server, hub, "list", "--names").stdout == "mlx-community/Qwen3-0.6B-4bit\n"


def test_clients_may_have_a_model_fetched_where_that_is_allowed(server):
    assert server.post("/models/pull", {"model": "owner/demo"})[0] == 403
    repository = demo()
    repository.trouble[STORE] = slowly(WEIGHTS, 20_000, 0.01)
    with world(repository) as hub:
        other = Server(server.binary, "--allow-pull", env=environment(hub))
        try:
            assert other.post("/models/pull", {"model": "a/b/c"})[0] == 400
            status, headers, body = other.post("/models/pull", {"model": "owner/demo"})
            assert status == 200 and headers["content-type"].startswith("text/event-stream"), headers
            events = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
            assert events[0]["event"] == "plan" and events[-1]["event"] == "done", events
            assert any(event["event"] == "progress" for event in events), events
            assert "owner/demo" in [model.id for model in other.client.models.list()]
            answer = other.client.chat.completions.create(
                model="owner/demo", messages=[{"role": "user", "content": "Hello"}], max_tokens=4)
            assert answer.model == "owner/demo"
            body = other.post("/models/pull", {"model": "owner/none"})[2].decode()
            assert "check the spelling" in body, body
        finally:
            other.stop()
