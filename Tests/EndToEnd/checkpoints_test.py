"""Every real checkpoint of the shared data, served by the binary: the reference's ids and text."""

import json
import os
import pathlib

from server import ROOT, Server

SHARED = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data" / "models"
# Families and formats with issues of their own.
LATER = ("mixtral",)
# Steps whose two likeliest tokens are nearer than this may go either way.
MARGIN = 1e-3


def test_every_real_checkpoint_gives_the_references_tokens(server):
    if not SHARED.is_dir():
        return "SKIPPED: the shared data folder is absent"
    served = 0
    for folder in sorted(SHARED.iterdir()):
        if not (folder / "golden.json").exists() or any(word in folder.name for word in LATER):
            continue
        golden = json.loads((folder / "golden.json").read_text())
        margins = golden["greedy_margins"]
        sure = next((step for step, margin in enumerate(margins) if margin < MARGIN), len(margins))
        other = Server(server.binary, model=folder)
        try:
            for prompt in (golden["prompt_ids"], golden["prompt"]):
                answer = other.complete(prompt, max_tokens=len(golden["greedy_ids"]), logprobs=0).choices[0]
                tokens = answer.logprobs.tokens
                assert len(tokens) >= sure, (folder.name, len(tokens), sure)
                if sure == len(margins):
                    assert golden["text"].endswith(answer.text.rstrip()) or answer.text in golden["text"], (
                        folder.name, answer.text, golden["text"])
                else:
                    certain = "".join(tokens[: sure]).strip()
                    assert certain in golden["text"], (folder.name, certain, golden["text"])
        finally:
            assert other.stop() == 0, folder.name
        served += 1
    assert served >= 15, served
    return f"{served} checkpoints"
