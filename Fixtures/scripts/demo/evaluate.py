"""Prints the 4-bit model's greedy accuracy on phrasings, names, cities and sums kept out of the training corpus."""

import argparse
import json

import chat
import make_corpus
import oracle


def turn_messages(turn):
    return [{"role": "user", "content": turn.user}, {"role": "assistant", "content": turn.answer}]


def problem(writer, skill, thinking):
    """An item without its last reply, and the reply that counts as right."""
    writer.known, writer.tools, writer.weather, writer.time = {}, [], None, None
    system = writer.system()
    messages = [] if system is None else [{"role": "system", "content": system}]
    if skill in ("tool call", "tool result"):
        while not (writer.weather or writer.time):
            writer.offer_tools()
        turn = writer.call()
        while not turn.calls:
            turn = writer.call()
        messages.append({"role": "user", "content": turn.user})
        if skill == "tool call":
            right = "\n".join(
                "<tool_call>\n" + json.dumps({"name": c["function"]["name"], "arguments": c["function"]["arguments"]}, ensure_ascii=False) + "\n</tool_call>"
                for c in turn.calls
            )
        else:
            reasoned = {"reasoning_content": turn.thought} if thinking else {}
            messages.append({"role": "assistant", "content": "", "tool_calls": turn.calls} | reasoned)
            messages += [{"role": "tool", "content": result} for result in turn.results]
            right = turn.answer
    else:
        if skill == "tools unused":
            writer.offer_tools()
            turn = writer.capital()
        elif skill.startswith("recall"):
            messages += turn_messages(writer.tell("name" if "name" in skill else None))
            if "later" in skill:
                messages += turn_messages(writer.capital()) + turn_messages(writer.sum())
            turn = writer.recall(next(iter(writer.known)))
        else:
            turn = getattr(writer, skill)()
        messages.append({"role": "user", "content": turn.user})
        right = turn.answer
    return {"messages": messages, "tools": writer.tools, "enable_thinking": thinking}, right


SKILLS = [
    "yes_no", "capital", "capital_of", "sum", "recall name", "recall name later", "recall other", "tool call", "tool result", "tools unused", "no_tool",
    "unknown", "echo", "greeting", "identity", "difference", "product", "count", "colour_of", "opposite", "animal", "calendar", "json_object", "sentence", "poem", "story",
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=50, help="cases per skill")
    arguments.add_argument("--seed", type=int, default=2026)
    arguments.add_argument("--failures", type=int, default=0, help="failures to print per skill")
    options = arguments.parse_args()
    reader = oracle.Oracle()
    writer = make_corpus.Writer(options.seed, held_out=True)
    print("| skill | thinking | not thinking |\n|---|---|---|")
    totals = [0, 0]
    for skill in SKILLS:
        row = []
        for thinking in (True, False):
            problems = [problem(writer, skill, thinking) for _ in range(options.cases)]
            replies = reader.replies([chat.render(item, generate=True) for item, _ in problems])
            wrong = [(item, right, reply) for (item, right), reply in zip(problems, replies) if oracle.parts(reply)[1] != right]
            row.append(f"{100 * (1 - len(wrong) / len(problems)):.0f} %")
            totals[not thinking] += len(problems) - len(wrong)
            for item, right, reply in wrong[: options.failures]:
                print("   wrong:", repr(item["messages"][-1]["content"]), "->", repr(reply), "instead of", repr(right))
        print(f"| {skill.replace('_', ' ')} | {row[0]} | {row[1]} |", flush=True)
    print("| all | " + " | ".join(f"{100 * n / len(SKILLS) / options.cases:.1f} %" for n in totals) + " |")


if __name__ == "__main__":
    main()
