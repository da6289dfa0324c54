"""Sixty kinds of damage to a real state directory: `verify` sees each, and the server started on it heals it or tells it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from reliability.watch import wait_for
from server import ROOT, Server

ENCODER = str(ROOT / "Fixtures" / "models" / "encoder-tiny")
TEXTS = {"alps": "alps and snow", "sea": "sea and salt", "moss": "forest and moss", "sand": "desert and sand"}
MESSAGE = {"model": "demo", "max_tokens": 300, "messages": [{"role": "user", "content": "x"}]}


def started(binary, folder):
    return Server(binary, "--state-dir", str(folder), "--model", f"e={ENCODER}")


def verify(binary, folder):
    done = subprocess.run(
        [binary, "verify", "--json", "--state-dir", str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1), done
    return [each for each in json.loads(done.stdout)["checks"] if each["status"].lower() == "failed"]


def images(binary, folder):
    """Fills a state directory, kills the server while batches run, changes all that can change; what was there before, and ids."""
    s = started(binary, folder)
    client = s.client
    names = {}
    for name, text in TEXTS.items():
        names[name] = client.files.create(file=(name + ".txt", text.encode()), purpose="assistants").id
    stores = [client.vector_stores.create(name=name).id for name in ("one", "two")]
    for store in stores:
        batch = client.vector_stores.file_batches.create(store, file_ids=list(names.values()))
        wait_for(lambda: client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store).status == "completed")
    conversations = [client.conversations.create(metadata={"n": "1"}).id for _ in range(2)]
    responses = [client.responses.create(model="demo", input="hi", max_output_tokens=16).id for _ in range(2)]
    chats = [client.chat.completions.create(**{**MESSAGE, "max_tokens": 2}, store=True).id for _ in range(2)]
    lines = [
        json.dumps({"custom_id": f"r{n}", "method": "POST", "url": "/v1/chat/completions",
                    "body": {**MESSAGE, "max_tokens": 2 if n < 3 else 300, "ignore_eos": True}}) for n in range(40)]
    inputs = [client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch").id for _ in range(2)]
    batches = [
        client.batches.create(input_file_id=each, endpoint="/v1/chat/completions", completion_window="24h").id for each in inputs]
    library = folder / "library"
    wait_for(lambda: all((library / "batches" / f"{each}.output").exists() and
                         (library / "batches" / f"{each}.output").read_bytes().count(b"\n") >= 2 for each in batches))
    s.process.kill()
    s.process.wait()
    early = folder.with_name("early")
    shutil.copytree(folder, early)
    s = started(binary, folder)
    client = s.client
    client.vector_stores.update(stores[0], name="renamed")
    client.vector_stores.files.update(names["alps"], vector_store_id=stores[0], attributes={"k": "v"})
    client.conversations.update(conversations[0], metadata={"n": "2"})
    client.chat.completions.update(chats[0], metadata={"n": "2"})
    s.process.send_signal(signal.SIGKILL)
    s.process.wait()
    ids = dict(names=names, stores=stores, conversations=conversations, responses=responses, chats=chats, batches=batches)
    return early, ids


def kinds(folder, ids):
    """A file of each kind, another of its kind, and harms that change nothing that counts, or that a kill leaves too."""
    library = pathlib.Path("library")
    a, b = ids["names"]["alps"], ids["names"]["sea"]
    one, two = (library / "stores" / each for each in ids["stores"])
    index, other = ([path.relative_to(folder) for path in (folder / each).glob("index-*/*")] for each in (one, two))

    def part(paths, ending):
        return next(path for path in sorted(paths) if path.name.endswith(ending))

    def batches(store):
        return sorted(path.relative_to(folder) for path in (folder / store / "batches").iterdir())

    first, second = ids["batches"]
    torn = {"cut half", "cut last", "emptied", "missing", "flip last", "older"}
    return {
        "file record": (library / f"files/{a}.json", library / f"files/{b}.json", set()),
        "its copy": (library / f"files/{a}.copy", library / f"files/{b}.copy", set()),
        "file": (library / f"files/{a}.data", library / f"files/{b}.data", set()),
        "store record": (one / "store.json", two / "store.json", set()),
        "copy of a store": (one / "store.copy", two / "store.copy", set()),
        "entry": (one / f"entries/{a}.json", one / f"entries/{b}.json", set()),
        "batch of files": (batches(one)[0], batches(two)[0], set()),
        "manifest": (part(index, "index.json"), part(other, "index.json"), set()),
        "log": (part(index, ".log"), part(other, ".log"), set()),
        "batch": (library / f"batches/{first}.json", library / f"batches/{second}.json", set()),
        "requests": (library / f"batches/{first}.requests", library / f"batches/{second}.requests", {"cut last"}),
        "running answers": (library / f"batches/{first}.output", library / f"batches/{second}.output", torn),
        "response": tuple(pathlib.Path(f"responses/{each}.record") for each in ids["responses"]) + (set(),),
        "conversation": tuple(pathlib.Path(f"conversations/{each}.record") for each in ids["conversations"]) + (set(),),
        "chat": tuple(pathlib.Path(f"completions/{each}.record") for each in ids["chats"]) + (set(),),
        "inventory": (library / "inventory", pathlib.Path("responses/inventory"), {"cut last", "flip last"}),
    }


def flipped(bytes_, place):
    return bytes_[:place] + bytes([bytes_[place] ^ 1]) + bytes_[place + 1:]


def harms(bytes_, sibling, early):
    yield "flip first", flipped(bytes_, 0)
    yield "flip middle", flipped(bytes_, len(bytes_) // 2)
    yield "flip last", flipped(bytes_, len(bytes_) - 1)
    yield "cut half", bytes_[: len(bytes_) // 2]
    yield "cut last", bytes_[:-1]
    yield "emptied", b""
    yield "garbage", bytes((37 * n + 11) % 256 for n in range(len(bytes_)))
    yield "missing", None
    yield "another's", sibling
    yield "older", early


def test_sixty_kinds_of_damage_to_a_state_directory(s, every=5):
    with tempfile.TemporaryDirectory() as base:
        folder = pathlib.Path(base) / "state"
        early, ids = images(s.binary, folder)
        assert verify(s.binary, folder) == []
        image = folder.with_name("image")
        shutil.copytree(folder, image)
        seen = tried = starts = 0
        for kind, (path, sibling, unseen) in kinds(folder, ids).items():
            before = (image / path).read_bytes()
            old = (early / path).read_bytes() if (early / path).exists() else before
            for harm, after in harms(before, (image / sibling).read_bytes(), old):
                if after == before:
                    continue
                tried += 1
                what = f"{kind}, {harm}"
                if after is None:
                    (folder / path).unlink()
                else:
                    (folder / path).write_bytes(after)
                faults = verify(s.binary, folder)
                seen += bool(faults)
                assert bool(faults) != (harm in unseen), (what, faults)
                if faults and (tried % every == 0 or harm in ("missing", "older")):
                    starts += 1
                    use(s.binary, folder, ids, what)
                    shutil.rmtree(folder)
                    shutil.copytree(image, folder)
                elif after is None or before != (folder / path).read_bytes():
                    shutil.copy(image / path, folder / path)
        assert seen >= 60, seen
        print(f"damage: {seen} of {tried} kinds seen, {starts} starts on it")


def use(binary, folder, ids, what):
    """A server on damage starts, tells it in its log, finds what it found or says why not, and deletes nothing that is whole."""
    kept = {name: (folder / "library" / "files" / f"{id}.data").read_bytes()
            for name, id in ids["names"].items() if (folder / "library" / "files" / f"{id}.data").exists()}
    s = started(binary, folder)
    try:
        def settled():
            return "in_progress" not in [
                each.status for store in s.client.vector_stores.list().data
                for each in s.client.vector_stores.files.list(store.id).data]
        wait_for(settled)
        # Indexes and files are read through in the background.
        wait_for(lambda: any(" error " in line for line in s.log), what=f"a line on {what}")
        time.sleep(0.2)
        wait_for(settled)
        stores = {each.id for each in s.client.vector_stores.list().data}
        assert stores == set(ids["stores"]), (what, stores)
        for store in stores:
            entries = {each.id: each for each in s.client.vector_stores.files.list(store).data}
            for name, file in ids["names"].items():
                hits = s.client.vector_stores.search(store, query=TEXTS[name], max_num_results=10).data
                if file not in [each.file_id for each in hits]:
                    assert entries[file].status == "failed" and "damaged" in entries[file].last_error.message, (what, entries)
    finally:
        s.process.kill()
        s.process.wait()
    for name, content in kept.items():
        path = folder / "library" / "files" / f"{ids['names'][name]}.data"
        assert path.exists() and path.read_bytes() == content, (what, name)
