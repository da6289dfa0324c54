"""lm-eval: log likelihoods and generation of its local-completions model, with the server's own tokenizer."""

from importlib.metadata import version

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

from smoke import MODEL, URL, check, main, test


def model():
    return LocalCompletionsAPI(
        base_url=URL + "/completions", model=MODEL, tokenizer_backend="remote", num_concurrent=1, max_retries=1,
        max_length=512)


def instance(kind, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


@test()
def log_likelihoods():
    likely, unlikely = model().loglikelihood(
        [instance("loglikelihood", "The capital of France is", " Paris"),
         instance("loglikelihood", "The capital of France is", " 7#q")], disable_tqdm=True)
    check(likely[0] <= 0 and unlikely[0] < likely[0], likely, unlikely)


@test()
def generation():
    texts = model().generate_until(
        [instance("generate_until", "one two", {"until": ["\n"], "max_gen_toks": 8, "temperature": 0})],
        disable_tqdm=True)
    check(isinstance(texts[0], str), texts)


main("lm-eval " + version("lm-eval"))
