"""Asks a running server by the openai package: BASE=http://127.0.0.1:8080/v1 python ask.py "Why is the sky blue?" """

import os
import sys

from openai import OpenAI, OpenAIError

try:
    client = OpenAI(base_url=os.environ.get("BASE", "http://127.0.0.1:8080/v1"), api_key="none")
    model = next((model.id for model in client.models.list()), None) or sys.exit("ask.py: the server has no model")
    print(f"model: {model}")
    question = {"role": "user", "content": sys.argv[1] if len(sys.argv) > 1 else "Why is the sky blue?"}
    for chunk in client.chat.completions.create(model=model, messages=[question], max_tokens=40, stream=True):
        if chunk.choices and chunk.choices[0].delta.content:
            print(chunk.choices[0].delta.content, end="", flush=True)
    print()

    # An answer that fits a schema.
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Is Paris in France?"}],
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}})
    print(answer.choices[0].message.content)
except OpenAIError as error:  # No server, a model for embeddings, a model that follows no schema.
    sys.exit(f"ask.py: {error}")
