"""schemathesis: requests made after /openapi.json. What the document allows is taken, and what it does not is refused."""

import os
import pathlib
import subprocess
import sys
from importlib.metadata import version

from serving import MODELS, serving
from smoke import check, main, test

CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")
# They refuse everything, change what is served, ask the hub, or change the protocol.
UNUSABLE = r"^(/api/(create|copy|push|pull|delete)|/models/(pull|load|unload))$"
# The models here have no sparse vectors and no marks for filling in. A response is continued, an upload completed and a
# batch ended by what earlier requests have made: /v1/responses is asked by GET for a change of protocol alone.
RULED = r"^(/embed_sparse|/infill|/v1/responses|/v1/responses/compact|/v1/uploads/.*|/v1/messages/batches/.*/cancel)$"


def run(mode, checks, *excluded, hooks=None):
    environment = dict(os.environ)
    if hooks:
        environment["SCHEMATHESIS_HOOKS"] = hooks
    command = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"), "--config-file", str(CONFIG),
        "run", ROOT + "/openapi.json", "--mode", mode,
        "--checks", "not_a_server_error" + checks, "--max-examples", "20", "--seed", "7", "--no-shrink",
        "--phases", "examples,fuzzing", "--exclude-path-regex", "|".join((UNUSABLE,) + excluded),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    # What failed, with the request and its answer; a page of warnings follows.
    failures = result.stdout.partition("= FAILURES =")[2].partition("= WARNINGS =")[0]
    check(result.returncode == 0, failures or result.stdout[-6000:], result.stderr[-1000:])


@test()
def no_valid_request_is_refused():
    run("positive", ",positive_data_acceptance", RULED, hooks="schemathesis_hooks")


@test()
def no_malformed_request_is_accepted():
    run("negative", ",negative_data_rejection", r"^/infill$")


@test()
def no_conversation_fails_the_server():
    run("positive", "", r"^/infill$", hooks="schemathesis_hooks")


flags = []
for name, folder in (("demo", "demo"), ("encoder", "encoder-tiny"), ("reranker", "reranker-tiny")):
    flags += ["--model", f"{name}={MODELS / folder}", "--preload", name]
with serving(os.environ["MLXSERVE_BINARY"], *flags) as url:
    ROOT = url.removesuffix("/v1")
    main("schemathesis " + version("schemathesis"))
