"""llama-index: vectors through its client of OpenAI's API."""

from importlib.metadata import version

from llama_index.embeddings.openai import OpenAIEmbedding

from smoke import TEXTS, check, main, same, served, test, vectors


@test()
def embeddings():
    with served("encoder-tiny") as url:
        client = OpenAIEmbedding(model_name="encoder-tiny", api_base=url, api_key="none", max_retries=0)
        check(same(client.get_text_embedding_batch(TEXTS), vectors(url)))
        check(same([client.get_query_embedding(TEXTS[0])], vectors(url)[:1]))


main("llama-index-embeddings-openai " + version("llama-index-embeddings-openai"))
