"""Schemas, expressions and grammars. The official suites run in GrammarTests, bad fields in wire_test."""

import json
import time

from reliability.watch import CHAT, answered, begin, body, cpu_seconds, endless, read_event, state, text_of


def schema(content, strict=True):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": strict, "schema": content}}


def refuses(s, field, seconds=2.0, **options):
    before = cpu_seconds(s)
    status, _, data = answered(s, CHAT, body(s, max_tokens=4, **options))
    error = json.loads(data)["error"]
    assert status == 400 and error["param"].startswith(field), (options, data[:300])
    assert cpu_seconds(s) - before < seconds, (error, cpu_seconds(s) - before)
    return error["code"]


def test_numbers_end_at_any_temperature(s):
    for content in ({}, {"type": "number"}, {"type": "integer"}):
        for seed in range(3):
            options = {"temperature": 2, "seed": seed, "max_tokens": 400, "response_format": schema(content)}
            status, _, data = answered(s, CHAT, {**body(s, "1"), **options})
            assert status == 200, data
            choice = json.loads(data)["choices"][0]
            if choice["finish_reason"] == "stop":
                json.loads(choice["message"]["content"])
            if content:
                assert choice["finish_reason"] == "stop" and len(choice["message"]["content"]) <= 64, choice


def test_hostile_expressions_are_refused_in_time(s):
    for pattern in ("(" * 60_000 + ")" * 60_000, "a" * (1 << 20), "(?<=x)*", "*a", "[z-a]", r"\p{Fish}", r"(a)\1", "(",
                    "a{1000000000}", "((a{100}){100}){100}", "[" * 50_000, "a{5,2}", "\\"):
        assert refuses(s, "guided_regex", guided_regex=pattern)
        assert refuses(s, "response_format", response_format=schema({"type": "string", "pattern": pattern}))
    before = cpu_seconds(s)
    # Exponential in the length of the tail: refused, or built within its bound.
    assert answered(s, CHAT, body(s, max_tokens=4, guided_regex="(a|b)*a(a|b){40}"))[0] in (200, 400)
    for pattern in ("(a+)+", "([a-z]+)*!", "(a|a)*b", "(.*)(.*)(.*)x"):
        assert answered(s, CHAT, body(s, max_tokens=30, guided_regex=pattern))[0] == 200, pattern
    assert cpu_seconds(s) - before < 8


def test_bad_references_and_tools_are_refused(s):
    refers = ({"$ref": "#"}, {"$ref": "#/$defs/none"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/passwd"},
              {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
              {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"], "additionalProperties": False})
    for content in refers:
        refuses(s, "response_format", response_format=schema(content))
    for parameters in ({"type": "fish"}, {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
                       {"type": "object", "properties": []}, {"$ref": "#/none"}):
        tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": parameters}}
        refuses(s, "tools[0].function.parameters", tools=[tool])


def test_many_branches_compile_in_time(s):
    cases = ({"enum": [f"v{i}" for i in range(20_000)]}, {"anyOf": [{"const": i} for i in range(10_000)]})
    layered = {"type": "string"}
    for _ in range(30):
        layered = {"anyOf": [layered, layered]}
    for content in cases:
        before = cpu_seconds(s)
        assert answered(s, CHAT, body(s, max_tokens=4, response_format=schema(content)))[0] in (200, 400)
        assert cpu_seconds(s) - before < 6, cpu_seconds(s) - before
    nested = {"$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}}
    nested["$defs"]["d40"] = {"type": "null"}
    nested["$ref"] = "#/$defs/d0"
    before = cpu_seconds(s)
    assert answered(s, CHAT, body(s, max_tokens=4, response_format=schema(nested)))[0] in (200, 400)
    assert cpu_seconds(s) - before < 6, cpu_seconds(s) - before


def test_many_schemas_stay_within_memory(s, count=300):
    rest = state(s)["rss"]
    for number in range(count):
        content = {"type": "object", "properties": {f"p{number}": {"enum": [f"a{number}", "b", number]}},
                   "required": [f"p{number}"], "additionalProperties": False}
        status, _, data = answered(s, CHAT, body(s, max_tokens=1, response_format=schema(content)))
        assert status == 200, data
    assert state(s)["rss"] - rest < 64 << 20
    return f"{count} schemas, {(state(s)['rss'] - rest) >> 20} MiB more"


def test_compiling_hinders_no_stream(s):
    stream = begin(s, endless(s))
    read_event(stream)
    heavy = {"type": "object", "properties": {f"p{i}": {"type": "string", "pattern": f"^[a-z]{{{i + 1},40}}$"}
                                               for i in range(40)}, "additionalProperties": False}
    other = begin(s, body(s, max_tokens=2, response_format=schema(heavy)), "Connection: close")
    gaps, last = [], time.monotonic()
    for _ in range(100):
        read_event(stream)
        gaps.append(time.monotonic() - last)
        last = time.monotonic()
    stream.close()
    assert other.recv(20).split()[1] in (b"200", b"400")
    other.close()
    gaps.sort()
    assert gaps[50] < 0.5, gaps[-5:]
    return f"gaps: median {gaps[50] * 1000:.1f} ms, longest {gaps[-1] * 1000:.1f} ms"


def test_constants_come_back_byte_for_byte(s):
    for value in ("\u00e9", "e\u0301", "\"\\\u2028\n\t", "", "__proto__", "\U0001f600", "\u212a"):
        options = {"response_format": schema({"const": value}), "max_tokens": 60}
        assert json.loads(text_of(answered(s, CHAT, body(s, **options)))) == value
        content = {"type": "object", "properties": {value: {"const": 1}}, "required": [value],
                   "additionalProperties": False, "description": "\"\u2028<|im_end|>"}
        got = text_of(answered(s, CHAT, body(s, response_format=schema(content), max_tokens=60)))
        assert json.loads(got) == {value: 1}, (value, got)
