"""Embeddings: the OpenAI SDK against tiny encoders, beside a chat model in the same process."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import threading
import time

import numpy

from openapi_test import exchange
from sdk_test import refused
from server import DEMO, ROOT, Server

ENCODER = ROOT / "Fixtures" / "models" / "encoder-tiny"
GOLDEN = json.loads((ENCODER / "expected.json").read_text())


@contextlib.contextmanager
def served(s, *flags, models=(ENCODER,)):
    named = [part for model in models[1:] for part in ("--model", str(model))]
    other = Server(s.binary, *named, *flags, model=models[0])
    try:
        yield other
    finally:
        assert other.stop() == 0, other.log[-5:]


def different(count):
    """Texts whose tokens differ: numbers of two digits are one unknown word."""
    return ["the cat sat on the " + "".join(chr(97 + i // 26**k % 26) for k in range(3)) for i in range(count)]


def vectors(server, texts, **options):
    """By the SDK's default, base64, which it cannot check strictly."""
    answer = server.lenient.embeddings.create(model="encoder-tiny", input=texts, **options)
    assert [entry.index for entry in answer.data] == list(range(len(answer.data)))
    return [entry.embedding for entry in answer.data]


def test_vectors_are_those_of_the_reference(s):
    with served(s, "--compute", "exact") as other:
        answer = other.client.embeddings.create(
            model="encoder-tiny", input=[case["text"] for case in GOLDEN["cases"]], encoding_format="float",
            extra_body={"truncate": True})
        for case, entry in zip(GOLDEN["cases"], answer.data):
            difference = numpy.array(case["embedding"]) - numpy.array(entry.embedding)
            assert abs(difference).max() < 1e-4, case["text"]
            assert abs(numpy.linalg.norm(entry.embedding) - 1) < 1e-6
        lengths = [min(case["tokens_untruncated"], GOLDEN["max_seq_length"]) for case in GOLDEN["cases"]]
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(lengths)
        cut = [i for i, case in enumerate(GOLDEN["cases"]) if case["tokens_untruncated"] > GOLDEN["max_seq_length"]]
        assert answer.truncated == cut, answer.truncated


def test_forms_of_input_and_output_agree(s):
    with served(s) as other:
        case = GOLDEN["cases"][0]
        plain = vectors(other, case["text"])
        assert vectors(other, case["input_ids"]) == plain
        assert vectors(other, [case["input_ids"]]) == plain
        body = {"model": "encoder-tiny", "input": case["text"]}
        floats = json.loads(other.post("/v1/embeddings", body)[2])["data"][0]["embedding"]
        text = json.loads(other.post("/v1/embeddings", {**body, "encoding_format": "base64"})[2])["data"][0]["embedding"]
        # The shortest digits of a float32 read back as its bits.
        assert struct.pack(f"<{len(floats)}f", *floats) == base64.b64decode(text)
        assert [numpy.float32(x) for x in plain[0]] == [numpy.float32(x) for x in floats]


def test_answers_follow_the_document(s):
    with served(s) as other:
        for path in ("/v1/embeddings", "/embeddings"):
            for options in ({}, {"encoding_format": "base64"}, {"truncate": True, "input_type": "query"}):
                assert exchange(other, "post", path, {"input": ["the cat", "mat " * 40][: len(options) or 1], **options})[0] == 200


def test_a_text_has_its_bits_alone_shuffled_and_in_any_number(s):
    texts = [case["text"] for case in GOLDEN["cases"] if case["tokens_untruncated"] <= GOLDEN["max_seq_length"]]
    for threads in ("1", "2"):
        with served(s, "--threads", threads) as other:
            alone = [vectors(other, text)[0] for text in texts]
        with served(s, "--threads", threads) as other:
            order = [i * 5 % len(texts) for i in range(64)]
            assert vectors(other, [texts[i] for i in order]) == [alone[i] for i in order]


def test_a_chat_model_and_an_encoder_in_one_process(s):
    with served(s, models=(DEMO, ENCODER)) as other:
        assert len(vectors(other, "the cat")[0]) == 16
        assert other.chat("Is the capital of France Paris? Answer Yes or No.").choices[0].message.content == "Yes"
        refused(lambda: other.client.embeddings.create(model=other.model, input="x"), 400, "model", "unsupported_operation")
        refused(
            lambda: other.client.chat.completions.create(
                model="encoder-tiny", messages=[{"role": "user", "content": "x"}]),
            400, "model", "unsupported_operation")
        tasks = {model.id: model.task for model in other.client.models.list().data}
        assert tasks == {"demo": "chat", "encoder-tiny": "embed"}, tasks
        metrics = other.get("/metrics")[2].decode()
        assert 'mlxserve_embed_texts_total{model_name="encoder-tiny"} 1' in metrics, metrics


def test_what_cannot_be_encoded_is_refused(s):
    with served(s) as other:
        def embed(text, **options):
            return lambda: other.lenient.embeddings.create(model="encoder-tiny", input=text, **options)

        long = "the cat sat on the mat " * 4
        error = refused(embed(["a", long]), 400, "input[1]", "context_length_exceeded")
        assert "24 tokens" in error.message and "has 26" in error.message, error.message
        refused(embed([]), 400, "input")
        refused(embed("a", dimensions=8), 400, "dimensions")
        refused(embed("a", dimensions=17), 400, "dimensions")
        refused(embed([10_000]), 400, "input[0]")
        refused(embed(["a"] * 2049), 400, "input")
        refused(embed("a", extra_body={"prompt_name": "nope"}), 400, "prompt_name")
        assert len(embed("a")().data) == 1
    with served(s, "--allow-truncation", "--compute", "exact") as other:
        short = vectors(other, GOLDEN["cases"][0]["text"], dimensions=8)[0]
        assert abs(numpy.array(short) - GOLDEN["cases"][0]["matryoshka"]["8"]).max() < 1e-4


def test_a_second_request_is_answered_from_memory(s):
    with served(s) as other:
        first = other.post("/v1/embeddings", {"input": "the cat"})[2]
        assert other.post("/v1/embeddings", {"input": "the cat"})[2] == first
        metrics = other.get("/metrics")[2].decode()
        assert 'mlxserve_embed_cache_hits_total{model_name="encoder-tiny"} 1' in metrics, metrics


def test_a_short_text_does_not_wait_for_thousands(s):
    with served(s, "--test-hooks", "--step-delay-ms", "20") as other:
        many = different(2048)
        begin = time.monotonic()
        seconds = []
        thread = threading.Thread(target=lambda: (other.post("/v1/embeddings", {"input": many}), seconds.append(time.monotonic() - begin)))
        thread.start()
        time.sleep(0.2)
        assert other.post("/v1/embeddings", {"input": "tarts"})[0] == 200
        short = time.monotonic() - begin
        thread.join()
        assert short < seconds[0] - 0.1, (short, seconds)
        return f"{short:.2f} s beside {seconds[0]:.2f} s"


def test_work_ends_when_the_client_leaves(s):
    with served(s, "--test-hooks", "--step-delay-ms", "20") as other:
        body = json.dumps({"input": different(2048)}).encode()
        with other.connect() as connection:
            connection.sendall(
                b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.3)
        time.sleep(0.3)

        def texts():
            line = [x for x in other.get("/metrics")[2].decode().splitlines() if x.startswith("mlxserve_embed_texts_total")]
            return int(line[0].split()[-1])

        before = texts()
        time.sleep(0.3)
        assert 0 < texts() == before < 2048, (before, texts())
        assert other.post("/v1/embeddings", {"input": "tarts"})[0] == 200


def shared_minilm():
    place = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared" / "data")) / "search"
    return place, place / "all-minilm-l6-v2-8bit-mlx"


def test_the_real_minilm(s):
    place, folder = shared_minilm()
    if not folder.is_dir():
        return "SKIPPED: no shared data"
    sentences = json.loads((place / "minilm" / "sentences.json").read_text())
    raw = (place / "minilm" / "vectors.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    start, end = json.loads(raw[8:8 + size])["q8"]["data_offsets"]
    wanted = numpy.frombuffer(raw[8 + size + start:8 + size + end], "float32").reshape(len(sentences), -1)
    told = []
    for mode in ("exact", "fast"):
        with served(s, "--compute", mode, models=(folder,)) as other:
            answer = other.lenient.embeddings.create(
                model=folder.name, input=[entry["text"] for entry in sentences], extra_body={"truncate": True})
            found = numpy.array([entry.embedding for entry in answer.data], "float32")
            assert answer.usage.prompt_tokens == sum(len(entry["input_ids"]) for entry in sentences)
            difference, cosine = abs(found - wanted).max(), (found * wanted).sum(1).min()
            matrix = abs(found @ found.T - wanted @ wanted.T).max()
            told.append(f"{mode}: {difference:.1e} a component, cosine {cosine:.5f}, matrix {matrix:.1e}")
            if mode == "exact":
                assert difference < 2e-3 and matrix < 2e-3, told
                embed = lambda words: lambda: other.lenient.embeddings.create(model=folder.name, input="a " * words)
                assert embed(254)().usage.prompt_tokens == 256
                error = refused(embed(255), 400, "input", "context_length_exceeded")
                assert "256" in error.message and "257" in error.message, error.message
            else:
                # Outliers of a row are multiplied in float32; without that it was 0.99748.
                assert cosine >= 0.9995, told
    return "; ".join(told)


def test_what_a_folder_says_decides(s):
    with tempfile.TemporaryDirectory() as place:
        plain = pathlib.Path(place) / "encoder-tiny"
        shutil.copytree(ENCODER, plain)
        for name in ("modules.json", "config_sentence_transformers.json"):
            (plain / name).unlink()
        shutil.rmtree(plain / "1_Pooling")
        with served(s, models=(plain,)) as other:
            entry = other.client.models.list().data[0]
            assert entry.embedding["pooling"] == ["mean"], entry
            assert len(vectors(other, "the cat")[0]) == 32

        def refusal(file, change):
            broken = pathlib.Path(place) / "broken"
            shutil.rmtree(broken, ignore_errors=True)
            shutil.copytree(ENCODER, broken)
            value = json.loads((broken / file).read_text())
            change(value)
            (broken / file).write_text(json.dumps(value))
            result = subprocess.run(
                [s.binary, "serve", "--model", str(broken), "--port", "0"], capture_output=True, text=True, timeout=60)
            assert result.returncode == 2, result
            return result.stderr

        assert "Strange" in refusal("modules.json", lambda value: value.append({"type": "x.Strange", "path": ""}))
        assert "Swish" in refusal("2_Dense/config.json", lambda value: value.update(activation_function="x.Swish"))
        assert "euclidean" in refusal(
            "config_sentence_transformers.json", lambda value: value.update(similarity_fn_name="euclidean"))


def test_many_clients_at_once(s):
    with served(s, "--queue-limit", "100") as other:
        texts = different(100)
        expected = vectors(other, texts)
        wrong = []

        def client():
            if vectors(other, texts) != expected:
                wrong.append(1)

        threads = [threading.Thread(target=client) for _ in range(64)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong
