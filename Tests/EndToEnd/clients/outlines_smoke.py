"""outlines: free text, and answers that fit a type, a choice or a schema, over Chat Completions."""

import json
from importlib.metadata import version

import openai
import outlines
from pydantic import BaseModel

from smoke import CAPITAL, MODEL, PERSON, URL, check, main, test


class Person(BaseModel):
    name: str
    age: int


model = outlines.from_openai(openai.OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=120), MODEL)
OPTIONS = {"temperature": 0, "max_tokens": 200, "extra_body": {"reasoning_effort": "none"}}


@test()
def plain_chat():
    check("Paris" in model(CAPITAL, **OPTIONS))


@test()
def streaming():
    check("Paris" in "".join(model.stream(CAPITAL, **OPTIONS)))


@test("json_schema")
def structured_output():
    text = model(PERSON, Person, **OPTIONS)
    check(isinstance(Person.model_validate_json(text), Person), text)


@test("json_schema")
def a_schema():
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    text = model("Pick one.", outlines.json_schema(json.dumps(schema)), **OPTIONS)
    check(json.loads(text)["n"] in (1, 2), text)


main("outlines " + version("outlines"))
