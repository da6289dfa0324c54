#!/usr/bin/env python3
"""Measures the vector index beside faiss, and MiniLM beside onnxruntime, in turns on this machine, one thread each.

    python3 compare_search.py index [--rounds 3] [--rows 100000]
    python3 compare_search.py pgvector [--rounds 3] [--rows 100000] [--hnsw]
    python3 compare_search.py encode BINARY MODEL_FOLDER [--rounds 5]

`index` needs numpy and faiss-cpu, and the built tests (MeasuredTests fills an index and prints queries per second). faiss
gets Gaussian clusters of the same kind, a hundred rows each: flat scans take the same time on any data. `pgvector` needs
PostgreSQL with pgvector (MLXSERVE_PG_BIN names the folder of its programs); its times are its own, of one connection, and
ours those of `index`. `encode` needs numpy, onnx and
onnxruntime, and the MLX 8-bit folder of all-MiniLM-L6-v2: its weights become an ONNX graph, which onnxruntime quantizes
dynamically to int8. onnxruntime is timed without its tokenizer, mlxserve with its own and with HTTP.
Figures of different machines, or of different runs, say nothing about each other.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DIMENSIONS, WANTED = 384, 10


def table(figures, unit):
    """Median, least and most of each name."""
    width = max(map(len, figures))
    for name, values in figures.items():
        print(f"{name:{width}}  {statistics.median(values):10.1f} {unit}  ({min(values):.1f} to {max(values):.1f})")


# MARK: Index

def clusters(numpy, rows):
    random = numpy.random.default_rng(22)
    centres = random.standard_normal((rows // 100, DIMENSIONS))
    data = (centres[numpy.arange(rows) % len(centres)] + 0.4 * random.standard_normal((rows, DIMENSIONS))).astype("float32")
    data /= numpy.linalg.norm(data, axis=1, keepdims=True)
    queries = data[:50] + 0.02 * random.standard_normal((50, DIMENSIONS)).astype("float32")
    return data, queries / numpy.linalg.norm(queries, axis=1, keepdims=True)


def faiss_indexes(faiss, data):
    inner = faiss.METRIC_INNER_PRODUCT
    flat = faiss.IndexFlat(DIMENSIONS, inner)
    bytes8 = faiss.IndexScalarQuantizer(DIMENSIONS, faiss.ScalarQuantizer.QT_8bit, inner)
    found = {"faiss flat f32": flat, "faiss SQ8": bytes8}
    refined = faiss.IndexRefineFlat(faiss.IndexScalarQuantizer(DIMENSIONS, faiss.ScalarQuantizer.QT_8bit, inner))
    refined.k_factor = 2
    found["faiss SQ8 + refine"] = refined
    if hasattr(faiss, "IndexRaBitQ"):
        bits = faiss.IndexRefineFlat(faiss.IndexRaBitQ(DIMENSIONS, inner))
        bits.k_factor = 10
        found["faiss RaBitQ + refine"] = bits
    for index in found.values():
        index.train(data)
        index.add(data)
    return found


def own_speed(rows):
    result = subprocess.run(
        ["swift", "test", "--skip-build", "-Xswiftc", "-warnings-as-errors", "--filter", "MeasuredTests"], cwd=ROOT,
        env={**os.environ, "MLXSERVE_MEASURE": "1", "MLXSERVE_MEASURE_ROWS": str(rows)}, capture_output=True, text=True)
    found = re.findall(rf"^{rows} rows, (\w+), (\w+): ([\d.]+) queries/s.* recall ([\d.]+)", result.stdout, re.M)
    if not found:
        sys.exit(f"MeasuredTests printed no figures:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return {f"mlxserve {isa} {name}, recall {float(recall):.3f}": float(value) for isa, name, value, recall in found}


def index(arguments):
    import faiss
    import numpy
    faiss.omp_set_num_threads(1)
    data, queries = clusters(numpy, arguments.rows)
    indexes = faiss_indexes(faiss, data)
    truth = indexes["faiss flat f32"].search(queries, WANTED)[1]
    figures = {}
    for _ in range(arguments.rounds):
        for name, value in own_speed(arguments.rows).items():
            figures.setdefault(name, []).append(value)
        for name, engine in indexes.items():
            times, hits = [], 0
            for number, query in enumerate(queries):
                begin = time.perf_counter()
                found = engine.search(query[None], WANTED)[1][0]
                times.append(time.perf_counter() - begin)
                hits += len(set(found) & set(truth[number]))
            recall = hits / (WANTED * len(queries))
            figures.setdefault(f"{name}, recall {recall:.3f}", []).append(1 / statistics.median(times))
    print(f"{arguments.rows} rows of {DIMENSIONS}, one query at a time, one thread, {arguments.rounds} rounds in turns")
    table(figures, "queries/s")


def pgvector(arguments):
    import numpy
    sys.path.insert(0, str(ROOT / "Tests" / "EndToEnd"))
    from pgvector_test import database, programs
    folder = programs() or sys.exit("there is no PostgreSQL with pgvector")
    data, queries = clusters(numpy, arguments.rows)
    truth = [set(numpy.argsort(-(data @ query))[:WANTED]) for query in queries]
    text = lambda vector: "[" + ",".join(f"{x:.7g}" for x in vector) + "]"
    figures = {}
    with database(folder) as sql:
        sql(f"CREATE EXTENSION vector; CREATE TABLE rows (id integer, v vector({DIMENSIONS}));")
        begin = time.perf_counter()
        for start in range(0, len(data), 10_000):
            sql("COPY rows FROM STDIN", "".join(
                f"{start + i}\t{text(row)}\n" for i, row in enumerate(data[start:start + 10_000])))
        print(f"copied in {time.perf_counter() - begin:.1f} s, {sql('SELECT pg_relation_size($$rows$$)').strip()} bytes")

        def measure(name):
            select = lambda query: f"SELECT id FROM rows ORDER BY v <#> '{text(query)}' LIMIT {WANTED}"
            settings = "SET max_parallel_workers_per_gather = 0; "
            # A session of its own reads all once.
            plans = sql(settings + ";".join([select(queries[0])] + [f"EXPLAIN ANALYZE {select(query)}" for query in queries[:20]]))
            times = [float(x) for x in re.findall(r"Execution Time: ([\d.]+) ms", plans)]
            found = [set(map(int, sql(settings + select(query)).split())) for query in queries[:20]]
            recall = sum(len(a & b) for a, b in zip(found, truth)) / (20 * WANTED)
            figures.setdefault(f"{name}, recall {recall:.3f}", []).append(1000 / statistics.median(times))

        for _ in range(arguments.rounds):
            measure("pgvector exact")
            for name, value in own_speed(arguments.rows).items():
                figures.setdefault(name, []).append(value)
        if arguments.hnsw:
            begin = time.perf_counter()
            sql("SET maintenance_work_mem = '512MB'; SET max_parallel_maintenance_workers = 0; "
                "CREATE INDEX ON rows USING hnsw (v vector_ip_ops)")
            print(f"HNSW built in {time.perf_counter() - begin:.1f} s")
            for _ in range(arguments.rounds):
                measure("pgvector HNSW")
    print(f"{arguments.rows} rows of {DIMENSIONS}, one query at a time, one thread")
    table(figures, "queries/s")


# MARK: Encoding

def tensors(numpy, folder):
    """The float32 tensors of an MLX folder with affine weights of 8 bits."""
    raw = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    kinds = {"F16": "float16", "F32": "float32", "U32": "uint32", "I64": "int64"}
    stored = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            stored[name] = numpy.frombuffer(raw[start:end], kinds[entry["dtype"]]).reshape(entry["shape"])
    found = {}
    for name, value in stored.items():
        base = name.removesuffix(".weight")
        if base + ".scales" in stored and name.endswith(".weight"):
            scales, biases = (stored[f"{base}.{part}"].astype("float32") for part in ("scales", "biases"))
            codes = numpy.ascontiguousarray(value).view("uint8").reshape(*scales.shape, -1).astype("float32")
            found[name] = (codes * scales[..., None] + biases[..., None]).reshape(len(value), -1)
        elif not name.endswith((".scales", ".biases")):
            found[name] = value.astype("float32") if value.dtype != "int64" else value
    return found


def graph(numpy, folder, path):
    """BERT with mean pooling as an ONNX file: ids [batch, n] to vectors [batch, 384]."""
    from onnx import TensorProto, helper, numpy_helper, save
    config = json.loads((folder / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    weights = tensors(numpy, folder)
    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(numpy.ascontiguousarray(value), name))
        return name

    def node(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(x, name):
        weight = constant(name + ".w", weights[prefix + name + ".weight"].T)
        bias = constant(name + ".b", weights[prefix + name + ".bias"])
        return node("Add", [node("MatMul", [x, weight], name + ".product"), bias], name + ".sum")

    def norm(x, name):
        gain, bias = (constant(f"{name}.{part}", weights[f"{prefix}{name}.{part}"]) for part in ("weight", "bias"))
        return node("LayerNormalization", [x, gain, bias], name, axis=-1, epsilon=config["layer_norm_eps"])

    words = node("Gather", [constant("words", weights[prefix + "embeddings.word_embeddings.weight"]), "ids"], "words.x")
    count = node("Gather", [node("Shape", ["ids"], "shape"), constant("one", numpy.array([1]))], "count")
    table = constant("table", weights[prefix + "embeddings.position_embeddings.weight"])
    zero = constant("zero", numpy.array([0]))
    positions = node("Slice", [table, zero, count, zero], "positions")
    types = constant("types", weights[prefix + "embeddings.token_type_embeddings.weight"][0])
    x = norm(node("Add", [node("Add", [words, positions], "x.a"), types], "x.b"), "embeddings.LayerNorm")
    split = constant("split", numpy.array([0, 0, heads, hidden // heads]))
    join = constant("join", numpy.array([0, 0, hidden]))
    scale = constant("scale", numpy.array((hidden // heads) ** -0.5, "float32"))
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        parts = {}
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            name = f"{at}.attention.self.{part}"
            parts[part] = node(
                "Transpose", [node("Reshape", [linear(x, name), split], name + ".split")], name + ".heads", perm=order)
        scores = node("Mul", [node("MatMul", [parts["query"], parts["key"]], at + ".scores"), scale], at + ".scaled")
        mixed = node("MatMul", [node("Softmax", [scores], at + ".shares", axis=-1), parts["value"]], at + ".mixed")
        joined = node("Reshape", [node("Transpose", [mixed], at + ".back", perm=[0, 2, 1, 3]), join], at + ".joined")
        attended = linear(joined, at + ".attention.output.dense")
        x = norm(node("Add", [x, attended], at + ".a"), at + ".attention.output.LayerNorm")
        inner = node("Gelu", [linear(x, at + ".intermediate.dense")], at + ".gelu")
        x = norm(node("Add", [x, linear(inner, at + ".output.dense")], at + ".c"), at + ".output.LayerNorm")
    node("ReduceMean", [x, constant("axis", numpy.array([1]))], "vector", keepdims=0)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "n"])
    out = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", hidden])
    model = helper.make_model(
        helper.make_graph(nodes, "bert", [ids], [out], constants), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    save(model, path)


class Server:
    """mlxserve with one thread."""

    def __init__(self, binary, folder):
        self.process = subprocess.Popen(
            [binary, "serve", "--model", str(folder), "--threads", "1", "--port", "0"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        self.url = re.search(r"listening on (\S+)", self.process.stdout.readline())[1]

    def embed(self, inputs):
        body = json.dumps({"input": inputs, "encoding_format": "base64"}).encode()
        request = urllib.request.Request(self.url + "/embeddings", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


def encode(arguments):
    import numpy
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    random = numpy.random.default_rng(22)
    server = Server(arguments.binary, arguments.model)
    try:
        with tempfile.TemporaryDirectory() as place:
            graph(numpy, arguments.model, place + "/f32.onnx")
            quantize_dynamic(place + "/f32.onnx", place + "/int8.onnx", weight_type=QuantType.QInt8)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(place + "/int8.onnx", options, providers=["CPUExecutionProvider"])
            exact = onnxruntime.InferenceSession(place + "/f32.onnx", options, providers=["CPUExecutionProvider"])
            check(numpy, random, server, exact)
            print(f"sentences per second, one thread, {arguments.rounds} rounds in turns")
            for tokens, batch in ((16, 1), (16, 32), (128, 1), (128, 32)):
                figures = {}
                for _ in range(arguments.rounds):
                    for name, work in (
                        ("onnxruntime int8, forward only", lambda ids: session.run(None, {"ids": ids})),
                        ("mlxserve, with HTTP", lambda ids: server.embed(ids.tolist())),
                    ):
                        # New tokens each time: vectors of texts that came before are kept.
                        sets = [random.integers(1000, 29000, (batch, tokens)) for _ in range(max(4, 256 // batch // tokens * 8))]
                        work(random.integers(1000, 29000, (batch, tokens)))
                        begin = time.perf_counter()
                        for ids in sets:
                            work(ids)
                        seconds = time.perf_counter() - begin
                        figures.setdefault(f"{tokens} tokens x {batch}: {name}", []).append(batch * len(sets) / seconds)
                table(figures, "per second")
    finally:
        server.process.terminate()


def check(numpy, random, server, session):
    """Both must compute the same model."""
    import base64
    ids = random.integers(1000, 29000, (4, 16))
    own = numpy.array([
        numpy.frombuffer(base64.b64decode(entry["embedding"]), "float32") for entry in server.embed(ids.tolist())["data"]])
    other = session.run(None, {"ids": ids})[0]
    cosine = (own * other).sum(1) / numpy.linalg.norm(own, axis=1) / numpy.linalg.norm(other, axis=1)
    if cosine.min() < 0.999:
        sys.exit(f"the two do not compute the same vectors: cosines {cosine}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    part = commands.add_parser("index")
    part.set_defaults(run=index)
    part.add_argument("--rows", type=int, default=100_000)
    part.add_argument("--rounds", type=int, default=3)
    part = commands.add_parser("pgvector")
    part.set_defaults(run=pgvector)
    part.add_argument("--rows", type=int, default=100_000)
    part.add_argument("--rounds", type=int, default=3)
    part.add_argument("--hnsw", action="store_true")
    part = commands.add_parser("encode")
    part.set_defaults(run=encode)
    part.add_argument("binary")
    part.add_argument("model", type=pathlib.Path)
    part.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
