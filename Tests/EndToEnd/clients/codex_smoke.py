"""Codex itself, started by `mlxserve launch codex`: it mends a file by a command, and keeps a plan."""

import json
import pathlib
import sys
from importlib.metadata import version

import codex_cli_bin
from conducting import conducting, read_again
from smoke import check, main, test

PROGRAM = pathlib.Path(codex_cli_bin.__file__).parent / "bin" / "codex"
USAGE = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
         "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}


def write(step, model, number):
    """One response as its events."""
    response = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "model": model, "output": []}
    yield {"type": "response.created", "response": response}
    output = []
    for index, part in enumerate(step):
        if "text" in part:
            content = [{"type": "output_text", "text": part["text"], "annotations": []}]
            item = {"type": "message", "id": f"msg_{number}_{index}", "role": "assistant", "content": content}
        else:
            item = {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}",
                    "name": part["tool"], "arguments": json.dumps(part["arguments"])}
        item["status"] = "completed"
        output.append(item)
        for kind in ("added", "done"):
            yield {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
    yield {"type": "response.completed",
           "response": {**response, "status": "completed", "output": output, "usage": USAGE}}


def steps(project):
    mend = f"{sys.executable} -c \"p='calc.py'; t=open(p).read(); open(p,'w').write(t.replace('a - b','a + b'))\""
    yield [{"text": "I read the file."}, {"tool": "exec_command", "arguments": {"cmd": "cat calc.py"}}]
    yield [{"tool": "exec_command", "arguments": {"cmd": mend}}]
    yield [{"tool": "exec_command", "arguments": {"cmd": "cat calc.py"}}, {"tool": "exec_command", "arguments": {"cmd": "ls"}}]
    yield [{"text": "It subtracted; now it adds."}]


@test()
def a_session():
    with conducting(write, steps) as (conductor, project, launch):
        result = launch("codex", PROGRAM, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access",
                        "Why does add(2, 3) give -1 in calc.py? Mend it.")
        told = (result.stdout, result.stderr, conductor.refused)
        check(result.returncode == 0 and "now it adds" in result.stdout, *told)
        check(not conductor.refused, *told)
        check("a + b" in (project / "calc.py").read_text(), *told)
        check(len(conductor.asked) == 4, len(conductor.asked))
        check(read_again(conductor) < 0.02, [counts for _, _, counts in conductor.asked])


main("Codex by openai-codex-cli-bin " + version("openai-codex-cli-bin"))
