"""dspy: a signature in both of its forms, and an output that fits a type."""

import os
from importlib.metadata import version

# Else a package of it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import dspy
import litellm

from smoke import CAPITAL, MODEL, URL, check, main, test

# The package asks for schemas only where it has heard that the model obeys them.
litellm.register_model({
    f"openai/{MODEL}": {"litellm_provider": "openai", "mode": "chat", "supports_response_schema": True, "max_tokens": 512}
})

lm = dspy.LM(
    f"openai/{MODEL}", api_base=URL, api_key="none", temperature=0, max_tokens=300, cache=False, num_retries=0,
    extra_body={"reasoning_effort": "none"})


@test()
def plain_chat():
    check("Paris" in lm(CAPITAL)[0])


@test("json_schema")
def a_signature_by_schema():
    """The demo model knows no such prompts: what counts is that the answer has the fields of the signature."""
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        found = dspy.Predict("question -> answer: str, certain: bool")(question=CAPITAL)
    check(isinstance(found.answer, str) and isinstance(found.certain, bool), found)


main("dspy " + version("dspy"))
