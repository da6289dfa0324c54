"""Validates sampled answers with the `jsonschema` package, which knows nothing of the grammar.

    MLXSERVE_MEASURE=1 swift test --filter CorpusTests > log && python3 validate_samples.py log

`pip install "jsonschema[format]==4.26.0"`. The log has lines `SAMPLE <schema number> <answer>`.
"""
import decimal
import json
import pathlib
import sys

import jsonschema

# Exact decimals: with floats the package takes 8.86 for no multiple of 0.01.
def loads(text):
    return json.loads(text, parse_float=decimal.Decimal)


corpus = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "corpus.jsonl"
schemas = [loads(line) for line in corpus.read_text().splitlines()]
validators = {}
count = wrong = 0
for line in open(sys.argv[1], encoding="utf-8", errors="surrogateescape", newline="\n"):
    if not line.startswith("SAMPLE "):
        continue
    _, number, text = line.rstrip("\n").split(" ", 2)
    schema = schemas[int(number)]["schema"]
    if number not in validators:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        if any(word in json.dumps(schema, default=str) for word in ('"definitions"', '"items": [')) and "$schema" not in schema:
            kind = jsonschema.Draft7Validator
        validators[number] = kind(schema, format_checker=kind.FORMAT_CHECKER)
    count += 1
    problems = list(validators[number].iter_errors(loads(text)))
    if problems:
        wrong += 1
        print(schemas[int(number)]["name"], text, problems[0].message[:200])
print(count, "answers,", wrong, "invalid")
sys.exit(1 if wrong or not count else 0)
