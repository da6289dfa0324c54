"""Sessions of agents, in the shapes of their public sources: from the second request on, hardly any token is computed
again, although some of them change a line in front in every request."""

import copy
import hashlib
import json
import re
import subprocess

from server import ROOT, Server

SESSIONS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "Fixtures" / "sessions").glob("*.json"))}
LONG = [f"Rule {n}: read the file before you edit it, and say what you did in {n} words." for n in range(80)]
# Clients whose lines the server leaves out or puts behind everything else.
RULES = {"claude-code": "claude-code", "home-assistant": "home-assistant",
         "extended-openai-conversation": "home-assistant", "goose": "goose"}


def filled(value, number):
    """What changes from request to request, and long texts, in their places."""
    text = json.dumps(value)
    text = re.sub(r"\{\{long:(\d+)\}\}", lambda found: "\\n".join(LONG[:int(found[1])]), text)
    text = text.replace("{{hash}}", hashlib.sha256(bytes([number])).hexdigest()[:5]).replace("{{n}}", str(number))
    return json.loads(text.replace("{{time}}", f"08:{number:02}:17"))


def requests(session):
    history = copy.deepcopy(session["first"])
    for number, turn in enumerate([[], *session["turns"]]):
        history += turn
        messages = copy.deepcopy(history)
        if "moving" in session:
            # Behind what stands before the last answer; at the end where there is none.
            last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=len(messages))
            if messages[last - 1]["role"] == "user":
                messages[last - 1]["content"] += "\n" + session["moving"]
            else:
                messages.insert(last, {"role": "user", "content": session["moving"]})
        yield filled({**session["body"], session["list"]: messages}, number)


def send(s, session, body):
    """Tokens of the prompt, those of them that were not computed, and what the server says it ignored."""
    status, headers, answer = s.post(session["path"], {"model": s.model, **body}, [f"User-Agent: {session['agent']}"])
    assert status == 200, answer
    usage = json.loads(answer)["usage"]
    ignored = headers.get("x-mlxserve-ignored", "")
    if "prompt_tokens" in usage:
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], ignored
    if "input_tokens_details" in usage:
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], ignored
    return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"], ignored


def moved(s, session):
    """Tokens of the text that is put behind everything else: it is another one in every request."""
    system = json.dumps(filled(session, 0)["first"][0])
    found = session.get("moving") or re.search(r"Current [Tt]ime[^\\]*", system)
    line = found if isinstance(found, str) else found[0] if found else ""
    _, _, answer = s.post("/tokenize", {"content": "\n\n" + line if line else ""})
    return len(json.loads(answer)["tokens"])


def again(s, session):
    """The part of each prompt after the first that was computed before, and is computed again."""
    shares, before, new = [], None, moved(s, session)
    for body in requests(session):
        tokens, cached, ignored = send(s, session, body)
        if before is not None:
            shares.append(max(0, before - cached - new) / tokens)
        before = tokens
    return shares, ignored


def test_from_the_second_request_on_less_than_two_percent_are_computed_again(s):
    assert len(SESSIONS) >= 8
    for name, session in SESSIONS.items():
        shares, ignored = again(s, session)
        assert len(shares) >= 2 and max(shares) < 0.02, (name, shares)
        rules = [word for word in ignored.split(", ") if word.startswith("moving=")]
        assert rules == ([f"moving={RULES[name]}"] if name in RULES else []), (name, ignored)


def test_a_client_that_keeps_its_lines_is_named_once_counted_and_shown(s):
    flags = [part for rule in sorted(set(RULES.values())) for part in ("--keep-lines", rule)]
    with Server(s.binary, *flags) as other:
        for name in ("claude-code", "home-assistant"):
            shares, ignored = again(other, SESSIONS[name])
            assert min(shares) > 0.5 and "moving=" not in ignored, (name, shares, ignored)
        lines = [line for line in other.log if "prompts move" in line]
        assert len(lines) == 2 and "claude-cli" in lines[0] and "AsyncOpenAI" in lines[1], other.log
        # The log tells where, not what stands there.
        assert "cc_version" not in "".join(other.log)
        _, _, body = other.get("/metrics")
        counted = re.search(r"mlxserve_moving_prompts_total\{[^}]*\} (\d+)", body.decode())
        assert int(counted[1]) == 6, body
        told = subprocess.run([s.binary, "doctor", "--json", "--server", other.base_url], capture_output=True, text=True)
        found = next(line for line in told.stdout.splitlines() if "claude-cli" in line)
        assert "cch=" in found and "are read again (3 prompts)" in found, told
