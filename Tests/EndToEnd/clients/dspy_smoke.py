"""dspy: a signature in both of its forms, and an output that fits a type."""

import os
from importlib.metadata import version

# Else a package of it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy

from smoke import CAPITAL, MODEL, URL, check, main, test

lm = dspy.LM(
    f"openai/{MODEL}", api_base=URL, api_key="none", temperature=0, max_tokens=300, cache=False, num_retries=0,
    extra_body={"reasoning_effort": "none"})
SCHEMA = {
    "type": "object", "properties": {"answer": {"type": "string"}, "certain": {"type": "boolean"}},
    "required": ["answer", "certain"], "additionalProperties": False,
}


@test()
def plain_chat():
    check("Paris" in lm(CAPITAL)[0])


@test("json_schema")
def a_signature_by_schema():
    """The demo model knows no such prompts, and the package asks for no schema from a model that it has not heard of: the
    request does, and what counts is that the answer has the fields of the signature."""
    own = lm.copy(extra_body={"reasoning_effort": "none", "guided_json": SCHEMA})
    with dspy.context(lm=own, adapter=dspy.JSONAdapter()):
        found = dspy.Predict("question -> answer: str, certain: bool")(question=CAPITAL)
    check(isinstance(found.answer, str) and isinstance(found.certain, bool), found)


main("dspy " + version("dspy"))
