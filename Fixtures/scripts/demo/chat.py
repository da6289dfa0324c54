"""Rendering through the fixture's chat template, and encoding with the weight of each token in training."""

import pathlib

import jinja2.sandbox
import json
import tokenizers

FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"
END, START, FINISH = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = [END, START, FINISH]
MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def environment():
    """Jinja as transformers sets it up for chat templates."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return env


TEMPLATE = environment().from_string((FIXTURE / "chat_template.jinja").read_text())


def render(item, generate=False):
    """The text of a corpus item; with `generate`, a conversation made ready for the model's reply."""
    if "text" in item:
        return item.get("prompt", "") + item["text"] + END
    return TEMPLATE.render(
        messages=item["messages"], tools=item.get("tools") or None, enable_thinking=item.get("enable_thinking", True), add_generation_prompt=generate
    )


def load_tokenizer():
    return tokenizers.Tokenizer.from_file(str(FIXTURE / "tokenizer.json"))


class Encoder:
    """Turns items into token ids and a weight per token: how much the model learns to write it."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        number = tokenizer.token_to_id
        self.start, self.finish, self.think, self.thought = (number(token) for token in (START, FINISH, "<think>", "</think>"))
        self.opening = [self.start] + tokenizer.encode("assistant\n").ids
        self.empty_thought = tokenizer.encode("<think>\n\n</think>\n\n").ids

    def __call__(self, item):
        ids = self.tokenizer.encode(render(item)).ids
        if "text" in item:
            given = len(self.tokenizer.encode(item["prompt"]).ids) if "prompt" in item else 0
            return ids, [0.0] * given + [1.0] * (len(ids) - given)
        learned = [0.0] * len(ids)
        width, empty = len(self.opening), len(self.empty_thought)
        at = 0
        while at < len(ids):
            if ids[at : at + width] != self.opening:
                at += 1
                continue
            at += width
            if ids[at : at + empty] == self.empty_thought:
                at += empty
            elif ids[at] != self.think:
                at += 1  # An earlier turn without its thought: its first word must not compete with <think>.
            end = ids.index(self.finish, at - 1) + 1
            middle = ids.index(self.thought, at) + 1 if ids[at : at + 1] == [self.think] else at
            for first, last in ((at, middle), (middle, end)):
                learned[first:last] = [self.importance(last - first)] * (last - first)
            at = end
        return ids, learned

    @staticmethod
    def importance(length):
        """Weight of each token of a span: a one-word answer must not drown among stories."""
        return min(2.5, max(0.3, (20 / max(1, length)) ** 0.5))
