import asyncio
import logging
from dataclasses import dataclass

import client_parts
import pytest

import treering
from treering.client import (
    MemoryDependencies,
    MemoryState,
    log_tool_runs,
    memory_node,
    nested_memory,
    recalled_memories,
    retrieve_memory,
    store_memory,
)


@dataclass
class State(MemoryState):
    question: str = "kinase"


@dataclass(frozen=True)
class FrozenDependencies:
    memory_client: object
    session_id: str | None = None


@dataclass
class Context:
    deps: object


def holders(client):
    return {
        "state": (State(memory_client=client, memory_session_id="run-1"), "memory_session_id"),
        "dependencies": (MemoryDependencies(memory_client=client, session_id="run-1"), "session_id"),
        "frozen": (FrozenDependencies(client, "run-1"), "session_id"),
        "mapping": ({"memory_client": client, "memory_session_id": "run-1"}, "memory_session_id"),
    }


def session_of(holder, name):
    return holder[name] if isinstance(holder, dict) else getattr(holder, name)


def run(work, **options):
    async def use():
        async with client_parts.asynchronous(**options) as client:
            return await work(client)

    return asyncio.run(use())


async def seen(client, session_id="run-1"):
    return sorted(client_parts.texts(await client.retrieve("kinase", session_id=session_id)))


@pytest.mark.parametrize("kind", ["state", "dependencies", "frozen", "mapping"])
def test_what_a_loop_remembers_its_parent_gets_when_it_has_ended(kind):
    async def work(client):
        holder, name = holders(client)[kind]
        await client.store("Kinase plan", {"session_id": "run-1"})
        async with nested_memory(holder, "refine") as inner:
            session = session_of(inner, name)
            await client.store("Kinase finding", {"session_id": session})
            inside = await seen(client, session), await seen(client)
        assert session_of(holder, name) == "run-1"
        return session, *inside, await seen(client)

    both = ["Kinase finding", "Kinase plan"]
    assert run(work) == ("run-1>refine", both, ["Kinase plan"], both)


def test_loops_nest_and_merge_level_by_level():
    async def work(client):
        deps = MemoryDependencies(memory_client=client, session_id="run-1")
        async with nested_memory(deps, "outer") as outer:
            async with nested_memory(outer, "inner") as inner:
                await store_memory(Context(inner), "Kinase inner")
                assert await retrieve_memory(Context(outer), "kinase") == []
            assert len(await retrieve_memory(Context(outer), "kinase")) == 1
            assert await seen(client) == []
        return inner.session_id, await seen(client)

    assert run(work) == ("run-1>outer>inner", ["Kinase inner"])


def test_loops_side_by_side_do_not_see_each_other():
    async def work(client):
        state = State(memory_client=client, memory_session_id="run-1")
        async with nested_memory(state, "a") as one, nested_memory(state, "b") as other:
            await client.store("Kinase a", {"session_id": one.memory_session_id})
            return await seen(client, other.memory_session_id)

    assert run(work) == []


@pytest.mark.parametrize(
    ("on_failure", "outside", "resumed"),
    [("keep", [], ["Kinase lesson"]), ("merge", ["Kinase lesson"], ["Kinase lesson"]), ("discard", [], [])],
)
def test_what_a_failing_loop_remembered_is_kept_merged_or_discarded(on_failure, outside, resumed):
    async def fail(client, state):
        async with nested_memory(state, "refine", on_failure=on_failure) as inner:
            await client.store("Kinase lesson", {"session_id": inner.memory_session_id})
            raise ValueError("no convergence")

    async def work(client):
        state = State(memory_client=client, memory_session_id="run-1")
        with pytest.raises(ValueError, match="no convergence"):
            await fail(client, state)
        after = await seen(client)
        async with nested_memory(state, "refine") as again:
            inside = await seen(client, again.memory_session_id)
        return after, inside, await seen(client)

    assert run(work) == (outside, resumed, resumed)


def test_a_run_without_a_session_gets_one_for_its_loops():
    async def work(client):
        state = State(memory_client=client)
        async with nested_memory(state, "refine") as inner:
            assert inner.memory_session_id == f"{state.memory_session_id}>refine"
        return state.memory_session_id

    assert run(work).startswith("run-")


def test_without_a_memory_a_loop_gets_what_was_given():
    async def work():
        for holder in (State(), MemoryDependencies(session_id="run-1"), {"memory_session_id": None}):
            async with nested_memory(holder, "refine") as inner:
                assert inner is holder

    asyncio.run(work())


def test_a_merge_that_fails_leaves_the_loop_alone(caplog, monkeypatch):
    async def fails(*_given):
        raise OSError("the disk is gone")

    async def work(client):
        monkeypatch.setattr(client, "merge_nested_context", fails)
        async with nested_memory(State(memory_client=client), "refine") as inner:
            return inner.question

    with caplog.at_level(logging.WARNING):
        assert run(work) == "kinase"
    assert "Merging a nested loop failed" in caplog.text


def test_an_object_without_a_session_is_refused():
    async def work(client):
        holder = type("Holder", (), {"memory_client": client})()
        with pytest.raises(treering.InvalidInput, match="Holder has no field 'session_id'"):
            async with nested_memory(holder, "refine"):
                pass

    run(work)


def test_runs_of_tools_belong_to_the_loop_that_calls_them():
    async def work(client):
        state = State(memory_client=client, memory_session_id="run-1")
        tool = log_tool_runs(lambda kinase: kinase, name="kinase")
        async with nested_memory(state, "outer") as outer:
            async with nested_memory(outer, "inner"):
                tool("ABL1")
            tool("SRC")
        tool("outside")
        found = await client.retrieve("tool kinase executed", session_id="run-1")
        return {one.metadata["parameters"]["kinase"]: one.metadata["session_id"] for one in found}

    assert run(work) == {"ABL1": "run-1>outer>inner", "SRC": "run-1>outer"}


def test_loop_in_node_has_memories_of_the_node():
    @memory_node(store=False)
    async def node(state):
        async with nested_memory(state, "refine"):
            inside = client_parts.texts(recalled_memories())
        return inside, client_parts.texts(recalled_memories())

    async def work(client):
        await client.store("Kinase found")
        return await node(State(memory_client=client))

    assert run(work) == (["Kinase found"], ["Kinase found"])


def test_loop_without_memory_fields_uses_the_memory_of_its_node():
    @memory_node(store=False)
    async def node(state):
        holder = Context(deps=None)
        async with nested_memory(holder, "refine") as inner:
            assert inner is holder
            await store_memory(inner, "Kinase found")
            outside = await seen(state.memory_client)
        return outside, await seen(state.memory_client)

    async def work(client):
        return await node(State(memory_client=client, memory_session_id="run-1"))

    assert run(work) == ([], ["Kinase found"])
