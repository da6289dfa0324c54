"""Notes search in 40 lines: python3 notes_search.py FOLDER "question", with a server at MLXSERVE_URL."""

import os
import pathlib
import sys

from openai import OpenAI, OpenAIError

client = OpenAI(base_url=os.environ.get("MLXSERVE_URL", "http://127.0.0.1:8080") + "/v1", api_key="none")


def store_of(folder):
    """The folder's vector store; files that are new or were changed since are sent to it."""
    name = str(folder)
    store = next((s for s in client.vector_stores.list() if s.name == name), None) or client.vector_stores.create(name=name)
    known = {f.attributes["path"]: f for f in client.vector_stores.files.list(store.id)}
    for path in sorted(folder.rglob("*.md")) + sorted(folder.rglob("*.txt")):
        relative, changed = str(path.relative_to(folder)), path.stat().st_mtime
        old = known.pop(relative, None)
        if old and old.attributes["changed"] == changed:
            continue
        if old:
            client.files.delete(old.id)
        sent = client.files.create(file=path, purpose="assistants")
        added = client.vector_stores.files.create_and_poll(
            sent.id, vector_store_id=store.id, attributes={"path": relative, "changed": changed},
            chunking_strategy={"type": "static", "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 0}})
        added.last_error and sys.exit(f"notes_search.py: {relative}: {added.last_error.message}")
    for gone in known.values():
        client.files.delete(gone.id)
    return store


try:
    for hit in client.vector_stores.search(
            store_of(pathlib.Path(sys.argv[1]).resolve()).id, query=sys.argv[2], max_num_results=5, extra_body={"explain": True}):
        print(f"{hit.score:.2f}  {hit.attributes['path']}  {hit.why['summary']}")
        print("      " + " ".join((hit.why["sentence"] or {"text": hit.content[0].text})["text"].split())[:200])
except OpenAIError as error:  # No server, or one without a model for embeddings.
    sys.exit(f"notes_search.py: {error}")
