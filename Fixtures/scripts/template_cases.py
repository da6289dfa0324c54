# Renders the demo model's chat template with jinja2 into templates/demo.jsonl.
# Usage: python3 template_cases.py > ../templates/demo.jsonl     (needs jinja2 3.1)
import json
from pathlib import Path

from jinja_cases import environment

SOURCE = (Path(__file__).parent.parent / "models/demo/chat_template.jinja").read_text()
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city, \"now\" <b>",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Köln", "日本"]}, "days": {"type": "integer", "maximum": 1.5}},
            "required": ["city"],
        },
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2}}}
USER = {"role": "user", "content": "Hi  "}
RESULT = {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "{\"temp\": 21}"}


def raise_exception(message):
    raise ValueError(message)


CASES = {
    "user": {"messages": [USER]},
    "system": {"messages": [{"role": "system", "content": "Be brief.\n"}, USER]},
    "no-generation": {"messages": [USER, {"role": "assistant", "content": "Ho"}], "add_generation_prompt": False},
    "thinking-off": {"messages": [USER], "enable_thinking": False},
    "thinking-on": {"messages": [USER], "enable_thinking": True},
    "tools": {"messages": [USER], "tools": [TOOL, TOOL]},
    "tools-system": {"messages": [{"role": "system", "content": "Sys"}, USER], "tools": [TOOL]},
    "call": {"messages": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT], "tools": [TOOL]},
    "two-calls": {
        "messages": [USER, {"role": "assistant", "content": "Both.", "tool_calls": [CALL, CALL]}, RESULT, RESULT],
        "tools": [TOOL],
    },
    "call-done": {
        "messages": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT,
                     {"role": "assistant", "content": "21"}, USER],
        "tools": [TOOL],
    },
    "thought-in-text": {"messages": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHo"}, USER]},
    "thought-in-field": {"messages": [USER, {"role": "assistant", "content": "Ho", "reasoning_content": "hm"}, USER]},
    "thought-before-call": {
        "messages": [USER, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [CALL]}, RESULT],
        "tools": [TOOL],
    },
    "unicode": {"messages": [{"role": "user", "content": "e\u0301 é \u00a0日本 😀\r\n{{ 1 }}"}]},
}

if __name__ == "__main__":
    template = environment.from_string(SOURCE)
    for name, case in CASES.items():
        variables = {"add_generation_prompt": True, "eos_token": "<|im_end|>"} | case
        row = {"case": name, "variables": variables}
        try:
            row["output"] = template.render(**variables, raise_exception=raise_exception)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(row, ensure_ascii=False))
