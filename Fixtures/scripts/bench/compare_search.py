#!/usr/bin/env python3
"""Measures search beside others, in turns on this machine, one thread each unless it says otherwise.

    python3 compare_search.py index BINARY [--rows 100000] [--rounds 3] [--keep DIR]
    python3 compare_search.py ivf BINARY MODEL_FOLDER TEXT_FILE...
    python3 compare_search.py pgvector BINARY [--rows 100000] [--rounds 3] [--hnsw] [--keep DIR]
    python3 compare_search.py encode BINARY MODEL_FOLDER [--rounds 5]
    python3 compare_search.py whole BINARY MODEL_FOLDER TEXT_FILE... [--chunks 100000] [--state DIR]
    python3 compare_search.py chat BINARY MODEL_FOLDER CHAT_MODEL_FOLDER TEXT_FILE...

`index` needs numpy and faiss-cpu; `mlxserve bench --index` fills an index of its own, which --keep keeps for the next time.
faiss gets Gaussian clusters of the same kind, a hundred rows each: flat scans take the same time on any data. `ivf` is faiss'
inverted lists on vectors of real sentences: the share of vectors that they must read for a recall. `pgvector` needs PostgreSQL
with pgvector (MLXSERVE_PG_BIN names the folder of its programs); its times are its own, of one connection. `encode` needs numpy,
onnx and onnxruntime, and for llama.cpp llama-cpp-python and gguf; the MLX 8-bit folder of all-MiniLM-L6-v2 becomes an ONNX
graph, which onnxruntime quantizes dynamically to int8, and a GGUF file in float16. onnxruntime is timed without its tokenizer,
llama.cpp with its tokenizer in this process, mlxserve with its tokenizer and HTTP, and by the time of its forward passes.
`whole` is a server with a store of many chunks, searched with reasons while it indexes; `chat` is indexing beside a chat.
Figures of different machines, or of different runs, say nothing about each other.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
DIMENSIONS, WANTED = 384, 10
FORWARD = "mlxserve, forward only"


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


def own_speed(arguments, place):
    """Searches a second of our own index, by name; and what else was found."""
    result = subprocess.run(
        [arguments.binary, "bench", "--index", str(arguments.rows), "--index-dir", place, "--json"], capture_output=True,
        text=True, check=True)
    report = json.loads(result.stdout)
    figures = {
        f"mlxserve {report['isa']} {entry['name']}, recall {entry['recall']:.3f}": entry["queries_per_second"]["median"]
        for entry in report["searches"]}
    return figures, report


@contextlib.contextmanager
def kept(arguments):
    if arguments.keep:
        yield arguments.keep
    else:
        with tempfile.TemporaryDirectory() as place:
            yield place


def index(arguments):
    import faiss
    import numpy
    faiss.omp_set_num_threads(1)
    data, queries = clusters(numpy, arguments.rows)
    indexes = faiss_indexes(faiss, data)
    truth = indexes["faiss flat f32"].search(queries, WANTED)[1]
    figures, facts = {}, {}
    with kept(arguments) as place:
        # Fills it.
        first = own_speed(arguments, place)[1]
        for _ in range(arguments.rounds):
            own, report = own_speed(arguments, place)
            for name, value in own.items():
                figures.setdefault(name, []).append(value)
            for name, scale in (("open_seconds", 1e3), ("first_seconds", 1e3), ("memory_read_bytes_per_second", 1e-9)):
                facts.setdefault(name, []).append(report[name] * scale)
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
    table(facts, "ms, GB/s")
    if first["add_10000_seconds"]:
        print(f"10,000 rows added in {first['add_10000_seconds']:.2f} s")
    ratios(figures, arguments.rows, facts)


def ratios(figures, rows, facts):
    """The bars, each round by itself."""
    def of(part):
        return next(values for name, values in figures.items() if part in name)

    for own, other in ((" exact,", "SQ8, recall"), (" exact,", "SQ8 + refine"), (" exact,", "flat f32"), (" signs,", "RaBitQ + refine"),
                       ("32 together", " exact,"), ("2 threads", " exact,")):
        shares = [a / b for a, b in zip(of(own), of(other))]
        print(f"{own.strip(' ,')} / {other.strip(' ,')}: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")
    shares = [value * rows * DIMENSIONS / (read * 1e9)
              for value, read in zip(of(" exact,"), facts["memory_read_bytes_per_second"])]
    print(f"of the loop that only reads: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


def ivf(arguments):
    """Lists of the size that the specification names: how many must be read on real vectors."""
    import faiss
    import numpy
    texts = list(dict.fromkeys(sentences(arguments.texts)))
    with Server(arguments.binary, arguments.model, threads=2) as server:
        data = server.vectors(numpy, texts)
        questions = [text for text in texts if text.endswith("?")][:200]
        # Questions of others about the same texts come nearest to what users ask: their own sentence is left out.
        queries = server.vectors(numpy, questions)
    exact = faiss.IndexFlatIP(data.shape[1])
    exact.add(data)
    own = {text: number for number, text in enumerate(texts)}
    truth = [[x for x in row if x != own[text]][:WANTED]
             for text, row in zip(questions, exact.search(queries, WANTED + 1)[1])]
    lists = max(1, int(4 * len(data) ** 0.5))
    inverted = faiss.IndexIVFFlat(faiss.IndexFlatIP(data.shape[1]), data.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    inverted.train(data)
    inverted.add(data)
    sizes = numpy.array([inverted.invlists.list_size(number) for number in range(lists)])
    print(f"{len(data)} sentences, {len(questions)} questions, {lists} lists")
    for probes in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        if probes > lists:
            break
        inverted.nprobe = probes
        found = inverted.search(queries, WANTED + 1)[1]
        hits = sum(len(set(a) & set(b)) for a, b in zip(truth, found))
        read = sizes[inverted.quantizer.search(queries, probes)[1]].sum(1).mean() / len(data)
        print(f"{probes:4} lists: recall@{WANTED} {hits / (WANTED * len(questions)):.3f}, {100 * read:.1f} % of the vectors read")


def sentences(paths):
    """Of texts, those of five words and more."""
    for path in paths:
        text = " ".join(path.read_text(errors="replace").split())
        for sentence in re.split(r"(?<=[.!?;])\s+", text):
            if len(sentence.split()) >= 5 and len(sentence) < 800:
                yield sentence


def pgvector(arguments):
    import numpy
    sys.path.insert(0, str(ROOT / "Tests" / "EndToEnd"))
    from pgvector_test import database, programs
    folder = programs() or sys.exit("there is no PostgreSQL with pgvector")
    data, queries = clusters(numpy, arguments.rows)
    truth = [set(numpy.argsort(-(data @ query))[:WANTED]) for query in queries]
    text = lambda vector: "[" + ",".join(f"{x:.7g}" for x in vector) + "]"
    figures = {}
    with kept(arguments) as place, database(folder) as sql:
        own_speed(arguments, place)
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
            for name, value in own_speed(arguments, place)[0].items():
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
    """mlxserve, reached by one connection that stays open."""

    def __init__(self, binary, *models, threads=1, flags=()):
        words = [word for model in models for word in ("--model", str(model))]
        self.process = subprocess.Popen(
            [binary, "serve", *words, "--threads", str(threads), "--port", "0", *flags], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)
        host, port = re.search(r"listening on http://([\d.]+):(\d+)", self.process.stdout.readline()).groups()
        self.address = (host, int(port))
        self.connection = http.client.HTTPConnection(host, int(port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, method, path, body=None, kind="application/json", connection=None):
        connection = connection or self.connection
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()

        def answered():
            connection.request(method, path, data, {"Content-Type": kind})
            return connection.getresponse()

        try:
            answer = answered()
        except ConnectionError:
            # It was idle for too long, while others had their turn; a closed one connects again.
            connection.close()
            answer = answered()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:300]}")
        return json.loads(content), answer.headers

    def embed(self, inputs):
        return self.ask("POST", "/v1/embeddings", {"input": inputs, "encoding_format": "base64"})[0]

    def vectors(self, numpy, texts):
        import base64
        found = []
        for start in range(0, len(texts), 512):
            body = {"input": texts[start:start + 512], "encoding_format": "base64", "truncate": True}
            found += [numpy.frombuffer(base64.b64decode(entry["embedding"]), "float32")
                      for entry in self.ask("POST", "/v1/embeddings", body)[0]["data"]]
        return numpy.array(found)


def whole_words(folder):
    """Words of the vocabulary that are one token each."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    return {word: id for word, id in vocabulary.items() if re.fullmatch("[a-z]{3,}", word)}, vocabulary


def llama(numpy, folder, place):
    """all-MiniLM-L6-v2 as llama.cpp runs it, or None without its packages."""
    try:
        import gguf
        import llama_cpp
    except ImportError as error:
        print(f"without llama.cpp: {error}")
        return None
    config = json.loads((folder / "config.json").read_text())
    weights = tensors(numpy, folder)
    prefix = "" if "embeddings.word_embeddings.weight" in weights else "bert."
    writer = gguf.GGUFWriter(place + "/minilm.gguf", "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(1)
    # WordPiece, as llama.cpp wants it: words begin with a mark, and what goes on has none.
    words, vocabulary = whole_words(folder)
    tokens, kinds = [], []
    for token in sorted(vocabulary, key=vocabulary.get):
        special = token.startswith("[") and token.endswith("]") and len(token) > 2
        kinds.append(gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL)
        tokens.append(token if special else token[2:] if token.startswith("##") and len(token) > 2 else "\u2581" + token)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_type_count(config["type_vocab_size"])
    for name, add in (("[UNK]", writer.add_unk_token_id), ("[SEP]", writer.add_sep_token_id), ("[PAD]", writer.add_pad_token_id),
                      ("[CLS]", writer.add_bos_token_id), ("[SEP]", writer.add_eos_token_id), ("[MASK]", writer.add_mask_token_id)):
        add(vocabulary[name])
    names = {
        "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
        "embeddings.position_embeddings": "position_embd", "embeddings.LayerNorm": "token_embd_norm"}
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in (
            ("attention.self.query", "attn_q"), ("attention.self.key", "attn_k"), ("attention.self.value", "attn_v"),
            ("attention.output.dense", "attn_output"), ("attention.output.LayerNorm", "attn_output_norm"),
            ("intermediate.dense", "ffn_up"), ("output.dense", "ffn_down"), ("output.LayerNorm", "layer_output_norm"),
        ):
            names[f"encoder.layer.{layer}.{theirs}"] = f"blk.{layer}.{ours}"
    for theirs, ours in names.items():
        for part in ("weight", "bias"):
            value = weights.get(f"{prefix}{theirs}.{part}")
            if value is not None:
                is_matrix = value.ndim == 2 and ours not in ("token_types", "position_embd")
                writer.add_tensor(f"{ours}.{part}", numpy.ascontiguousarray(value, "float16" if is_matrix else "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return llama_cpp.Llama(
        place + "/minilm.gguf", embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=1, n_threads_batch=1,
        verbose=False)


def encode(arguments):
    import numpy
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    random = numpy.random.default_rng(22)
    words, vocabulary = whole_words(arguments.model)
    spellings = sorted(words)

    def batch_of(count, tokens):
        """Texts that are new each time, for vectors of texts that came before are kept; and their tokens."""
        chosen = random.choice(spellings, (count, tokens - 2))
        ids = numpy.array([[vocabulary["[CLS]"], *(words[w] for w in row), vocabulary["[SEP]"]] for row in chosen])
        return [" ".join(row) for row in chosen], ids

    with tempfile.TemporaryDirectory() as place, Server(arguments.binary, arguments.model) as server:
        graph(numpy, arguments.model, place + "/f32.onnx")
        quantize_dynamic(place + "/f32.onnx", place + "/int8.onnx", weight_type=QuantType.QInt8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(place + "/int8.onnx", options, providers=["CPUExecutionProvider"])
        exact = onnxruntime.InferenceSession(place + "/f32.onnx", options, providers=["CPUExecutionProvider"])
        other = llama(numpy, arguments.model, place)
        check(numpy, batch_of(4, 16), server, exact, other)
        mlxserve = lambda texts, ids: server.embed(texts)
        engines = [
            ("mlxserve, with HTTP", mlxserve),
            ("onnxruntime int8, forward only", lambda texts, ids: session.run(None, {"ids": ids})),
        ]
        if other:
            engines.append(("llama.cpp f16, without HTTP", lambda texts, ids: other.embed(texts)))
        print(f"sentences per second, one thread, {arguments.rounds} rounds in turns")
        for tokens, batch in ((16, 1), (16, 32), (128, 1), (128, 32)):
            figures = {}
            for _ in range(arguments.rounds):
                for name, work in engines:
                    sets = [batch_of(batch, tokens) for _ in range(max(3, 2048 // batch // tokens))]
                    work(*batch_of(batch, tokens))
                    forward, begin = step_seconds(server), time.perf_counter()
                    for one in sets:
                        work(*one)
                    seconds = time.perf_counter() - begin
                    figures.setdefault(name, []).append(batch * len(sets) / seconds)
                    if work is mlxserve:
                        forward = step_seconds(server) - forward
                        figures.setdefault(FORWARD, []).append(batch * len(sets) / forward)
            print(f"{tokens} tokens x {batch}")
            table(figures, "per second")
            for own in (FORWARD, engines[0][0]):
                for name, _ in engines[1:]:
                    shares = [a / b for a, b in zip(figures[own], figures[name])]
                    print(f"  {own} beside {name}: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


def step_seconds(server):
    """What the model's forward passes have taken, by the server's own clock."""
    return server_metrics(server)["mlxserve_embed_step_seconds_total"]


def check(numpy, batch, server, session, other):
    """All must compute the same model."""
    import base64
    texts, ids = batch
    own = numpy.array([
        numpy.frombuffer(base64.b64decode(entry["embedding"]), "float32") for entry in server.embed(texts)["data"]])
    found = {"onnxruntime": session.run(None, {"ids": ids})[0]}
    if other:
        found["llama.cpp"] = numpy.array(other.embed(texts))
    for name, theirs in found.items():
        cosine = (own * theirs).sum(1) / numpy.linalg.norm(own, axis=1) / numpy.linalg.norm(theirs, axis=1)
        if cosine.min() < 0.999:
            sys.exit(f"{name} does not compute the same vectors: cosines {cosine}")


# MARK: A server with a store

def form(name, text):
    """A file as the files API takes it."""
    return (f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--b\r\nContent-Disposition: form-data; '
            f'name="file"; filename="{name}"\r\n\r\n{text}\r\n--b--').encode(), "multipart/form-data; boundary=b"


def chunk_texts(paths, count, words=70):
    """Texts of about a hundred tokens, all different: pieces of real text from changing places."""
    all_words = [word for path in paths for word in path.read_text(errors="replace").split()]
    step = max(1, (len(all_words) - words) // max(1, count))
    # More chunks than words: two places are joined.
    for number in range(count):
        start = number * step % (len(all_words) - words)
        second = (number * 7919 + 13) % (len(all_words) - words)
        yield " ".join(all_words[start:start + words // 2]) + ". " + " ".join(all_words[second:second + words // 2]) + "."


def filled(server, arguments, count, prefix="part"):
    """A store of so many chunks; what it takes to make it is not measured."""
    stores = server.ask("GET", "/v1/vector_stores")[0]["data"]
    found = next((store for store in stores if store["name"] == f"{prefix}-{count}"), None)
    if found is None:
        found = server.ask("POST", "/v1/vector_stores", {"name": f"{prefix}-{count}"})[0]
    have = found["file_counts"]["total"]
    texts = list(chunk_texts(arguments.texts, count))
    for start in range(100 * have, count, 100):
        body, kind = form(f"{prefix}{start}.txt", "\n\n".join(texts[start:start + 100]))
        file = server.ask("POST", "/v1/files", body, kind)[0]
        server.ask("POST", f"/v1/vector_stores/{found['id']}/files", {"file_id": file["id"], "chunking_strategy": {
            "type": "static", "static": {"max_chunk_size_tokens": 128, "chunk_overlap_tokens": 0}}})
    while server.ask("GET", f"/v1/vector_stores/{found['id']}")[0]["file_counts"]["in_progress"]:
        time.sleep(1)
    return found["id"]


def spread(name, values, unit="ms"):
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    print(f"{name}: p50 {at(0.5):.1f} {unit}, p90 {at(0.9):.1f}, p99 {at(0.99):.1f}, most {values[-1]:.1f} ({len(values)} times)")


def questions(paths, count):
    found = [s for s in sentences(paths) if 4 <= len(s.split()) <= 14]
    return [found[i * len(found) // count].lower().strip(".;!?") for i in range(count)]


def whole(arguments):
    """Searches with reasons, at rest and while files are indexed."""
    flags = ("--state-dir", str(arguments.state)) if arguments.state else ()
    with Server(arguments.binary, arguments.model, threads=2, flags=flags) as server:
        store = filled(server, arguments, arguments.chunks)
        metrics = lambda: server_metrics(server)
        asked = questions(arguments.texts, 600)
        path = f"/v1/vector_stores/{store}/search"

        def measure(name, some, pace=0, **options):
            """One question after the other, or one every `pace` seconds."""
            times, phases, start = [], {}, time.perf_counter()
            for number, question in enumerate(some):
                time.sleep(max(0, start + number * pace - time.perf_counter()))
                begin = time.perf_counter()
                _, headers = server.ask("POST", path, {"query": question, **options})
                times.append(1e3 * (time.perf_counter() - begin))
                for part in headers["server-timing"].split(", "):
                    phase, _, value = part.partition(";dur=")
                    phases.setdefault(phase, []).append(float(value))
            spread(name, times)
            print("   " + ", ".join(f"{phase} {statistics.median(values):.2f}" for phase, values in phases.items()))

        measure("first", asked[:1], explain=True)
        print(f"{metrics()['mlxserve_index_store_chunks']:.0f} chunks")
        read_sentences(metrics)
        measure("at rest, ten results with reasons", asked[:200], explain=True)
        measure("at rest, five results with reasons", asked[:200], explain=True, max_num_results=5)
        measure("at rest, without reasons", asked[200:400])
        busy = threading.Event()
        indexing = threading.Thread(target=keep_indexing, args=(server, arguments, store, busy))
        indexing.start()
        time.sleep(2)
        before = metrics()["mlxserve_index_texts_total"]
        begin = time.perf_counter()
        measure("while it indexes, ten a second, ten results with reasons", asked[400:600], pace=0.1, explain=True)
        seconds = time.perf_counter() - begin
        print(f"{(metrics()['mlxserve_index_texts_total'] - before) / seconds:.0f} chunks indexed per second meanwhile")
        measure("while it indexes, one after the other, ten results with reasons", asked[300:500], explain=True)
        measure("while it indexes, one after the other, five results with reasons", asked[:200], explain=True, max_num_results=5)
        measure("while it indexes, one after the other, without reasons", asked[200:400])
        for kind in ("read", "spared"):
            count = metrics().get('mlxserve_explain_sentences_total{kind="%s"}' % kind, 0)
            print(f"{count:.0f} sentences were {kind}")
        busy.set()
        indexing.join()


def read_sentences(metrics):
    """Waits until the sentences of all chunks are kept; equal chunks are kept once."""
    begin = time.perf_counter()
    while metrics().get("mlxserve_index_unread_stores"):
        time.sleep(1)
    known = metrics().get("mlxserve_index_read_chunks", 0)
    kept = metrics().get('mlxserve_index_bytes{kind="sentences"}', 0)
    print(f"{known:.0f} chunks have their sentences kept, {kept / max(1, known):.0f} bytes each; it took "
          f"{time.perf_counter() - begin:.0f} s", flush=True)


def server_metrics(server):
    connection = http.client.HTTPConnection(*server.address)
    connection.request("GET", "/metrics")
    found = {}
    for line in connection.getresponse().read().decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            # With all labels, and the sum over them.
            for key in {name, name.partition("{")[0]}:
                found[key] = found.get(key, 0) + float(value)
    return found


def keep_indexing(server, arguments, store, busy):
    """Files that come and go: the store does not grow."""
    connection = http.client.HTTPConnection(*server.address)
    number = 0
    while not busy.is_set():
        texts = [f"{number} {text}" for text in chunk_texts(arguments.texts, 100)]
        number += 1
        body, kind = form(f"new{number}.txt", "\n\n".join(texts))
        file = server.ask("POST", "/v1/files", body, kind, connection)[0]["id"]
        server.ask("POST", f"/v1/vector_stores/{store}/files", {"file_id": file}, connection=connection)
        while not busy.is_set():
            state = server.ask("GET", f"/v1/vector_stores/{store}/files/{file}", connection=connection)[0]["status"]
            if state != "in_progress":
                break
            time.sleep(0.05)
        server.ask("DELETE", f"/v1/files/{file}", connection=connection)


def beside_chat(arguments):
    """Case 128: decoding alone and while files are indexed, and searches meanwhile."""
    with Server(arguments.binary, arguments.chat, arguments.model, threads=2) as server:
        store = filled(server, arguments, 1000)
        name = server.ask("GET", "/v1/models")[0]["data"][0]["id"]

        def decode():
            body = {"model": name, "max_tokens": 96, "ignore_eos": True, "temperature": 0,
                    "messages": [{"role": "user", "content": "Tell me a story."}]}
            begin = time.perf_counter()
            answer = server.ask("POST", "/v1/chat/completions", body)[0]
            return answer["usage"]["completion_tokens"] / (time.perf_counter() - begin)

        decode()
        alone, beside, times = [], [], []
        for _ in range(arguments.rounds):
            alone.append(decode())
            busy = threading.Event()
            indexing = threading.Thread(target=keep_indexing, args=(server, arguments, store, busy))
            indexing.start()
            time.sleep(2)
            beside.append(decode())
            for question in questions(arguments.texts, 50):
                begin = time.perf_counter()
                server.ask("POST", f"/v1/vector_stores/{store}/search", {"query": question})
                times.append(1e3 * (time.perf_counter() - begin))
            busy.set()
            indexing.join()
        table({"decoding alone": alone, "while it indexes": beside}, "tokens/s")
        shares = [b / a for a, b in zip(alone, beside)]
        print(f"share: {statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")
        spread("searches while it indexes", times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for name, run, words in (
        ("index", index, ()), ("pgvector", pgvector, ()), ("ivf", ivf, ("model", "texts")), ("encode", encode, ("model",)),
        ("whole", whole, ("model", "texts")), ("chat", beside_chat, ("model", "chat", "texts")),
    ):
        part = commands.add_parser(name)
        part.set_defaults(run=run)
        part.add_argument("binary")
        for word in words:
            part.add_argument(word, type=pathlib.Path, **({"nargs": "+"} if word == "texts" else {}))
        part.add_argument("--rounds", type=int, default=3)
        if name in ("index", "pgvector"):
            part.add_argument("--rows", type=int, default=100_000)
            part.add_argument("--keep", help="where our own index stays")
        if name == "pgvector":
            part.add_argument("--hnsw", action="store_true")
        if name == "whole":
            part.add_argument("--chunks", type=int, default=100_000)
            part.add_argument("--state", type=pathlib.Path, help="where the store stays")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
