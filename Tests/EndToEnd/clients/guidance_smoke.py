"""guidance: its client for OpenAI's wire; generation, and JSON that fits a schema."""

import json
from importlib.metadata import version

import guidance
from guidance import assistant, gen, user
from guidance.models import OpenAI

from smoke import CAPITAL, MODEL, PERSON, URL, check, main, test

model = OpenAI(MODEL, base_url=URL, api_key="none", echo=False)
SCHEMA = {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": False,
}


@test()
def plain_chat():
    lm = model
    with user():
        lm += CAPITAL
    with assistant():
        lm += gen("answer", max_tokens=200, temperature=0.0)
    check("Paris" in lm["answer"], str(lm))


@test("json_schema")
def structured_output():
    lm = model
    with user():
        lm += PERSON
    with assistant():
        lm += guidance.json(name="person", schema=SCHEMA, temperature=0.0, max_tokens=200)
    check(set(json.loads(lm["person"])) == {"name", "age"}, str(lm))


main("guidance " + version("guidance"))
