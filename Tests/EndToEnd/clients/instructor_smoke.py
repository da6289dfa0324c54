"""instructor: typed answers, from text, by tools, and by a schema."""

from importlib.metadata import version

import instructor
from openai import OpenAI
from pydantic import BaseModel

from smoke import CAPITAL, MODEL, PERSON, URL, check, main, test


class Person(BaseModel):
    name: str
    age: int


class Draft(BaseModel):
    """Of a partial answer nothing is required, and the demo model makes use of that."""

    name: str | None = None
    age: int | None = None


def create(mode, **options):
    client = instructor.from_openai(OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=120), mode=mode)
    return client, dict(
        model=MODEL, temperature=0, reasoning_effort="none", max_tokens=200, max_retries=0,
        messages=[{"role": "user", "content": PERSON}], **options)


def extracted(mode):
    client, options = create(mode)
    person = client.chat.completions.create(response_model=Person, **options)
    check(isinstance(person, Person), person)


@test()
def plain_chat():
    client, options = create(instructor.Mode.MD_JSON)
    options["messages"] = [{"role": "user", "content": CAPITAL}]
    answer = client.chat.completions.create(response_model=None, **options)
    check("Paris" in answer.choices[0].message.content, answer)


@test()
def streaming():
    client, options = create(instructor.Mode.MD_JSON)
    options["messages"] = [{"role": "user", "content": CAPITAL}]
    chunks = client.chat.completions.create(response_model=None, stream=True, **options)
    check("Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))


@test("forced tools")
def by_a_tool():
    extracted(instructor.Mode.TOOLS)


@test("json_schema")
def by_a_json_object():
    extracted(instructor.Mode.JSON)


@test("json_schema")
def by_a_schema():
    extracted(instructor.Mode.JSON_SCHEMA)


@test("forced tools")
def a_streamed_partial():
    client, options = create(instructor.Mode.TOOLS)
    drafts = list(client.chat.completions.create_partial(response_model=Draft, **options))
    check(len(drafts) > 1, drafts)


main("instructor " + version("instructor"))
