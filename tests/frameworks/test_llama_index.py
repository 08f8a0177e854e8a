"""LlamaIndex's own `Memory` and query engine over a space, with its mock model."""

import pytest
from framework_parts import asynchronous, blocking

pytest.importorskip("llama_index.core", reason="needs the extra 'llama-index'")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.query_engine import RetrieverQueryEngine
from sqlalchemy.ext.asyncio import create_async_engine

from treering.llama_index import TreeringMemoryBlock, TreeringNodeRetriever

pytestmark = pytest.mark.anyio


@pytest.fixture
async def chat_database():
    """Where `Memory` keeps its chat buffer; it closes none that it opened by itself."""
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    yield engine
    await engine.dispose()


def memory_over(client, database, session_id="s", **block):
    return Memory.from_defaults(
        session_id=session_id,
        async_engine=database,
        token_limit=60,
        chat_history_token_ratio=0.5,
        token_flush_size=20,
        memory_blocks=[TreeringMemoryBlock(client=client, **block)],
    )


async def talk(memory, count=8):
    for number in range(count):
        await memory.aput_messages(
            [
                ChatMessage(role="user", content=f"fact {number}: sample{number} has {number} reads"),
                ChatMessage(role="assistant", content="noted"),
            ]
        )


async def test_what_left_the_chat_buffer_is_recalled_as_data_in_the_role_of_the_user(chat_database):
    async with asynchronous() as client:
        memory = memory_over(client, chat_database, top_k=1)
        await talk(memory)
        shown = await memory.aget(input="how many reads has sample1")

        assert shown[0].role == "user"
        assert shown[0].content.startswith("<<treering:recalled")
        assert "sample1 has 1 reads" in shown[0].content
        assert not [message for message in shown if message.role == "system"]


@pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecationWarning"
)  # LlamaIndex lists the members of a model
async def test_agent_is_shown_what_left_its_chat_buffer(chat_database):
    async with asynchronous() as client:
        memory = memory_over(client, chat_database, top_k=1)
        agent = FunctionAgent(llm=MockFunctionCallingLLM())
        for fact in ("My dog is called Rex.", "Tea is green.", "Trains leave at nine.", "Snow falls in May."):
            await agent.run(fact, memory=memory)
        state = await agent.run("What is my dog called?", memory=memory)
        (recalled, *_) = await memory.aget(input="What is my dog called?")

        assert str(state) == "What is my dog called?"
        assert "My dog is called Rex." in recalled.content


async def test_a_second_session_recalls_what_the_first_one_told(chat_database):
    async with asynchronous() as client:
        await talk(memory_over(client, chat_database, "monday"))
        shown = await memory_over(client, chat_database, "tuesday", top_k=1).aget(input="how many reads has sample1")
        alone = await memory_over(client, chat_database, "wednesday", across_sessions=False).aget(
            input="how many reads has sample1"
        )

        assert "sample1 has 1 reads" in shown[0].content
        assert alone == []


async def test_a_memory_that_is_reset_keeps_what_the_space_has(chat_database):
    async with asynchronous() as client:
        memory = memory_over(client, chat_database, top_k=1)
        await talk(memory)
        await memory.areset()

        assert "sample1" in (await memory.aget(input="how many reads has sample1"))[0].content


async def test_what_was_recalled_is_not_kept_again():
    async with asynchronous() as client:
        block = TreeringMemoryBlock(client=client)
        await client.store("The dog is called Rex.")
        recalled = await block.aget([ChatMessage(role="user", content="what is the dog called")])
        await block.aput([*recalled, ChatMessage(role="tool", content="called a tool"), ChatMessage(role="user")])

        assert [memory.content for memory in await client.retrieve("dog called", 9)] == ["The dog is called Rex."]


async def test_what_is_recalled_is_shortened_to_the_tokens_there_are():
    async with asynchronous() as client:
        for number in range(3):
            await client.store(f"The dog {number} is called Rex.")
        block = TreeringMemoryBlock(client=client, priority=1)
        recalled = await block.aget([ChatMessage(role="user", content="what is the dog called")])

        assert len(recalled) == 3
        assert await block.atruncate(recalled, 10) == recalled[:2]
        assert await block.atruncate(recalled, 10_000) is None


async def test_follow_up_is_searched_with_the_question_before():
    async with asynchronous() as client:
        block = TreeringMemoryBlock(client=client, top_k=1)
        await block.aput([ChatMessage(role="user", content="The ferry to Elba leaves from Piombino at nine.")])
        asked = [ChatMessage(role="user", content=text) for text in ("Where does the ferry leave?", "And when?")]
        assert await block.aget(asked[1:]) == []
        [recalled] = await block.aget([asked[0], ChatMessage(role="assistant", content="From Piombino."), asked[1]])
        assert "at nine" in recalled.content


async def test_before_anybody_asks_nothing_is_recalled(chat_database):
    async with asynchronous() as client:
        assert await memory_over(client, chat_database).aget() == []


def test_a_query_engine_answers_from_memories():
    with blocking() as client:
        kept = client.store("Kinase inhibitors bind the hinge region.", {"source": "paper"})
        client.store("Kinase assays take two days.", {"source": "protocol"})
        retriever = TreeringNodeRetriever(client, top_k=3, filters={"source": "paper"})
        answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("kinase hinge region")

        assert [node.node.node_id for node in answer.source_nodes] == [kept]
        assert answer.source_nodes[0].score > 0.7
        assert "Kinase inhibitors bind the hinge region." in answer.response
        assert "source: paper" in answer.response
        assert "memory_type" not in answer.response


async def test_a_retriever_may_be_asked_without_blocking():
    async with asynchronous() as client:
        await client.store("Kinase inhibitors bind the hinge region.")
        [node] = await TreeringNodeRetriever(client).aretrieve("kinase hinge region")

        assert node.node.metadata["timestamp"]
