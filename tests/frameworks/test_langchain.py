"""LangChain: its own tests for vector stores and retrievers, and the history of a chat."""

import pytest
from framework_parts import asynchronous, blocking
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from treering import Denied, InvalidInput
from treering.langchain import TreeringChatMessageHistory, TreeringRetriever, TreeringVectorStore

pytest.importorskip("langchain_tests", reason="needs the package langchain-tests")

from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

TEXTS = ["a wombat digs burrows", "a wombat eats grass", "a wombat sleeps by day", "an emu runs fast"]


@pytest.mark.anyio
class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        with blocking() as client:
            yield TreeringVectorStore(client)


@pytest.mark.anyio
class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def memories(self):
        with blocking() as client:
            for text in TEXTS:
                client.store(text)
            self.client = client
            yield

    @property
    def retriever_constructor(self):
        return TreeringRetriever

    @property
    def retriever_constructor_params(self):
        return {"client": self.client, "k": 3}

    @property
    def retriever_query_example(self):
        return "a wombat"


@pytest.fixture
def client():
    with blocking(channel="user") as opened:
        yield opened


def test_a_search_is_narrowed_by_metadata_and_finds_the_documents_of_its_store_alone(client):
    store, other = TreeringVectorStore(client), TreeringVectorStore(client, name="other")
    store.add_documents([Document("a wombat digs burrows", id="a/b", metadata={"kind": "animal", "legs": 4})])
    store.add_documents([Document("a wombat is a verb", id="2", metadata={"kind": "joke"})])
    other.add_texts(["a wombat elsewhere"])
    assert [one.id for one in store.similarity_search("wombat", filter={"kind": "animal", "legs": 4})] == ["a/b"]
    assert {one.id for one in store.similarity_search("wombat")} == {"a/b", "2"}
    assert [one.id for one in store.similarity_search("of nothing there", filter={"kind": "joke"})] == ["2"]
    assert len(store.similarity_search("of nothing there", k=1)) == 1
    [(best, score), *_] = store.similarity_search_with_relevance_scores("a wombat digs burrows")
    assert best.id == "a/b"
    assert 0 < score <= 1
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("a wombat digs burrows") == [best]


def test_filter_that_is_no_dictionary_is_refused(client):
    with pytest.raises(InvalidInput, match="filter"):
        TreeringVectorStore(client).similarity_search("wombat", filter="a")


def test_documents_are_memories_that_the_client_retrieves_and_a_deleted_one_is_none(client):
    store = TreeringVectorStore.from_texts(TEXTS, client=client, ids=["1", "2", "3", "4"])
    assert client.retrieve("an emu runs fast")[0].content == "an emu runs fast"
    store.delete(["4"])
    assert "an emu runs fast" not in [one.content for one in client.retrieve("an emu runs fast")]
    store.delete()
    assert store.similarity_search("a wombat") == []


def test_a_store_made_of_texts_needs_a_client_and_no_embedding(client):
    with pytest.raises(InvalidInput, match="no client"):
        TreeringVectorStore.from_texts(["a"], None)
    with pytest.raises(InvalidInput, match="the client embeds"):
        TreeringVectorStore.from_texts(["a"], object(), client=client)


def test_what_is_erased_leaves_nothing_behind_where_the_author_may_erase(client):
    store = TreeringVectorStore(client, erase=True)
    store.add_texts(["the echidna is spiny"], ids=["1"])
    store.delete(["1"])
    assert not any("echidna" in str(record.row) for record in client.records.engine.ledger.records())
    with blocking(channel="agent") as agent:
        denied = TreeringVectorStore(agent, erase=True)
        denied.add_texts(["x"], ids=["1"])
        with pytest.raises(Denied, match="erase"):
            denied.delete(["1"])


@pytest.mark.anyio
async def test_the_retriever_takes_filters_and_a_session_and_says_how_well_a_memory_answers():
    async with asynchronous() as client:
        await client.store("the planner chose BWA", {"agent_type": "planner", "session_id": "s1"})
        await client.store("the executor ran BWA", {"agent_type": "executor", "session_id": "s2"})
        found = await TreeringRetriever(client=client, filters={"agent_type": "planner"}).ainvoke("BWA")
        assert [one.page_content for one in found] == ["the planner chose BWA"]
        assert 0 < found[0].metadata["similarity_score"] <= 1
        in_session = await TreeringRetriever(client=client, session_id="s2").ainvoke("BWA")
        assert [one.page_content for one in in_session] == ["the executor ran BWA"]


def test_messages_of_every_kind_come_back_as_they_were(client):
    messages = [
        SystemMessage("be brief"),
        HumanMessage("what is the weather?", id="1", name="Ada"),
        AIMessage("", tool_calls=[{"name": "weather", "args": {"place": "Oslo"}, "id": "c1", "type": "tool_call"}]),
        ToolMessage("rain", tool_call_id="c1"),
        AIMessage([{"type": "text", "text": "it rains"}], response_metadata={"model_name": "m"}),
    ]
    history = TreeringChatMessageHistory("s", client)
    history.add_messages(messages[:2])
    history.add_messages(messages[2:])
    assert TreeringChatMessageHistory("s", client).messages == messages
    assert TreeringChatMessageHistory("other", client).messages == []
    assert {one.content for one in client.retrieve("weather rains", session_id="s")} == {
        "what is the weather?",
        "it rains",
    }
    history.clear()
    assert history.messages == []


def test_a_chain_goes_on_with_the_history_of_its_session_in_another_process(tmp_path):
    space = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    shown = []
    model = FakeListChatModel(responses=["noted", "you said Rex"])
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")])

    def answer(client, question):
        history = TreeringChatMessageHistory("s", client)
        asked = prompt.invoke({"history": history.messages, "question": question})
        shown.append([message.content for message in asked.to_messages()])
        history.add_messages([asked.to_messages()[-1], model.invoke(asked)])

    with blocking(space) as client:
        answer(client, "my dog is Rex")
    with blocking(space) as client:
        answer(client, "who is my dog?")
    assert shown == [["my dog is Rex"], ["my dog is Rex", "noted", "who is my dog?"]]


@pytest.mark.anyio
async def test_the_history_is_asynchronous_too(client):
    history = TreeringChatMessageHistory("s", client, erase=True)
    await history.aadd_messages([HumanMessage("hello there")])
    assert [one.content for one in await history.aget_messages()] == ["hello there"]
    await history.aclear()
    assert not any("hello there" in str(record.row) for record in client.records.engine.ledger.records())
