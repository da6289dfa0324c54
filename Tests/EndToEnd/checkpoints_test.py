"""Every real checkpoint of the shared data, served by the binary: the reference's ids and text."""

import json
import os
import pathlib

from server import ROOT, Server

SHARED = pathlib.Path(os.environ.get("MLXSERVE_SHARED", ROOT.parent / "shared")) / "data" / "models"
# Steps whose two likeliest tokens are nearer than this may go either way. References in half precision also
# rounded their activations and sums, on this kind of machine by several percent.
MARGIN, HALF_MARGIN = 1e-3, 0.2


def test_every_real_checkpoint_gives_the_references_tokens(server):
    if not SHARED.is_dir():
        return "SKIPPED: the shared data folder is absent"
    served = whole = 0
    for folder in sorted(SHARED.iterdir()):
        if not (folder / "golden.json").exists():
            continue
        golden = json.loads((folder / "golden.json").read_text())
        margin = HALF_MARGIN if folder.name.endswith(("bf16", "f16")) else MARGIN
        steps = [step for step, value in enumerate(golden["greedy_margins"]) if value < margin]
        sure = min(steps, default=len(golden["greedy_ids"]))
        # The references were computed in float32.
        other = Server(server.binary, "--compute", "exact", model=folder)
        try:
            for prompt in (golden["prompt_ids"], golden["prompt"]):
                answer = other.complete(prompt, max_tokens=len(golden["greedy_ids"]), logprobs=0).choices[0]
                assert len(answer.logprobs.tokens) == len(golden["greedy_ids"]), folder.name
                # Offsets count from the end of the prompt.
                offsets = answer.logprobs.text_offset
                known = offsets[sure] - offsets[0] if sure < len(offsets) else len(answer.text)
                text = golden["prompt"] + answer.text[:known]
                assert golden["text"].startswith(text) and known >= 16, (folder.name, text, golden["text"])
                whole += known == len(answer.text)
        finally:
            assert other.stop() == 0, folder.name
        served += 1
    assert served >= 15, served
    return f"{served} checkpoints, {whole} of {2 * served} answers compared to the end"


def test_weights_in_the_file_and_in_memory_give_the_same_answers(server):
    answers = []
    for where in ("auto", "mapped"):
        other = Server(server.binary, "--weights", where)
        try:
            choice = other.complete("The sea is", max_tokens=40, temperature=0, logprobs=2).choices[0]
            answers.append((choice.text, choice.logprobs.token_logprobs))
        finally:
            assert other.stop() == 0
    assert answers[0] == answers[1] and len(answers[0][1]) > 1, answers
