"""Claude Code itself, started by `mlxserve launch claude`: it mends a file, looks for tools, and asks a helper."""

import json
import pathlib
from importlib.metadata import version

import claude_agent_sdk
from conducting import conducting, read_again
from smoke import check, main, test

PROGRAM = pathlib.Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def write(step, model, number):
    """One answer of the Messages API as its events."""
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    yield {"type": "message_start", "message": message}
    for index, part in enumerate(step):
        if "text" in part:
            block, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": part["text"]}]
        elif "thinking" in part:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": part["thinking"]},
                      {"type": "signature_delta", "signature": "bWx4"}]
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": part["tool"], "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(part["input"])}]
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any("tool" in part for part in step) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
           "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}


def steps(project):
    file = str(project / "calc.py")
    yield [{"thinking": "I read the file."}, {"tool": "Read", "input": {"file_path": file}},
           {"tool": "ToolSearch", "input": {"query": "select:WebFetch,Monitor", "max_results": 5}}]
    yield [{"text": "It subtracts."},
           {"tool": "Edit", "input": {"file_path": file, "old_string": "a - b", "new_string": "a + b"}},
           {"tool": "Bash", "input": {"command": "ls", "description": "list"}}]
    yield [{"tool": "Write", "input": {"file_path": str(project / "test_calc.py"), "content": "import calc\n"}}]
    yield [{"text": "It subtracted; now it adds."}]


@test()
def a_session():
    with conducting(write, steps) as (conductor, project, launch):
        result = launch("claude", PROGRAM, "-p", "Why does add(2, 3) give -1 in calc.py? Mend it.",
                        "--allowedTools", "Read,Edit,Write,Bash(ls:*),ToolSearch")
        told = (result.stdout, result.stderr, conductor.refused)
        check(result.returncode == 0 and "now it adds" in result.stdout, *told)
        check(not conductor.refused, *told)
        check("a + b" in (project / "calc.py").read_text() and (project / "test_calc.py").exists(), *told)
        check(len(conductor.asked) == 4, len(conductor.asked))
        # Its search has found two tools, and the prompt before what it found is not read again.
        first, last = (len(conductor.asked[index][0]["tools"]) for index in (0, -1))
        check(last == first + 2, first, last)
        check(read_again(conductor) < 0.02, [counts for _, _, counts in conductor.asked])


main("Claude Code by claude-agent-sdk " + version("claude-agent-sdk"))
