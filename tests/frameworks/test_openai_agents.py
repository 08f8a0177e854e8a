"""Sessions of the OpenAI Agents SDK, driven by its own runner with a scripted model."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool, set_tracing_disabled
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from framework_parts import asynchronous, blocking
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from treering import Denied
from treering.openai_agents import TreeringSession, recall_before_model

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", autouse=True)
def without_tracing():
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


class ScriptedModel(Model):
    """Answers what its script says, and keeps what it was shown."""

    def __init__(self, *script):
        self.script = list(script)
        self.shown = []

    async def get_response(self, system_instructions, input, *given, **named):  # noqa: A002 - the SDK's name
        self.shown.append(list(input))
        step = self.script.pop(0)
        return ModelResponse([step if not isinstance(step, str) else said(step)], Usage(), None)

    def stream_response(self, *given, **named):
        raise AssertionError("nothing is streamed here")


def said(text):
    part = ResponseOutputText(annotations=[], text=text, type="output_text", logprobs=[])
    return ResponseOutputMessage(id="m1", content=[part], role="assistant", status="completed", type="message")


def call_of(tool, arguments="{}"):
    return ResponseFunctionToolCall(name=tool, arguments=arguments, call_id="call-1", type="function_call", id="f1")


def words(items):
    return [item["content"] if isinstance(item.get("content"), str) else item["content"][0]["text"] for item in items]


def message(text, role="user"):
    return {"role": role, "content": text}


async def test_the_second_run_of_a_session_shows_the_model_the_first_one():
    model = ScriptedModel("Rex it is.", "Your dog is Rex.")
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        agent = Agent("helper", model=model)
        await Runner.run(agent, "my dog is Rex", session=session)
        await Runner.run(agent, "what is my dog called", session=session)

        assert words(model.shown[1]) == ["my dog is Rex", "Rex it is.", "what is my dog called"]
        assert words(await session.get_items())[-1] == "Your dog is Rex."


async def test_a_session_is_a_session_to_the_sdk():
    async with asynchronous() as client:
        assert isinstance(TreeringSession("user-1", client), Session)


async def test_calls_of_tools_come_back_word_for_word():
    @function_tool
    def sample(name: str) -> str:
        """Give a sample."""
        return f"{name}: 42 reads"

    model = ScriptedModel(call_of("sample", '{"name": "A"}'), "42 reads.", "Still 42.")
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        agent = Agent("helper", model=model, tools=[sample])
        await Runner.run(agent, "how many reads has A", session=session)
        kept = await session.get_items()
        await Runner.run(agent, "and now", session=session)

    assert [item.get("type", item.get("role")) for item in kept] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert model.shown[2][: len(kept)] == kept


async def test_the_last_items_come_oldest_first():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        await session.add_items([message(str(number)) for number in range(12)])

        assert words(await session.get_items(3)) == ["9", "10", "11"]
        assert await session.get_items(0) == []
        session.session_settings = SessionSettings(limit=2)
        assert words(await session.get_items()) == ["10", "11"]


async def test_session_settings_may_be_a_dictionary():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client, session_settings={"limit": 1})
        await session.add_items([message("one"), message("two")])

        assert words(await session.get_items()) == ["two"]
        with pytest.raises(TypeError, match="limitt"):
            TreeringSession("user-1", client, session_settings={"limitt": 1})


async def test_what_is_popped_is_gone_and_what_follows_takes_its_place():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        await session.add_items([message("one"), message("two")])

        assert (await session.pop_item())["content"] == "two"
        await session.add_items([message("three")])
        assert words(await session.get_items()) == ["one", "three"]


async def test_a_cleared_session_is_empty_and_can_be_used_again():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        await session.add_items([message("one")])
        await session.clear_session()

        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([message("two")])
        assert words(await session.get_items()) == ["two"]


async def test_sessions_do_not_see_each_other():
    async with asynchronous() as client:
        await TreeringSession("user/1", client).add_items([message("one")])

        assert await TreeringSession("user", client).get_items() == []
        assert await TreeringSession("user/1/2", client).get_items() == []


async def test_a_session_is_there_when_the_space_is_opened_again(tmp_path):
    place = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    async with asynchronous(place) as client:
        await TreeringSession("user-1", client).add_items([message("one")])

    async with asynchronous(place) as client:
        assert words(await TreeringSession("user-1", client).get_items()) == ["one"]


async def test_what_was_said_in_a_session_is_recalled_in_another_one_and_is_not_kept_again():
    model = ScriptedModel("Rex it is.", "Rex.")
    async with asynchronous() as client:
        agent = Agent("helper", model=model)
        await Runner.run(agent, "my dog is called Rex", session=TreeringSession("monday", client))
        tuesday = TreeringSession("tuesday", client)
        asking = RunConfig(call_model_input_filter=recall_before_model(client, top_k=1))
        await Runner.run(agent, "what is my dog called", session=tuesday, run_config=asking)

        recalled, question = words(model.shown[1])
        assert "my dog is called Rex" in recalled
        assert recalled.startswith("<<treering:recalled")
        assert question == "what is my dog called"
        assert words(await tuesday.get_items()) == ["what is my dog called", "Rex."]


async def test_a_cleared_session_is_recalled_no_more():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client)
        await session.add_items([message("my dog is called Rex")])
        assert await client.retrieve("my dog is called")
        await session.clear_session()

        assert await client.retrieve("my dog is called") == []


async def test_an_erasing_session_leaves_nothing_of_what_it_drops():
    async with asynchronous(channel="user") as client:
        session = TreeringSession("user-1", client, erase=True)
        await session.add_items([message("one"), message("two")])
        await session.pop_item()
        await session.clear_session()

        held = client.sync.records.engine.ledger.records()
        assert not [record for record in held if record.table == "segment"]


async def test_who_may_not_erase_is_told_so():
    async with asynchronous() as client:
        session = TreeringSession("user-1", client, erase=True)
        await session.add_items([message("one")])

        with pytest.raises(Denied):
            await session.clear_session()


def test_processes_that_add_at_once_lose_nothing(tmp_path):
    place = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}

    def add(who):
        with blocking(place) as client:
            session = TreeringSession("user-1", client)
            for number in range(5):
                asyncio.run(session.add_items([message(f"{who} {number} a"), message(f"{who} {number} b")]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    with blocking(place) as client:
        kept = words(asyncio.run(TreeringSession("user-1", client).get_items()))

    assert sorted(kept) == sorted(f"{who} {number} {part}" for who in range(4) for number in range(5) for part in "ab")
    assert all(first[:-1] == second[:-1] for first, second in zip(kept[::2], kept[1::2], strict=True))
