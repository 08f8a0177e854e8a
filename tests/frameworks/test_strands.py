"""Strands Agents: its own memory manager and agent with a scripted model, over two sessions."""

import pytest
from framework_parts import asynchronous

pytest.importorskip("strands", reason="needs the extra 'strands'")

from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.models.model import Model

from treering.strands import TreeringMemoryStore

pytestmark = pytest.mark.anyio


class ScriptedModel(Model):
    """Always says `noted`, and keeps what it was shown."""

    def __init__(self):
        self.shown = []

    def update_config(self, **given): ...

    def get_config(self):
        return {"model_id": "scripted"}

    async def structured_output(self, *given, **named):
        yield {}

    async def stream(self, messages, tool_specs=None, system_prompt=None, **given):
        self.shown.append([part.get("text", "") for message in messages for part in message["content"]])
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "noted"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


async def talk(client, text, space="ann"):
    model, manager = ScriptedModel(), MemoryManager(stores=[TreeringMemoryStore(client, space)])
    agent = Agent(model=model, plugins=[manager], callback_handler=None)
    await agent.invoke_async(text)
    await manager.flush()
    return model, agent


async def test_a_second_session_is_shown_what_the_first_one_told():
    async with asynchronous() as client:
        await talk(client, "my dog is called Rex")
        model, agent = await talk(client, "what is my dog called")

        assert any("Rex" in text for text in model.shown[-1])
        assert not any("Rex" in str(message) for message in agent.messages)


async def test_another_space_is_shown_nothing_of_it():
    async with asynchronous() as client:
        await talk(client, "my dog is called Rex")
        model, _ = await talk(client, "what is my dog called", space="bob")

        assert not any("Rex" in text for text in model.shown[-1])


async def test_a_message_that_comes_again_is_kept_once_and_the_same_words_later_are_kept_too():
    async with asynchronous() as client:
        store = TreeringMemoryStore(client)
        messages = [{"role": "user", "content": [{"text": "my dog is called Rex"}]}]
        for number in (0, 0, 4):
            await store.add_messages(messages, AddMessagesContext(sequence_numbers=[number]))

        assert len(await store.search("dog called", {"max_search_results": 9})) == 2


async def test_what_is_added_is_found_with_its_metadata():
    async with asynchronous() as client:
        manager = MemoryManager(stores=[TreeringMemoryStore(client)])
        await manager.add("tea is green", {"metadata": {"source": "book"}})
        [found] = await manager.search("green tea")

        assert (found.content, found.store_name, found.metadata["source"]) == ("tea is green", "treering", "book")
        assert [memory.content for memory in await client.retrieve("green tea")] == ["tea is green"]
