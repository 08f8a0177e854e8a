"""Microsoft Agent Framework: its own agent with a scripted chat client, over two sessions."""

import pytest
from framework_parts import asynchronous

pytest.importorskip("agent_framework", reason="needs the extra 'agent-framework'")

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from treering.agent_framework import TreeringContextProvider, TreeringHistoryProvider

pytestmark = pytest.mark.anyio


class ScriptedClient(BaseChatClient):
    """Always says `noted`, and keeps what it was shown."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def _inner_get_response(self, *, messages, stream, options, **given):
        self.shown.append([(str(getattr(one.role, "value", one.role)), one.text) for one in messages])

        async def answer():
            return ChatResponse(messages=[Message(role="assistant", contents=["noted"])])

        return answer()


async def talk(client, *texts, space="ann", session=None):
    chat = ScriptedClient()
    providers = [TreeringHistoryProvider(client), TreeringContextProvider(client, space, top_k=1)]
    agent = Agent(chat, context_providers=providers)
    session = session or agent.create_session()
    for text in texts:
        await agent.run(text, session=session)
    return chat, session


async def test_a_second_session_is_shown_what_the_first_one_told():
    async with asynchronous() as client:
        await talk(client, "my dog is called Rex")
        chat, _ = await talk(client, "what is my dog called")

        [(role, recalled), question] = chat.shown[0]
        assert role == "user"
        assert recalled.startswith("<<treering:recalled")
        assert "my dog is called Rex" in recalled
        assert question == ("user", "what is my dog called")


async def test_another_space_is_shown_nothing_of_it():
    async with asynchronous() as client:
        await talk(client, "my dog is called Rex")
        chat, _ = await talk(client, "what is my dog called", space="bob")

        assert chat.shown == [[("user", "what is my dog called")]]


async def test_the_history_of_a_session_is_there_for_the_next_run_and_in_another_process(tmp_path):
    place = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    async with asynchronous(place) as client:
        _, session = await talk(client, "tea is green", space="one")
    async with asynchronous(place) as client:
        chat, _ = await talk(client, "and now", space="two", session=session)

        assert chat.shown == [[("user", "tea is green"), ("assistant", "noted"), ("user", "and now")]]
        assert len(await TreeringHistoryProvider(client).get_messages(session.session_id)) == 4
        assert await TreeringHistoryProvider(client).get_messages("another") == []


async def test_what_was_recalled_is_not_kept_again():
    async with asynchronous() as client:
        await talk(client, "my dog is called Rex")
        await talk(client, "what is my dog called", "and what is my dog called")

        kept = [memory.content for memory in await client.retrieve("Rex", 9)]
        assert kept == ["my dog is called Rex"]
