"""Cohere's own SDK: rerank, which parses id, results and meta."""

from importlib.metadata import version

import cohere

from smoke import TEXTS, check, main, served, test


@test()
def documents_in_order():
    with served("reranker-tiny") as url:
        for client in (cohere.ClientV2(api_key="none", base_url=url.removesuffix("/v1")),
                       cohere.Client(api_key="none", base_url=url.removesuffix("/v1"))):
            answer = client.rerank(model="reranker-tiny", query="who stole the tarts", documents=TEXTS + ["a third"])
            scores = [entry.relevance_score for entry in answer.results]
            check(scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores), answer)
            check(sorted(entry.index for entry in answer.results) == [0, 1, 2], answer)
            check(answer.id and answer.meta.api_version.version == "2" and answer.meta.billed_units.search_units == 1, answer)
            two = client.rerank(
                model="reranker-tiny", query="who stole the tarts", documents=TEXTS + ["a third"], top_n=2)
            check([entry.index for entry in two.results] == [entry.index for entry in answer.results][:2], two)


main("cohere " + version("cohere"))
