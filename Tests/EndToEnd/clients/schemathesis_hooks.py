"""What a document in JSON Schema cannot say of requests; schemathesis calls these for each one that it makes."""

import schemathesis

# The names of things that the server has, or has not: a random one is refused.
CURSORS = ("after", "before", "after_id", "before_id")
LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "max_new_tokens")


def plain(value):
    """JSON's 1.0 is an integer to a schema; the server refuses it where OpenAI does. Here it is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    return value


@schemathesis.hook
def map_query(context, query):
    return query and {name: value for name, value in query.items() if name not in CURSORS}


@schemathesis.hook
def map_body(context, body):
    body = plain(body)
    if not isinstance(body, dict):
        return body
    for name in LENGTHS:
        # Long answers would take long.
        if isinstance(body.get(name), int) and body[name] > 8:
            body[name] = 8
    # Ids of tokens are below the size of the vocabulary, which is the model's.
    if isinstance(body.get("tokens"), list):
        body["tokens"] = [token % 256 if isinstance(token, int) else token for token in body["tokens"]]
    if body.get("messages"):
        # A result names a call before it, and much else depends on what stands before and after.
        body["messages"] = [{"role": "user", "content": "x"}]
    return body
