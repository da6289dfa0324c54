"""The official OpenAI SDK, with strict validation of responses, against the demo model."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import openai

from server import expected

YES = "Is the capital of France Paris? Answer Yes or No."
CAPITAL = "What is the capital of France?"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather",
        "parameters": {
            "type": "object",
            "properties": {"location": {"type": "string"}},
            "required": ["location"],
        },
    },
}


def text(completion):
    return completion.choices[0].message.content


def refused(call, status, param=None, code=None):
    """The error that `call` raises; checks its four members."""
    try:
        call()
    except openai.APIStatusError as error:
        assert error.status_code == status, f"{error.status_code}: {error.message}"
        assert error.body.keys() == {"message", "type", "param", "code"}, error.body
        assert param is None or error.param == param, f"names {error.param}"
        assert code is None or error.code == code, f"code {error.code}"
        return error
    raise AssertionError(f"accepted, expected {status}")


def joined(chunks, member="content"):
    return "".join(getattr(c.choices[0].delta, member, None) or "" for c in chunks if c.choices)


# Models


def test_models_are_listed_and_retrieved(s):
    models = s.client.models.list().data
    assert [m.id for m in models] == [s.model]
    assert s.client.models.retrieve(s.model) == models[0]
    refused(lambda: s.client.models.retrieve("nope"), 404, code="model_not_found")


# Chat


def test_chat_answers(s):
    completion = s.chat(CAPITAL)
    assert "Paris" in text(completion), text(completion)
    assert completion.id.startswith("chatcmpl-")
    assert completion.model == s.model
    assert completion.choices[0].finish_reason == "stop"
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.input_tokens == usage.prompt_tokens and usage.output_tokens == usage.completion_tokens
    assert usage.output_tokens_details["reasoning_tokens"] == 0


def test_chat_thinks_and_says_yes(s):
    completion = s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": YES}], temperature=0)
    message = completion.choices[0].message
    assert message.content == "Yes", message.content
    assert message.reasoning_content
    assert "think>" not in message.content + message.reasoning_content
    reasoning = completion.usage.completion_tokens_details.reasoning_tokens
    assert 0 < reasoning < completion.usage.completion_tokens


def test_thinking_is_switched_off_in_four_ways(s):
    switches = [
        {"reasoning_effort": "none"},
        {"extra_body": {"thinking": False}},
        {"extra_body": {"thinking": {"type": "disabled"}}},
        {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
    ]
    for switch in switches:
        completion = s.client.chat.completions.create(
            model=s.model, messages=[{"role": "user", "content": YES}], temperature=0, **switch)
        assert text(completion) == "Yes", switch
        assert not hasattr(completion.choices[0].message, "reasoning_content"), switch
        assert completion.usage.completion_tokens_details.reasoning_tokens == 0


def test_reasoning_can_be_hidden(s):
    completion = s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": YES}], temperature=0,
        extra_body={"include_reasoning": False})
    assert text(completion) == "Yes"
    assert not hasattr(completion.choices[0].message, "reasoning_content")
    assert completion.usage.completion_tokens_details.reasoning_tokens > 0


def test_a_limit_inside_the_reasoning(s):
    completion = s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": YES}], temperature=0, max_tokens=6)
    choice = completion.choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.content == "" and choice.message.reasoning_content
    assert completion.usage.completion_tokens == 6


def test_text_parts_equal_a_string(s):
    parts = [{"role": "user", "content": [{"type": "text", "text": CAPITAL}]}]
    assert text(s.chat(parts)) == text(s.chat(CAPITAL))


def test_developer_is_system(s):
    def with_role(role):
        return s.chat([{"role": role, "content": "You are a helpful assistant."}, {"role": "user", "content": CAPITAL}])

    assert text(with_role("developer")) == text(with_role("system"))
    assert with_role("developer").usage.prompt_tokens == with_role("system").usage.prompt_tokens


def test_a_conversation_is_remembered(s):
    completion = s.chat([
        {"role": "user", "content": "My name is Alice."},
        {"role": "assistant", "content": "Hello, Alice! Nice to meet you.", "reasoning_content": "A greeting."},
        {"role": "user", "content": "What is my name?"},
    ])
    assert "Alice" in text(completion), text(completion)


def test_all_optional_fields_may_be_null(s):
    names = ["stop", "seed", "logit_bias", "tools", "tool_choice", "response_format", "metadata", "n", "top_p",
             "max_tokens", "logprobs", "top_logprobs", "stream_options", "user", "presence_penalty"]
    assert text(s.chat(CAPITAL, extra_body={name: None for name in names})) == text(s.chat(CAPITAL))


def test_hints_change_nothing(s):
    completion = s.chat(
        CAPITAL, metadata={"a": "b"}, user="u", safety_identifier="i", prompt_cache_key="k", service_tier="auto",
        store=True, verbosity="low", prediction={"type": "content", "content": "x"})
    assert text(completion) == text(s.chat(CAPITAL))


# Length and stops


def test_three_names_of_the_token_limit(s):
    for limit in [{"max_tokens": 3}, {"max_completion_tokens": 3}, {"extra_body": {"max_output_tokens": 3}}]:
        completion = s.chat(CAPITAL, **limit)
        assert completion.usage.completion_tokens == 3, limit
        assert completion.choices[0].finish_reason == "length"
    assert s.chat(CAPITAL, max_completion_tokens=2, max_tokens=5).usage.completion_tokens == 2


def test_a_stop_string_is_cut_off(s):
    whole = text(s.chat(CAPITAL))
    # Any place and length: most of these begin or end inside a token.
    for start, length in [(1, 3), (2, 7), (5, 1), (len(whole) - 4, 3)]:
        stop = whole[start : start + length]
        completion = s.chat(CAPITAL, stop=["never seen", stop])
        assert text(completion) == whole[: whole.index(stop)], stop
        assert completion.choices[0].finish_reason == "stop"
        chunks = list(s.chat(CAPITAL, stop=stop, stream=True))
        assert joined(chunks) == whole[: whole.index(stop)], stop


def test_stop_null_and_empty_mean_none(s):
    assert text(s.chat(CAPITAL, stop=[])) == text(s.chat(CAPITAL, stop=None))


def test_ignore_eos_gives_the_exact_length(s):
    completion = s.chat(CAPITAL, max_tokens=20, extra_body={"ignore_eos": True})
    assert completion.usage.completion_tokens == 20
    assert completion.choices[0].finish_reason == "length"
    assert "<|" not in text(completion)


# Sampling


def test_the_same_seed_gives_the_same_text(s):
    def sample(seed, **options):
        return s.chat("Tell me a story.", temperature=2, seed=seed, max_tokens=80, **options)

    assert text(sample(7)) == text(sample(7))
    assert len({text(sample(seed)) for seed in range(8)}) > 1
    both = sample(7, n=2)
    assert [choice.index for choice in both.choices] == [0, 1]
    assert both.choices[0].message.content == text(sample(7))
    assert both.choices[1].message.content == text(sample(8))
    assert both.usage.prompt_tokens == sample(7).usage.prompt_tokens


def test_a_banned_token_never_comes(s):
    favourite = expected("yes_without_thinking")["greedy_ids"][0]
    assert text(s.chat(YES)) == "Yes"
    assert not text(s.chat(YES, logit_bias={str(favourite): -100})).startswith("Yes")


def test_log_probabilities(s):
    entries = s.chat(CAPITAL, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    whole = text(s.chat(CAPITAL))
    assert b"".join(bytes(e.bytes) for e in entries).decode() == whole
    assert "".join(e.token for e in entries) == whole
    for entry in entries:
        top = [t.logprob for t in entry.top_logprobs]
        assert len(top) == 3 and top == sorted(top, reverse=True) and top[0] <= 0
        assert entry.top_logprobs[0].token == entry.token and entry.logprob == top[0]
    chunks = list(s.chat(CAPITAL, logprobs=True, top_logprobs=3, stream=True))
    streamed = []
    for chunk in chunks:
        choice = chunk.choices[0]
        tokens = choice.logprobs.content if choice.logprobs else []
        assert "".join(t.token for t in tokens) == (choice.delta.content or "")
        streamed += tokens
    assert streamed == entries


# Streams


def test_a_stream_has_the_documented_order(s):
    chunks = list(s.client.chat.completions.create(
        model=s.model, messages=[{"role": "user", "content": YES}], temperature=0, stream=True,
        stream_options={"include_usage": True}))
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1
    assert chunks[0].object == "chat.completion.chunk"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.choices[0].delta.role is None for c in chunks[1:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert not chunks[-2].choices[0].delta.content
    assert all(c.usage is None for c in chunks[:-1])
    kinds = ["r" if getattr(c.choices[0].delta, "reasoning_content", None) else "c" for c in chunks[1:-2]]
    assert kinds == sorted(kinds, reverse=True) and "r" in kinds
    assert joined(chunks) == "Yes"


def test_streamed_and_whole_answers_agree(s):
    for content in [YES, CAPITAL, "What is 2+2?", "Tell me a story.", "Wie heißt die Hauptstadt? 🏛️"]:
        for options in [{}, {"temperature": 1, "seed": 3}]:
            common = {"model": s.model, "messages": [{"role": "user", "content": content}], "max_tokens": 60,
                      "temperature": 0, **options}
            whole = s.client.chat.completions.create(**common)
            chunks = list(s.client.chat.completions.create(
                **common, stream=True, stream_options={"include_usage": True}))
            message = whole.choices[0].message
            assert joined(chunks) == (message.content or ""), content
            assert joined(chunks, "reasoning_content") == (getattr(message, "reasoning_content", None) or "")
            # How much of a prompt is found in the cache depends on what was asked before.
            for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
                assert getattr(chunks[-1].usage, field) == getattr(whole.usage, field), field
            assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_the_stream_helper_assembles_the_answer(s):
    with s.client.chat.completions.stream(
        model=s.model, messages=[{"role": "user", "content": CAPITAL}], temperature=0, reasoning_effort="none", n=2
    ) as stream:
        final = stream.get_final_completion()
    assert len(final.choices) == 2
    assert final.choices[0].message.content == text(s.chat(CAPITAL)) == final.choices[1].message.content


def test_no_usage_without_the_option(s):
    assert all(chunk.usage is None and chunk.choices for chunk in s.chat(CAPITAL, stream=True))


# Tools


def call_weather(s, **options):
    return s.chat("What is the weather in Paris?", tools=[WEATHER], **options)


def test_a_tool_round_trip(s):
    completion = call_weather(s)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    assert choice.message.content is None
    call = choice.message.tool_calls[0]
    assert call.id.startswith("call_") and call.type == "function" and call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"location": "Paris"}, call.function.arguments
    answer = s.chat(
        [
            {"role": "user", "content": "What is the weather in Paris?"},
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21, "sky": "sunny"}'},
        ],
        tools=[WEATHER])
    assert answer.choices[0].finish_reason == "stop"
    assert "21" in text(answer) or "sunny" in text(answer), text(answer)


def test_a_streamed_tool_call_equals_the_whole_one(s):
    whole = call_weather(s).choices[0].message.tool_calls
    chunks = list(call_weather(s, stream=True))
    deltas = [t for c in chunks for t in c.choices[0].delta.tool_calls or []]
    assert [t.index for t in deltas if t.id] == list(range(len(whole)))
    for index, call in enumerate(whole):
        parts = [t for t in deltas if t.index == index]
        assert [t.function.name for t in parts if t.function.name] == [call.function.name]
        assert "".join(t.function.arguments or "" for t in parts) == call.function.arguments
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_tool_choice_none_means_no_call(s):
    completion = call_weather(s, tool_choice="none")
    assert completion.choices[0].message.tool_calls is None
    assert "<tool_call>" not in text(completion)


def test_one_call_when_parallel_calls_are_off(s):
    calls = s.chat(
        "What is the weather in Paris and London?", tools=[WEATHER], parallel_tool_calls=False
    ).choices[0].message.tool_calls
    assert len(calls or []) <= 1


def test_empty_tools_are_no_tools(s):
    assert text(s.chat(CAPITAL, tools=[])) == text(s.chat(CAPITAL))


# Legacy completions


def test_completions_take_text_and_token_ids(s):
    case = expected("yes_without_thinking")
    from_ids = s.complete(case["prompt_ids"], max_tokens=8)
    assert from_ids.choices[0].text == "Yes" and from_ids.choices[0].finish_reason == "stop"
    assert from_ids.usage.prompt_tokens == len(case["prompt_ids"])
    from_text = s.complete(case["prompt_text"], max_tokens=8)
    assert from_text.choices[0].text == "Yes"
    many = s.complete([case["prompt_text"], "The capital of"], max_tokens=4, n=2)
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    assert many.choices[0].text == many.choices[1].text == "Yes"
    assert many.choices[2].text == many.choices[3].text == s.complete("The capital of", max_tokens=4).choices[0].text
    assert s.complete([case["prompt_ids"], case["prompt_ids"]], max_tokens=8).choices[1].text == "Yes"


def test_completions_default_to_sixteen_tokens(s):
    assert s.complete("The", extra_body={"ignore_eos": True}).usage.completion_tokens == 16


def test_echo_gives_the_prompt_and_its_log_probabilities(s):
    case = expected("capital")
    ids = case["prompt_ids"] + case["greedy_ids"][:-1]
    for limit in (0, 1):
        choice = s.complete(ids, max_tokens=limit, echo=True, logprobs=1).choices[0]
        scores = choice.logprobs
        assert len(scores.tokens) == len(scores.token_logprobs) == len(scores.top_logprobs) == len(scores.text_offset)
        assert scores.token_logprobs[0] is None and scores.top_logprobs[0] is None
        assert scores.text_offset == sorted(scores.text_offset)
        assert choice.text.endswith(case["text"]), choice.text
        # What the model would have said itself is its likeliest token at every step.
        first = len(case["prompt_ids"])
        for index in range(first, len(ids)):
            assert list(scores.top_logprobs[index]) == [scores.tokens[index]], index
    text_echo = s.complete("The capital of France", max_tokens=2, echo=True).choices[0].text
    assert text_echo == "The capital of France" + s.complete("The capital of France", max_tokens=2).choices[0].text


def test_completions_stream(s):
    options = {"max_tokens": 8, "echo": True, "logprobs": 2, "stop": ["?"]}
    whole = s.complete("The capital of", **options)
    chunks = list(s.complete("The capital of", **options, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text
    assert [t for c in chunks if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.tokens] == \
        whole.choices[0].logprobs.tokens
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


# Errors


def test_errors_name_their_field(s):
    cases = [
        ({"model": "nope"}, 404, "model"),
        ({"model": ""}, 400, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, 400,
         "messages[0].content[0].type"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": "5"}, 400, "max_tokens"),
        ({"temperature": 2.1}, 400, "temperature"),
        ({"top_p": 1.5}, 400, "top_p"),
        ({"n": 10000}, 400, "n"),
        ({"top_logprobs": 3}, 400, "top_logprobs"),
        ({"logit_bias": {"999999999": 1}}, 400, "logit_bias"),
        ({"reasoning_effort": "banana"}, 400, "reasoning_effort"),
        ({"response_format": {"type": "sound"}}, 400, "response_format.type"),
        ({"tools": [{"type": "custom"}]}, 400, "tools[0].custom"),
        ({"tool_choice": "required"}, 400, "tool_choice"),
        ({"tools": [WEATHER, WEATHER]}, 400, "tools[1].function.name"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({"functions": []}, 400, "functions"),
        ({"web_search_options": {}}, 400, "web_search_options"),
    ]
    for change, status, param in cases:
        body = {"model": s.model, "messages": [{"role": "user", "content": "x"}], **change}
        refused(lambda: s.client.chat.completions.create(**body), status, param)


def test_a_prompt_beyond_the_context_is_refused_even_for_a_stream(s):
    long = "word " * 5000
    for stream in (False, True):
        error = refused(lambda: s.chat(long, stream=stream), 400, "messages", "context_length_exceeded")
        assert "2048" in error.message, error.message
    refused(lambda: s.complete(long), 400, "prompt", "context_length_exceeded")
    assert s.chat(CAPITAL, max_tokens=10**12).choices[0].finish_reason == "stop"


# Many clients


def test_eight_clients_get_identical_answers(s):
    alone = text(s.chat(CAPITAL))
    story = text(s.chat("Tell me a story.", temperature=1, seed=5, max_tokens=40))
    with ThreadPoolExecutor(16) as pool:
        greedy = [pool.submit(s.chat, CAPITAL) for _ in range(8)]
        sampled = [pool.submit(s.chat, "Tell me a story.", temperature=1, seed=5, max_tokens=40) for _ in range(8)]
        assert {text(f.result()) for f in greedy} == {alone}
        assert {text(f.result()) for f in sampled} == {story}


def test_concurrent_streams_do_not_mix(s):
    countries = ["France", "Italy", "Spain", "Germany", "Japan", "Norway"]
    questions = [f"What is the capital of {name}?" for name in countries]
    alone = [text(s.chat(question)) for question in questions]

    async def stream(client, question):
        pieces = await client.chat.completions.create(
            model=s.model, messages=[{"role": "user", "content": question}], temperature=0, reasoning_effort="none",
            stream=True)
        return joined([piece async for piece in pieces])

    async def all_streams():
        async with s.make_async_client() as client:
            return await asyncio.gather(*(stream(client, q) for q in questions * 4))

    assert asyncio.run(all_streams()) == alone * 4


def test_a_client_that_leaves_frees_its_place(s):
    endless = {"max_tokens": 1500, "extra_body": {"ignore_eos": True}}
    for _ in range(10):
        stream = s.chat("Tell me a story.", stream=True, **endless)
        for _ in range(3):
            next(stream)
        stream.close()
    begin = time.monotonic()
    assert "Paris" in text(s.chat(CAPITAL))
    assert time.monotonic() - begin < 10
