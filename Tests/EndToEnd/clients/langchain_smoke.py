"""langchain-openai: invoke, stream, tools, structured output, over Chat Completions and over Responses."""

from importlib.metadata import version

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

from smoke import CAPITAL, MODEL, PERSON, SUNNY, TEXTS, URL, WEATHER, check, main, same, served, test, vectors


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(location: str) -> str:
    """Get the current weather"""
    return SUNNY


def model(**options):
    return ChatOpenAI(
        model=MODEL, base_url=URL, api_key=SecretStr("none"), temperature=0, max_retries=0, timeout=120,
        **options)


chat = model(reasoning_effort="none", max_completion_tokens=200)


@test()
def plain_chat():
    answer = chat.invoke(CAPITAL)
    check("Paris" in answer.content and answer.usage_metadata["output_tokens"] > 0, answer)


@test()
def streaming():
    text = "".join(chunk.content for chunk in chat.stream(CAPITAL))
    check(text == chat.invoke(CAPITAL).content, text)


@test()
def a_tool_round_trip():
    bound = chat.bind_tools([get_weather])
    question = HumanMessage(WEATHER)
    answer = bound.invoke([question])
    check(answer.tool_calls[0]["args"] == {"location": "Paris"}, answer)
    result = ToolMessage(SUNNY, tool_call_id=answer.tool_calls[0]["id"])
    check("21" in bound.invoke([question, answer, result]).content)


@test("json_schema")
def structured_output():
    check(isinstance(chat.with_structured_output(Person, method="json_schema").invoke(PERSON), Person))


@test("forced tools")
def structured_output_by_a_tool():
    check(isinstance(chat.with_structured_output(Person, method="function_calling").invoke(PERSON), Person))


@test("responses")
def responses():
    llm = model(use_responses_api=True, reasoning={"effort": "none"})
    check("Paris" in llm.invoke(CAPITAL).text)
    check("Paris" in "".join(chunk.text for chunk in llm.stream(CAPITAL)))


@test()
def embeddings():
    with served("encoder-tiny") as url:
        # Else it counts with the tokenizer of OpenAI's models, which it downloads, and sends ids of that.
        client = OpenAIEmbeddings(
            model="encoder-tiny", base_url=url, api_key=SecretStr("none"), check_embedding_ctx_length=False)
        check(same(client.embed_documents(TEXTS), vectors(url)))
        check(same([client.embed_query(TEXTS[0])], vectors(url)[:1]))


main("langchain-openai " + version("langchain-openai"))
