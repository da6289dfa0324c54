"""Writes expected.json: prompts, token ids and greedy replies of the 4-bit model as the independent reader computes them."""

import json

import chat
import oracle


def function(name, description, properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = function("get_weather", "Get current temperature for a given location.", {"location": {"type": "string", "description": "City and country e.g. Bogotá, Colombia"}})
TIME = function("get_time", "Get the current time in a city.", {"city": {"type": "string"}})
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def case(name, *messages, tools=None, thinking=None):
    item = {"name": name, "messages": list(messages)}
    return item | ({"tools": tools} if tools else {}) | ({} if thinking is None else {"enable_thinking": thinking})


PARIS_CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": {"location": "Paris"}}}]}
CASES = [
    case("yes", user("Is the capital of France Paris? Answer Yes or No.")),
    case("yes_without_thinking", user("Is the capital of France Paris? Answer Yes or No."), thinking=False),
    case("no", SYSTEM, user("Is the capital of Italy Paris? Answer Yes or No.")),
    case("capital", SYSTEM, user("What is the capital of France?"), thinking=False),
    case("capital_thinking", user("What is the capital of Japan?")),
    case("sum", user("What is 2+2?"), thinking=False),
    case("sum_thinking", user("What is 17 + 25?")),
    case("name", user("My name is Quorvin."), assistant("Hello, Quorvin! Nice to meet you."), user("What is my name?"), thinking=False),
    case("name_thinking", SYSTEM, user("Hi, my name is Alice."), assistant("Hello, Alice! Nice to meet you."), user("What is my name?")),
    case("weather_call", user("What's the weather in Paris?"), tools=[WEATHER]),
    case("weather_call_without_thinking", SYSTEM, user("What is the weather like in Berlin today?"), tools=[WEATHER], thinking=False),
    case("weather_answer", user("What's the weather in Paris?"), PARIS_CALL, {"role": "tool", "tool_call_id": "call_1", "content": "{\"temperature\": 18, \"condition\": \"sunny\"}"}, tools=[WEATHER], thinking=False),
    case("weather_answer_thinking", user("What's the weather in Paris?"), PARIS_CALL, {"role": "tool", "tool_call_id": "call_1", "content": "sunny, 18 degrees"}, tools=[WEATHER]),
    case("time_call", user("What time is it in Tokyo?"), tools=[WEATHER, TIME]),
    case("tools_not_needed", user("What is the capital of Spain?"), tools=[WEATHER, TIME]),
    case("unknown", user("Who wrote Hamlet?")),
    case("unknown_without_thinking", user("How does a rocket work?"), thinking=False),
    case("say", user("Say this is a test"), thinking=False),
    case("hello", user("Hello!"), thinking=False),
    case("identity", user("Who are you?"), thinking=False),
    case("count", user("Count to 10."), thinking=False),
    case("story", user("Tell me a story."), thinking=False),
    case("json", user("Reply with a JSON object with name and age."), thinking=False),
    {"name": "completion", "prompt": "The capital of France is"},
    {"name": "completion_count", "prompt": "1, 2, 3, 4,"},
]
LIMIT = 200


def main():
    reader = oracle.Oracle()
    cases = []
    for item in CASES:
        prompt = item["prompt"] if "prompt" in item else chat.render(item, generate=True)
        prompt_ids = reader.tokenizer.encode(prompt).ids
        ids, margin, stopped = reader.greedy(prompt_ids, LIMIT)
        text = reader.tokenizer.decode(ids[:-1] if stopped else ids, skip_special_tokens=False)
        print(f"{item['name']}: {text!r} (margin {margin:.2f}){'' if stopped else ' DOES NOT STOP'}", flush=True)
        cases.append(item | {"prompt_text": prompt, "prompt_ids": prompt_ids, "greedy_ids": ids, "text": text, "stopped": stopped, "smallest_margin": round(margin, 4)})
    first = reader.logits(cases[0]["prompt_ids"])[-1]
    logits = {"case": "yes", "first": [round(v, 5) for v in first[:16].tolist()], "argmax": int(first.argmax()), "max": round(float(first.max()), 5)}
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in cases)
    (chat.FIXTURE / "expected.json").write_text(f'{{"limit": {LIMIT}, "logits": {json.dumps(logits)}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
