"""Runs the fuzzers over their targets: fuzz.py FOLDER [--target NAME,...] [--seconds N] [--inputs N] [--jobs N].

A target ends after the seconds or the inputs, whichever come first; as many run at a time as there are cores. Seeds are
what Fixtures and the shared data hold of each kind; what libFuzzer finds is kept in a folder, and an input that breaks
something beside it. A line of each target says how many inputs it took.
"""

import argparse
import base64
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data"
FIXTURES = ROOT / "Fixtures"
# Which program has which targets.
PROGRAMS = {"http": ["http", "chunked", "multipart", "websocket"], "media": ["png", "jpeg", "wav", "flac", "resample"], "json": ["json"],
            "requests": ["request"], "tokens": ["tokenizer", "detokenizer"], "weights": ["safetensors", "folder", "gguf"],
            "templates": ["jinja", "render"], "grammar": ["regex", "gbnf", "lark", "schema", "compile"], "calls": ["calls"],
            "indexes": ["index"], "notes": ["notes"], "hub": ["hub"]}
PROGRAM_OF = {target: "fuzz-" + program for program, targets in PROGRAMS.items() for target in targets}
DICTIONARIES = {"http": "http.dict", "json": "json.dict", "request": "json.dict", "schema": "json.dict",
                "tokenizer": "json.dict", "safetensors": "json.dict", "hub": "json.dict", "folder": "json.dict",
                "notes": "html_tags.dict", "regex": "regexp.dict", "jinja": "jinja2.dict", "render": "jinja2.dict"}
# Longer inputs than these tell nothing new and take long.
LENGTHS = {"http": 2048, "chunked": 1024, "multipart": 1024, "png": 2048, "jpeg": 4096, "wav": 1024, "flac": 4096, "websocket": 1024, "json": 2048, "request": 4096, "safetensors": 2048,
           "tokenizer": 4096, "detokenizer": 64, "jinja": 1024, "render": 1024, "regex": 128, "gbnf": 512, "lark": 512, "schema": 1024,
           "compile": 256, "resample": 64, "calls": 512,
           "index": 4096, "notes": 2048, "hub": 1024, "folder": 2048, "gguf": 2048}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def files(folder, pattern, limit=1 << 16):
    return [path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.stat().st_size <= limit] if folder.exists() else []


def bodies():
    path = SHARED / "api" / "bad_requests.jsonl.gz"
    return [base64.b64decode(json.loads(line)["b64"]) for line in gzip.open(path)] if path.exists() else []


def http():
    return [base64.b64decode(case["b64"]) for case in lines(SHARED / "http" / "cases.jsonl")]


def sound(form, tag, bits, extra=b"", data=bytes(range(48))):
    """A WAV file of one channel."""
    layout = struct.pack("<HHIIHH", tag, 1, 8000, 8000 * bits // 8, bits // 8, bits) + extra
    chunks = b"WAVE" + b"fmt " + struct.pack("<I", len(layout)) + layout + b"data" + struct.pack("<I", len(data)) + data
    return form + struct.pack("<I", len(chunks)) + chunks


def sounds():
    extension = struct.pack("<HHI", 22, 16, 4) + b"\x01\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    pairs = [(1, 8), (1, 16), (1, 24), (1, 32), (6, 8), (7, 8)]
    return [sound(b"RIFF", tag, bits) for tag, bits in pairs] + [
        sound(b"RIFF", 0xFFFE, 16, extension), sound(b"RIFF", 3, 32, b"", struct.pack("<8f", *range(-4, 4))),
        sound(b"RIFF", 3, 64, b"", struct.pack("<4d", 0, 1, -1, 0.5)),
        b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0" + struct.pack("<QQQI", 100, 48, 24, 0)
        + sound(b"RIFF", 1, 16)[12:]]


def forms():
    part = b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    file = b'--b\r\ncontent-disposition: form-data; name=f; filename="a \\"b.wav"\r\nContent-Type: audio/wav; x=y\r\n\r\nRIFF\r\n'
    head = b"multipart/form-data; boundary=%s\n"
    return [head % b"b" + part % (b"model", b"m") + file + b"--b--\r\n", head % b'"b"' + b"x\r\n" + part % (b"a", b"") + b"--b-- \r\n"]


def headers():
    """A header without its length, after a byte that says how much data there is."""
    found = [b"\x10" + data[8:] for data in files(SHARED / "safetensors", "*.safetensors", 1 << 12)]
    return found + [b'\x10{"__metadata__":{"format":"mlx"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}']


def tokenizers():
    small = b'''{"added_tokens":[{"id":5,"content":"<e>","special":true,"lstrip":true}],"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"decoder":{"type":"ByteLevel"},"post_processor":{"type":"ByteLevel"},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3,"abc":4},"merges":["a b","ab c"]}}'''
    word = b'{"model":{"type":"WordPiece","unk_token":"u","vocab":{"u":0,"a":1,"##b":2}},"normalizer":{"type":"BertNormalizer"}}'
    gram = b'{"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0.0],["a",-1.5],["ab",-2]]},"pre_tokenizer":{"type":"Metaspace"}}'
    return [small, word, gram] + files(SHARED / "tokenizers" / "tiny", "*.json", 1 << 12)


def templates():
    found = [case["template"].encode() for case in lines(FIXTURES / "templates" / "expressions.jsonl")]
    path = SHARED / "jinja" / "bad_templates.json"
    found += [case["template"].encode() for case in json.loads(path.read_text())] if path.exists() else []
    return found + files(FIXTURES / "models", "*.jinja", 4096)


def notes():
    texts = [b"# Title\n\nA sentence. Another one!\n\n- item\n```\ncode\n```\n" * 3,
             b"<html><body><h1>T</h1><p>a &amp; b &#233;<br><script>x<y</script><pre> z\n</pre><table><tr><td>1",
             b'{"a":{"b":[1,2,{"c":"d"}]},"e":null}', b'{"nbformat":4,"cells":[{"source":["a\\n","b"]}]}',
             b'a,b\n1,"x, \x22\x22y\x22"\n2,\n', b"class A {\n  func b() {}\n}\n\nstruct C {}\n", "Größe 東京タワー e\u0301".encode()]
    # What is kept of a passage of two sentences, four bytes each; in the second the scale has no size.
    kept = struct.pack("<IIII", 1, 0, 90, 2) + b"".join(
        struct.pack("<IIff", start, start + 40, scale, 0.01) + b"\x80\xff\x00\x81" for start, scale in ((0, 0.01), (45, 3e38)))
    return [bytes([kind]) + text for kind in range(6) for text in texts] + [b"\xff" + kept + struct.pack("<I", 0)]


def hub():
    tree = b'[{"type":"file","path":"a/b.safetensors","size":10,"oid":"%s","lfs":{"oid":"%s","size":10}}]' % (b"a" * 40, b"b" * 64)
    head = b'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nRateLimit: "api";r=0;t=55\r\nRetry-After: 3\r\n\r\n'
    return [b"\0" + tree, b"\1" + head, b"\2owner/name@v1", b"\2https://hub.example/owner/name/tree/main",
            b'\3{"weight_map":{"w":"model-00001.safetensors"}}', b"\4a[b-d]*?.json"]


def gguf():
    """Odd and broken files, and whole small models of one layer."""
    def text(words):
        return struct.pack("<Q", len(words)) + words

    def model(architecture, vocabulary):
        a = architecture + b"."
        pairs = [(b"general.architecture", 8, text(architecture))]
        pairs += [(a + key, 4, struct.pack("<I", value)) for key, value in (
            (b"embedding_length", 32), (b"block_count", 1), (b"attention.head_count", 2), (b"feed_forward_length", 32))]
        tokens = [b"a", b"b", b"ab", b"<s>"]
        pairs += [(b"tokenizer.ggml.model", 8, text(vocabulary)), (b"tokenizer.ggml.pre", 8, text(b"qwen2")),
                  (b"tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 4) + b"".join(map(text, tokens))),
                  (b"tokenizer.ggml.scores", 9, struct.pack("<IQ4f", 6, 4, -1, -2, -3, 0)),
                  (b"tokenizer.ggml.token_type", 9, struct.pack("<IQ4i", 5, 4, 1, 1, 1, 3)),
                  (b"tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, 1) + text(b"a b"))]
        tensors = [(b"token_embd.weight", 2), (b"blk.0.attn_q.weight", 8)]
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
        head += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in pairs)
        head += b"".join(text(name) + struct.pack("<IQQIQ", 2, 32, 4, kind, 96 * at) for at, (name, kind) in enumerate(tensors))
        return head + bytes(-len(head) % 32) + bytes(range(240))

    return files(FIXTURES / "gguf" / "hostile", "*.gguf") + [model(b"llama", b"llama"), model(b"qwen2", b"gpt2"), model(b"gemma3", b"llama")]


def folder():
    def tensors(**named):
        header, end = {}, 0
        for name, (dtype, shape, size) in named.items():
            header["m." + name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        return json.dumps(header).encode()

    gptq = json.dumps({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}).encode()
    packed = json.dumps({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}}).encode()
    plain = json.dumps({"quantization": {"bits": 4, "group_size": 64}}).encode()
    kinds = [[gptq, tensors(qweight=("I32", [8, 64], 2048), qzeros=("I32", [2, 8], 64), scales=("F16", [2, 64], 256))],
             [packed, tensors(weight_packed=("I32", [64, 8], 2048), weight_scale=("F16", [64, 2], 256))],
             [plain, tensors(weight=("U32", [64, 8], 2048), scales=("F16", [64, 1], 128), biases=("F16", [64, 1], 128))]]
    modules = [b'[{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"1_Pooling"},{"type":"a.Dense","path":"2_Dense"},'
               b'{"type":"a.Normalize","path":"n"}]', b'{"pooling_mode_mean_tokens":true}', b'{"in_features":4,"out_features":4}',
               b'{"prompts":{"query":"q: "},"default_prompt_name":"query"}']
    return [b"\0".join(kind + modules) for kind in kinds] + [b"\0".join([b"{}", b"{}"] + modules)]


def larks():
    return [b'start: "a" (word | /[a-z]{2,}/i)+ ["b"~2..3]\nword: WORD -> w\nWORD: "x".."z"\n%import common.INT\n%ignore " "',
            b'start: %json {"type": "object"} | "\\u00e9" INT?\nINT: /\\d+/ // a\n',
            b'start: <|a|> <[7,9-11]> B\nB: /[a-z]+/ & ~("if" | %regex {"substring_words": "a b"})\n  & ~C+\nC: "c"~2']


def schemas():
    found = files(FIXTURES / "schemas", "*.json", 4096)
    for data in files(SHARED / "jsonschema", "*.json"):
        groups = json.loads(data)
        found += [json.dumps(group["schema"]).encode() for group in groups if isinstance(group, dict) and "schema" in group] \
            if isinstance(groups, list) else []
    return found


SEEDS = {
    "http": http,
    "chunked": lambda: [b"5\r\nhello\r\n0\r\n\r\n", b"1;a=b\r\nx\r\n0\r\nX: y\r\n\r\n", b"a\r\n0123456789\r\n00\r\n\r\n"],
    "multipart": forms,
    "png": lambda: files(FIXTURES / "media", "*.png", 2048),
    "jpeg": lambda: files(FIXTURES / "media", "*.jpg", 4096),
    "wav": sounds,
    "flac": lambda: files(FIXTURES / "sound" / "flac", "*.flac", 4096),
    "resample": lambda: [b"\0\0" + bytes(range(48)), b"\xff\xff" + bytes(range(48)), b"\x36\xb0\x80"],
    "websocket": lambda: [b"\x81\x85\1\2\3\4igoif", b"\x01\x81\0\0\0\0a\x80\x81\0\0\0\0b", b"\x88\x82\0\0\0\0\x03\xe8",
                          b"\x89\x80\0\0\0\0", b"\x81\xfe\0\x7e\0\0\0\0" + b"x" * 126],
    "json": lambda: files(SHARED / "json", "*.json", 2048) + [b'{"a":[1,-2.5e3,"\\u00e9\\ud83d\\ude00",null,true]}'],
    "request": lambda: bodies() + [b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"n":2}',
                                   b'{"model":"m","input":[{"type":"message","role":"user","content":"x"}],"tools":[]}'],
    "safetensors": headers,
    "tokenizer": tokenizers,
    "detokenizer": lambda: [b"abc", "\U0001f600\u00e9".encode(), b"\xf0\x9f\x80\xff", b"\xe2\x80\xe2\x82\xac", bytes(range(256))],
    "jinja": templates,
    "render": templates,
    "regex": lambda: [b"(a|b)*c{2,3}", rb"^(?=.*\d)[^b-d\w]+?$", rb"\p{L}\u{1F600}\x41", b"[a-z]{1,8}@[a-z]+", rb"(?i:x)|\bq\b", rb"(?<=a)b(?!c)\B"],
    "gbnf": lambda: [b'root ::= call ("," ws call){0,2} "."\ncall ::= [a-z^\\x41-\\u00e9]+ | ("\\n" .)?\nws ::= " "?',
                     b'root ::= "(" root ")" | "x"'],
    "lark": larks,
    "schema": schemas,
    "compile": lambda: [bytes([kind]) + seed for kind, name in enumerate(["regex", "gbnf", "lark", "schema"]) for seed in SEEDS[name]()],
    "calls": lambda: [b"\0" + b'<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', b"\1" + b'{"name":"f","parameters":{}}',
                      b"\2" + b'functools[{"name":"f","arguments":{}}]', b"\3" + b'<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>',
                      b"\4[TOOL_CALLS]f[ARGS]{}", b'\5[TOOL_CALLS][{"name":"f","arguments":{}}]',
                      b"\6<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", b"\0<think>a</think>b",
                      b"\7<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>",
                      b"\x08<|tool_call_start|>[f(a=1, b='x')]<|tool_call_end|>",
                      "\x09<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>"
                      "</｜DSML｜invoke></｜DSML｜tool_calls>".encode(),
                      b"\x0a<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
                      b"\x0b<seed:think>a</seed:think><seed:tool_call><function=f><parameter=a>1</parameter></function></seed:tool_call>",
                      b"\x0c<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">1</parameter></invoke></minimax:tool_call>",
                      b"\x0d<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
                      b"<|tool_call_end|><|tool_calls_section_end|>",
                      "\x0e<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>".encode(),
                      b"\x10<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[{\"tool_name\":\"f\",\"parameters\":{}}]<|END_ACTION|>",
                      b"\x11[THINK]a[/THINK][TOOL_CALLS]f[CALL_ID]1[ARGS]{}"],
    "index": lambda: [bytes([kind]) + body for kind in range(1, 6) for body in (
        struct.pack("<IQQ4f", 1, 1, 2, 0.5, 0.5, 0.5, 0.5),
        struct.pack("<QI", 1, 1) + b"k" + struct.pack("<I", 2) + b"{}" + struct.pack("<I", 1)
        + struct.pack("<I", 5) + b"hello" + struct.pack("<IIII", 0, 0, 5, 1) + struct.pack("<QQ", 1, 2),
        b"k", struct.pack("<I", 1) + b"k" + struct.pack("<I", 2) + b"{}")] + [
        b"\xff\x02\x00\x00\x10\x03\x00\x04\x0c" + bytes(24)],
    "notes": notes,
    "hub": hub,
    "folder": folder,
    "gguf": gguf,
}


def run(binaries, target, arguments):
    folder = pathlib.Path(arguments.corpus)
    seeds, corpus = folder / f"{target}-seeds", folder / target
    for place in (seeds, corpus):
        place.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target]()):
        if len(seed) <= LENGTHS[target]:
            (seeds / str(number)).write_bytes(seed)
    command = [str(pathlib.Path(binaries) / PROGRAM_OF[target]), f"--target={target}", str(corpus), str(seeds), f"-max_total_time={arguments.seconds}", f"-runs={arguments.inputs}",
               f"-max_len={LENGTHS[target]}", "-timeout=30",
               "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={folder}/{target}-"]
    dictionary = SHARED / "fuzzdict" / "AFL" / "dictionaries" / DICTIONARIES.get(target, "none")
    if dictionary.is_file():
        command.append(f"-dict={dictionary}")
    # Swift's own report of a crash would keep libFuzzer from keeping the input.
    environment = {**os.environ, "SWIFT_BACKTRACE": "enable=no"}
    begin = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    seconds = time.monotonic() - begin
    def stat(name):
        found = re.search(rf"stat::{name}:\s*(\d+)", done.stderr)
        return int(found[1]) if found else 0

    print(f"{target:12} {stat('number_of_executed_units'):12,} inputs in {seconds:.0f} s, the slowest took less than "
          f"{stat('slowest_unit_time_sec') + 1} s, peak {stat('peak_rss_mb')} MB"
          f"{'' if done.returncode == 0 else ': FAILED'}", flush=True)
    if done.returncode != 0:
        print(done.stderr[-4000:], flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", help="the folder of the programs")
    parser.add_argument("--target", default=",".join(SEEDS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--inputs", type=int, default=-1, help="most for each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", default=str(ROOT / ".build-fuzz" / "corpus"))
    arguments = parser.parse_args()
    targets = arguments.target.split(",")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        passed = list(pool.map(lambda target: run(arguments.binaries, target, arguments), targets))
    failed = [target for target, is_good in zip(targets, passed) if not is_good]
    print("fuzz: failed: " + ", ".join(failed) if failed else "fuzz: passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
