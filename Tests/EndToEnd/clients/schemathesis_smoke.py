"""schemathesis: requests made after /openapi.json. What the document allows is taken, and what it does not is refused."""

import os
import subprocess
import sys
from importlib.metadata import version

from smoke import URL, check, main, test

ROOT = URL.removesuffix("/v1")
# The demo model makes no vectors, judges no texts and has no marks for filling in: these refuse every request to it.
OTHER_MODELS = (r"^(/info|/infill|/embed(_all|_sparse)?|/similarity|/predict|/decode|/api/embed(dings)?"
                r"|(/v1|/v2)?/(rerank|reranking|score|embeddings))$")
# They refuse everything, change what is served, ask the hub, or change the protocol.
UNUSABLE = r"^(/api/(create|copy|push|pull|delete)|/models/(pull|load|unload)|/v1/responses)$"
# Bodies with rules between their fields, or between requests (the parts of an upload are as many bytes as it was said to
# have), and items in all forms of OpenAI's API: the document does not describe these.
RULED = (r"^(/v1/chat/completions.*|/v1/completions|/v1/messages.*|/v1/responses/.*|/v1/conversations.*|/v1/batches"
         r"|/completions?|/apply-template|/tokenize|/v1/files|/v1/uploads/.*|/v1/vector_stores.*|/api/(chat|generate))$")


def run(mode, checks, *excluded, hooks=None):
    environment = dict(os.environ)
    if hooks:
        environment["SCHEMATHESIS_HOOKS"] = hooks
    command = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", ROOT + "/openapi.json", "--mode", mode,
        "--checks", "not_a_server_error" + checks, "--max-examples", "20", "--seed", "7", "--no-shrink",
        "--phases", "examples,fuzzing", "--exclude-path-regex", "|".join((OTHER_MODELS, UNUSABLE) + excluded),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    check(result.returncode == 0, result.stdout[-6000:], result.stderr[-1000:])


@test()
def no_valid_request_is_refused():
    run("positive", ",positive_data_acceptance", RULED, hooks="schemathesis_hooks")


@test()
def no_malformed_request_is_accepted():
    run("negative", ",negative_data_rejection")


@test()
def no_conversation_fails_the_server():
    run("positive", "", hooks="schemathesis_hooks")


main("schemathesis " + version("schemathesis"))
