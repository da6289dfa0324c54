"""What a document in JSON Schema cannot say of requests; schemathesis calls these for each one that it makes."""

import json
import re

import schemathesis

# The names of things that the server has, or has not: a random one is refused.
CURSORS = ("after", "before", "after_id", "before_id")
LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "max_new_tokens")
# Which model takes the bodies of a path.
ENCODER = r"/(embed|embed_all|similarity|api/embed|api/embeddings|embeddings|v1/embeddings)$"
RERANKER = r"/(v1/|v2/)?(rerank|reranking|score|predict)$"
# Each constrains the answer, and there may be one; a random expression, grammar or schema is none.
CONSTRAINTS = (
    "guided_json", "json_schema", "guided_regex", "guided_choice", "guided_grammar", "grammar", "ebnf", "regex",
    "structural_tag", "structured_outputs", "response_format")
# The smallest of the models here.
VOCABULARY = 80


def plain(value):
    """JSON's 1.0 is an integer to a schema; the server refuses it where OpenAI does. Here it is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        # Whole numbers have 64 bits.
        return max(-1 << 53, min(value, 1 << 53))
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    return value


def worded(value):
    """A text of white space and control characters alone is empty to a search, and has no token for an encoder."""
    if isinstance(value, str):
        return value if any(letter.isprintable() and letter != " " for letter in value) else value and "text"
    if isinstance(value, list):
        return [worded(element) for element in value]
    return {key: worded(element) for key, element in value.items()} if isinstance(value, dict) else value


def model_of(path):
    return "encoder" if re.fullmatch(ENCODER, path) else "reranker" if re.fullmatch(RERANKER, path) else "demo"


def known(tokens):
    """Ids of tokens are below the size of the vocabulary, which is the model's."""
    if isinstance(tokens, list):
        return [known(token) for token in tokens]
    return tokens % VOCABULARY if isinstance(tokens, int) and not isinstance(tokens, bool) else tokens


def shorten(path, body):
    """Long answers would take long, and no fewer tokens are asked for than there may be."""
    for name in LENGTHS:
        if isinstance(body.get(name), int) and (body[name] > 8 or body[name] < 0):
            body[name] = 8
    if path in ("/completion", "/completions"):
        body["n_predict"] = 8
    elif path.startswith("/api/"):
        body["options"] = {"num_predict": 8}
        body.pop("suffix", None)
        body.pop("images", None)
    elif re.fullmatch(r"(/v1)?/(chat/completions|completions|messages)", path):
        body["max_tokens"] = 8
        body.pop("suffix", None)
    if body.get("min_tokens"):
        body["min_tokens"] = 1
    for name in ("n", "n_cmpl"):
        if isinstance(body.get(name), int):
            body[name] = min(body[name], 2)
    body.pop("best_of", None)


def spoken(prompt):
    """A prompt has one token at least; not every model begins with one of its own."""
    if isinstance(prompt, list):
        return [spoken(part) for part in prompt]
    if isinstance(prompt, dict) and "prompt_string" in prompt:
        return {"prompt_string": spoken(prompt["prompt_string"])}
    return prompt or "x" if isinstance(prompt, str) else prompt


def chat(body):
    """Rules between the fields of an answer's request, and between the tools of one."""
    # A result names a call before it, and much else depends on what stands before and after.
    if "prompt" in body and "input" not in body:
        body["prompt"] = spoken(body["prompt"])
    if body.get("messages"):
        body["messages"] = [{"role": "user", "content": "x"}]
        body.pop("continue_final_message", None)
        body.pop("echo", None)
    for name in CONSTRAINTS:
        body.pop(name, None)
    for name in ("stop_token_ids", "allowed_token_ids", "prompt", "tokens", "ids", "input", "inputs"):
        if isinstance(body.get(name), list):
            body[name] = known(body[name])
    if isinstance(body.get("logit_bias"), dict):
        body["logit_bias"] = dict(zip(map(str, range(VOCABULARY)), body["logit_bias"].values()))
    if isinstance(body.get("tools"), list):
        for index, tool in enumerate(body["tools"]):
            if isinstance(tool, dict):
                rename(tool, f"tool{index}")
    if "content" in body or "prompt" in body or "messages" in body:
        # Not where special tokens are added.
        body.pop("parse_special", None)
    if "tool_choice" in body and body["tool_choice"] not in (None, "none", "auto"):
        body.pop("tool_choice")


def rename(tool, name):
    """No two tools have one name, and a random schema need not make sense."""
    inner = tool.get(tool.get("type") or "", tool.get("function", tool))
    if isinstance(inner, dict) and "name" in inner:
        inner["name"] = name
        for schema in ("parameters", "input_schema"):
            if inner.get(schema):
                inner[schema] = {"type": "object"}
        inner.pop("format", None)


def stored(body):
    """Rules between what stands in lists, and between numbers."""
    def members(name):
        found = body.get(name)
        return [member for member in found if isinstance(member, dict)] if isinstance(found, list) else []

    if isinstance(body.get("items"), list):
        body["items"] = [{"type": "message", "role": "user", "content": "x"} for _ in body["items"]]
    for index, request in enumerate(members("requests")):
        request["custom_id"] = str(index)
    for owner in [body, *members("files")]:
        strategy = owner.get("chunking_strategy")
        if isinstance(strategy, dict) and strategy.get("type") == "static" and strategy.get("static"):
            strategy["static"]["chunk_overlap_tokens"] = strategy["static"]["max_chunk_size_tokens"] // 4


def scored(body):
    """Members of documents are named by the request, and prompts by the model's files."""
    if body.pop("rank_fields", None) is not None:
        body["documents"] = ["x"]
    inner = body.get("parameters")
    for owner in (body, inner if isinstance(inner, dict) else {}):
        owner.pop("prompt_name", None)
        if "inputs" in owner or "texts" in owner or "documents" in owner or "text_1" in owner:
            # The models here take few tokens.
            owner["truncate"] = True
    if isinstance(body.get("inputs"), dict):
        # Of /similarity, whose options stand together.
        body["parameters"] = {**(inner if isinstance(inner, dict) else {}), "truncate": True}
    body.pop("instruction", None)
    body.pop("dimensions", None)
    if "query" in body or any(name in body for name in ("text_2", "documents", "data_2")):
        # Some tokens are the model's own marks.
        body.pop("truncate_prompt_tokens", None)
    if body.get("prompt") is not None:
        body.pop("input_type", None)
    # As many texts on both sides, or one.
    for name in ("text_1", "queries", "data_1"):
        if body.get(name) is not None:
            body[name] = "x"


@schemathesis.hook
def map_query(context, query):
    if not query:
        return query
    query = {name: value for name, value in query.items() if name not in CURSORS}
    # Events are asked for together with where they begin.
    return query if query.get("stream") is True else {k: v for k, v in query.items() if k != "starting_after"}


@schemathesis.hook
def map_body(context, body):
    path = context.operation.path
    body = plain(body)
    if model_of(path) == "encoder" or path.endswith("/search"):
        body = worded(body)
    if not isinstance(body, dict):
        return body
    if path == "/v1/files":
        return {name: body[name] for name in ("file", "purpose") if name in body}
    if path == "/v1/chat/completions" and "messages" not in body and "request" in body:
        # Of a form, whose other parts are named by messages.
        return {"request": json.dumps({"model": "demo", "messages": [{"role": "user", "content": "x"}], "max_tokens": 8})}
    if "model" in body or model_of(path) != "demo":
        body["model"] = model_of(path)
    shorten(path, body)
    chat(body)
    stored(body)
    if path.startswith("/v1/responses"):
        # What an earlier request has stored has a name that nobody can guess.
        body = {**body, "input": "x", "previous_response_id": None, "conversation": None}
    scored(body)
    if "input" in body and model_of(path) == "encoder":
        # The model here takes few tokens.
        body["truncate"] = True
    return body
