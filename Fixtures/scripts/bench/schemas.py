"""Times and verdicts of constrained output beside LLGuidance and XGrammar: schemas.py BINARY TOKENIZER.JSON [--suite FOLDER]
[--corpus FOLDER].

BINARY is the executable `differential` of a release build. The schemas are the project's corpus, hard ones that are made
here and, with --suite, those of the JSON-Schema test suite, with texts that fit them; with --corpus instead a sample of
published ones with their examples (see corpus.py). All engines take the same texts, token by token, on one thread and in
turns of 25 schemas, and tell the processor's time of that thread. Each is one process for all schemas, as a server is, and
compiles from the schema's text; XGrammar without its cache between schemas, and without the schemas on which it works for
longer than 2 seconds or ends the process. Figures are printed twice: of all that an engine takes, and of the schemas that
this server and LLGuidance both take. Needs llguidance, tokenizers and jsonschema of
PyPI; XGrammar takes part where its package, apache-tvm-ffi and pydantic are there, and needs neither torch nor
transformers for this. A text that one of them does not let through (the others keep members in the order of the schema)
counts as such, and its masks up to there count.
"""

import argparse
import importlib.metadata
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import time
from unittest import mock

import jsonschema
import llguidance
import llguidance.numpy
import tokenizers

from corpus import published
from frames import packed, received

ROOT = pathlib.Path(__file__).resolve().parents[3]
TURN = 25


# --- texts that fit a schema ---------------------------------------------------------------------------------------


def sample(schema, root, chance, depth=0):
    """A value that may fit; the caller checks."""
    if not isinstance(schema, dict) or depth > 8:
        return "x"
    if "$ref" in schema and schema["$ref"].startswith("#/"):
        target = root
        for part in schema["$ref"][2:].split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        return sample(target, root, chance, depth + 1)
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    for word in ("enum", "examples"):
        if schema.get(word):
            return chance.choice(schema[word])
    for word in ("anyOf", "oneOf"):
        if schema.get(word):
            rest = {key: value for key, value in schema.items() if key != word}
            branch = chance.choice(schema[word])
            if isinstance(branch, dict):
                joined = {**rest.get("properties", {}), **branch.get("properties", {})}
                rest = {**rest, **branch, **({"properties": joined} if joined else {})}
            return sample(rest, root, chance, depth + 1)
    if schema.get("allOf"):
        whole = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            if isinstance(part, dict):
                joined = {**whole.get("properties", {}), **part.get("properties", {})}
                needed = whole.get("required", []) + part.get("required", [])
                whole = {**whole, **part, **({"properties": joined} if joined else {}),
                         **({"required": needed} if needed else {})}
        return sample(whole, root, chance, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    if kind == "object":
        names = [name for name in schema.get("properties", {})
                 if name in schema.get("required", []) or (depth < 4 and chance.random() < 0.7)]
        names += [name for name in schema.get("required", []) if name not in names]
        return {name: sample(schema.get("properties", {}).get(name, {}), root, chance, depth + 1) for name in names}
    if kind == "array":
        count = max(schema.get("minItems", 0), min(schema.get("maxItems", 3), 2))
        listed = schema.get("prefixItems", [])
        return [sample(listed[i] if i < len(listed) else schema.get("items", {}), root, chance, depth + 1)
                for i in range(count)]
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        step = schema.get("multipleOf", 1)
        return int(-(-low // step) * step) if step >= 1 else 0
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    known = {"date": "2024-02-29", "date-time": "2024-02-29T10:11:12Z", "time": "10:11:12Z", "email": "ada@example.org",
             "uri": "https://example.org/a?b=c", "uuid": "123e4567-e89b-12d3-a456-426614174000", "ipv4": "10.0.0.1",
             "ipv6": "fe80::1", "hostname": "www.example.org"}
    if schema.get("format") in known:
        return known[schema["format"]]
    words = "The quick brown fox jumps over the lazy dog, twice."
    return (words * (1 + schema.get("minLength", 0) // len(words)))[:max(schema.get("minLength", 0),
                                                                        min(schema.get("maxLength", 60), 60))]


def texts(schema, chance):
    """Up to three texts of values that fit."""
    found = []
    for _ in range(8):
        try:
            value = sample(schema, schema, chance)
            jsonschema.validators.validator_for(schema)(schema).validate(value)
        except Exception:  # a schema or a value that the sampler does not understand
            continue
        text = json.dumps(value, ensure_ascii=False)
        if text not in found and len(text) < 6000:
            found.append(text)
    return found[:3]


# --- schemas -------------------------------------------------------------------------------------------------------


def hard(chance):
    """Schemas that are large in one way each."""
    word = lambda n: "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
    text = {"type": "string"}

    def closed(properties, needed=None):
        return {"type": "object", "properties": properties, "required": needed if needed is not None else list(properties),
                "additionalProperties": False}

    for size in (50, 500, 2000):
        yield closed({"kind": {"enum": sorted({word(chance.randint(3, 14)) for _ in range(size)})}})
    for size in (20, 100, 300):
        names = sorted({word(8) for _ in range(size)})
        yield closed({name: chance.choice([text, {"type": "integer"}, {"type": "boolean"}]) for name in names}, names[:20])
    for length in (10, 200, 4000):
        yield closed({"a": {"type": "string", "minLength": 5, "maxLength": length}, "b": text})
    for pattern in ("^[a-z]{1,200}$", "^(?:[A-Z][a-z]+ ?){1,40}$", "^.{3,60}$", "fox", "^[^0-9]*$", "^The .* dog",
                    r"^\w+([ ,.]+\w+)*[.]?$", "^[A-Za-z ,.]{5,500}$", "quick.*lazy"):
        yield closed({"a": {"type": "string", "pattern": pattern}, "b": text})
    for form in ("date", "date-time", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname"):
        yield closed({"a": {"type": "string", "format": form}, "b": {"type": "array", "items": text}})
    for low, high in ((0, 150), (-1000, 123456789), (17, 10**15)):
        yield closed({"a": {"type": "integer", "minimum": low, "maximum": high}, "b": {"type": "number", "minimum": low}})
    yield closed({"a": {"type": "integer", "multipleOf": 7}, "b": {"type": "array", "items": text, "maxItems": 40}})
    for size in (5, 30, 100):
        yield {"anyOf": [closed({"type": {"const": word(6)}, word(5): text, "x": {"type": "number"}})
                         for _ in range(size)]}
    tree = closed({"name": text, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, ["name"])
    yield {"$defs": {"tree": tree}, "$ref": "#/$defs/tree"}
    deep = text
    for _ in range(25):
        deep = closed({word(4): deep, word(5): {"type": ["string", "null"]}})
    yield deep
    for size in (3, 6):
        yield {"allOf": [closed({}, []) | {"additionalProperties": True, "properties": {word(5): text},
                                           "anyOf": [{"required": [word(5)]}, {"properties": {word(5): text}}]}
                         for _ in range(size)]}


def cases(arguments):
    chance = random.Random(arguments.seed)
    found = []
    if arguments.corpus:
        whole = [(schema, [text for text, valid in texts if valid and len(text) < 6000][:3])
                 for _, schema, texts in published(arguments.corpus)]
        return chance.sample(whole, min(len(whole), arguments.count or 500))
    for line in (ROOT / "Fixtures" / "schemas" / "corpus.jsonl").read_text().splitlines():
        schema = json.loads(line)["schema"]
        found.append((schema, texts(schema, chance)))
    for schema in hard(chance):
        found.append((schema, texts(schema, chance)))
    if arguments.suite:
        for draft in ("draft7", "draft2020-12"):
            for path in sorted((pathlib.Path(arguments.suite) / "tests" / draft).glob("*.json")):
                for group in json.loads(path.read_text()):
                    if isinstance(group["schema"], dict):
                        valid = [json.dumps(test["data"], ensure_ascii=False) for test in group["tests"] if test["valid"]]
                        found.append((group["schema"], valid[:3]))
    if arguments.count:
        chance.shuffle(found)
        found = found[:arguments.count]
    return found


# --- engines -------------------------------------------------------------------------------------------------------


class Figures:
    """Nanoseconds of one engine."""

    def __init__(self, name):
        self.name = name
        # By the number of the schema.
        self.compiled, self.masks = {}, {}
        self.refused = self.through = self.stopped = 0

    def add(self, number, compiled, masks, verdicts):
        self.compiled[number], self.masks[number] = compiled, masks
        self.through += sum(verdicts)
        self.stopped += len(verdicts) - sum(verdicts)

    def print(self, only=None):
        if only is None:
            print(f"\n{self.name}: {len(self.compiled)} schemas compiled, {self.refused} refused, "
                  f"{self.through} texts let through, {self.stopped} not")
        else:
            print(f"\n{self.name}, of the {len(only)} schemas that both take")
        numbers = [number for number in self.compiled if only is None or number in only]
        compiled = [self.compiled[number] for number in numbers]
        first = [self.compiled[number] + self.masks[number][0] for number in numbers if self.masks[number]]
        masks = [mask for number in numbers for mask in self.masks[number]]
        for title, times in (("compile", compiled), ("compile and first mask", first), ("mask", masks)):
            times = sorted(times)
            if times:
                at = lambda part: times[min(len(times) - 1, int(len(times) * part))] / 1e6
                print(f"  {title:24}{len(times):7}  p50 {at(.5):8.4f}  p90 {at(.9):8.3f}  p99 {at(.99):8.3f}  "
                      f"p99.9 {at(.999):8.3f}  largest {times[-1] / 1e6:8.3f} ms")


def ours(process, turn, figures):
    for number, schema, fitting in turn:
        process.stdin.write(packed([schema.encode()] + [text.encode() for text in fitting]))
        process.stdin.flush()
        answer = received(process.stdout)
        if answer[0] != b"ok":
            figures.refused += 1
            continue
        masks = [int(part) for part in answer[3].split()] if len(answer) > 3 and answer[3] else []
        figures.add(number, int(answer[1]), masks, [verdict == 49 for verdict in answer[2]])


def theirs(tokenizer, plain, turn, figures, end):
    bitmask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    for number, schema, fitting in turn:
        start = time.thread_time_ns()
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        compiled = time.thread_time_ns() - start
        if matcher.is_error():
            figures.refused += 1
            continue
        masks, verdicts = [], []
        for text in fitting:
            if verdicts:
                matcher = llguidance.LLMatcher(tokenizer, grammar)
            verdicts.append(True)
            for token in plain.encode(text, add_special_tokens=False).ids + [end]:
                start = time.thread_time_ns()
                llguidance.numpy.fill_next_token_bitmask(matcher, bitmask, 0)
                masks.append(time.thread_time_ns() - start)
                if not bitmask[0][token // 32] >> (token % 32) & 1 or not matcher.consume_token(token):
                    verdicts[-1] = False
                    break
        figures.add(number, compiled, masks, verdicts)


def xgrammar_worker(vocabulary, end, pipe):
    """Answers (schema, texts as tokens): times, or None where the schema is refused."""
    import numpy
    import tvm_ffi  # noqa: F401  before the names below, which it would look for

    for name in ("torch", "transformers", "triton"):
        sys.modules.setdefault(name, mock.MagicMock())
    import xgrammar

    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.BYTE_LEVEL, vocab_size=len(vocabulary), stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    bitmask = numpy.full((1, (len(vocabulary) + 31) // 32), -1, dtype=numpy.int32)
    pipe.send(importlib.metadata.version("xgrammar"))
    while True:
        schema, fitting = pipe.recv()
        start = time.thread_time_ns()
        try:
            grammar = compiler.compile_json_schema(schema, strict_mode=False)
        except Exception:
            pipe.send(None)
            continue
        compiled = time.thread_time_ns() - start
        masks, verdicts = [], []
        for tokens in fitting:
            matcher = xgrammar.GrammarMatcher(grammar)
            verdicts.append(True)
            for token in tokens:
                start = time.thread_time_ns()
                matcher.fill_next_token_bitmask(bitmask, 0)
                masks.append(time.thread_time_ns() - start)
                if not bitmask[0][token // 32] >> (token % 32) & 1 or not matcher.accept_token(token):
                    verdicts[-1] = False
                    break
        pipe.send((compiled, masks, verdicts))


class XGrammar:
    """XGrammar in a process of its own: some schemas end it."""

    SECONDS = 2

    def __init__(self, plain, end):
        words = plain.get_vocab(with_added_tokens=True)
        self.vocabulary = [""] * (max(words.values()) + 1)
        for word, token in words.items():
            self.vocabulary[token] = word
        self.plain, self.end, self.lost, self.process = plain, end, 0, None
        self.version = self.begin()

    def begin(self):
        self.pipe, theirs = multiprocessing.Pipe()
        # A fork of a process that has threads may wait for ever.
        self.process = multiprocessing.get_context("spawn").Process(
            target=xgrammar_worker, args=(self.vocabulary, self.end, theirs), daemon=True)
        self.process.start()
        theirs.close()
        return self.pipe.recv()

    def answer(self, turn, figures):
        for number, schema, fitting in turn:
            texts = [self.plain.encode(text, add_special_tokens=False).ids + [self.end] for text in fitting]
            try:
                self.pipe.send((schema, texts))
                found = self.pipe.recv() if self.pipe.poll(self.SECONDS) else False
            except (EOFError, OSError):
                found = False
            if found is False:
                self.lost += 1
                self.process.kill()
                self.process.join()
                self.begin()
                continue
            if found is None:
                figures.refused += 1
                continue
            figures.add(number, *found)


def xgrammar(plain, end):
    """None where it is not installed."""
    try:
        return XGrammar(plain, end)
    except EOFError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("tokenizer")
    parser.add_argument("--suite")
    parser.add_argument("--corpus")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slowest", type=int, default=8)
    arguments = parser.parse_args()
    plain = tokenizers.Tokenizer.from_file(arguments.tokenizer)
    special = [token for token, added in plain.get_added_tokens_decoder().items() if added.special]
    end = min(special)
    their = llguidance.LLTokenizer(pathlib.Path(arguments.tokenizer).read_text(), eos_token=end)
    found = [(number, json.dumps(schema, ensure_ascii=False), fitting)
             for number, (schema, fitting) in enumerate(cases(arguments))]
    mine, other = Figures("this server"), Figures(f"llguidance {llguidance.get_version()}")
    third = xgrammar(plain, end)
    thirds = third and Figures(f"xgrammar {third.version}")
    process = subprocess.Popen(
        [arguments.binary, "masks", arguments.tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for start in range(0, len(found), TURN):
        turn = found[start:start + TURN]
        ours(process, turn, mine)
        theirs(their, plain, turn, other, end)
        if third:
            third.answer(turn, thirds)
    process.stdin.close()
    process.wait()
    print(f"{len(found)} schemas, {sum(len(fitting) for _, _, fitting in found)} texts, {their.vocab_size} tokens")
    mine.print()
    other.print()
    if third:
        thirds.print()
        print(f"  {third.lost} schemas took longer than {third.SECONDS} s or ended the process")
    both = mine.compiled.keys() & other.compiled.keys()
    mine.print(both)
    other.print(both)
    for title, times in (("masks", {number: max(masks, default=0) for number, masks in mine.masks.items()}),
                         ("compiling", mine.compiled)):
        print(f"\nslowest {title} here")
        for number in sorted(times, key=lambda number: -times[number])[:arguments.slowest]:
            print(f"  {times[number] / 1e6:9.3f} ms  {found[number][1][:150]}")


if __name__ == "__main__":
    main()
