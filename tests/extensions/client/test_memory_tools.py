import asyncio
import inspect
from dataclasses import dataclass

import client_parts
import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import treering
from treering.client import (
    AgentProfile,
    BlockingMemoryClient,
    MemoryConfig,
    MemoryDependencies,
    MemoryState,
    memory_node,
    memory_tools,
    retrieve_memory,
    store_memory,
)


@dataclass
class Context:
    deps: object


def with_memory(work, config=None, **fields):
    """Run `work(ctx, client)` with dependencies that have a client."""

    async def run():
        async with client_parts.asynchronous(config) as client:
            return await work(Context(MemoryDependencies(memory_client=client, **fields)), client)

    return asyncio.run(run())


def defaults(function):
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def test_what_an_agent_stores_it_retrieves():
    async def work(ctx, client):
        stored = await store_memory(ctx, "BWA needs an index", {"tool": "bwa"}, importance=0.9)
        return stored, await retrieve_memory(ctx, "BWA index")

    planner = AgentProfile(agent_type="planner")
    stored, (found,) = with_memory(work, session_id="run-1", agent_profile=planner)
    assert set(stored) == {"success", "memory_id", "timestamp"}
    assert stored["success"] is True
    assert set(found) == {"content", "metadata", "similarity", "timestamp"}
    assert found["content"] == "BWA needs an index"
    assert 0.7 <= found["similarity"] <= 1
    assert found["timestamp"] == found["metadata"]["timestamp"]
    told = {name: found["metadata"][name] for name in ("agent_type", "session_id", "importance", "tool")}
    assert told == {"agent_type": "planner", "session_id": "run-1", "importance": 0.9, "tool": "bwa"}


def test_without_a_profile_the_agent_is_unknown_and_its_importance_is_half():
    async def work(ctx, client):
        await store_memory(ctx, "BWA needs an index", {"agent_type": "boss", "importance_score": 1, "importance": 1})
        return await client.retrieve("BWA index")

    (found,) = with_memory(work)
    assert found.metadata["agent_type"] == "unknown"
    assert found.metadata["importance_score"] == found.metadata["importance"] == 0.5
    assert "session_id" not in found.metadata


def test_without_a_profile_the_agent_is_the_clients():
    async def work():
        async with client_parts.asynchronous(agent_type="planner") as client:
            await store_memory(Context(MemoryDependencies(memory_client=client)), "BWA needs an index")
            return await client.retrieve("BWA index")

    assert asyncio.run(work())[0].metadata["agent_type"] == "planner"


@pytest.mark.parametrize(
    "deps",
    [
        None,
        {},
        {"memory_client": None},
        MemoryDependencies(),
        MemoryDependencies(memory_client=client_parts.asynchronous(client_parts.config(enabled=False))),
        MemoryDependencies(memory_client=client_parts.asynchronous(), memory_config=MemoryConfig(enabled=False)),
        MemoryDependencies(
            memory_client=client_parts.asynchronous(client_parts.config(excluded_agents=["planner"])),
            agent_profile="planner",
        ),
        MemoryDependencies(
            memory_client=client_parts.asynchronous(),
            memory_config=MemoryConfig(excluded_agents=("The planner",)),
            agent_profile=AgentProfile(agent_type="planner", name="The planner"),
        ),
        {"memory_client": "<MemorySystemClient object>"},
    ],
    ids=["none", "empty", "no client", "no field", "off", "off for the agent", "excluded", "excluded by name", "text"],
)
def test_without_a_client_the_tools_say_so(deps):
    async def work():
        ctx = Context(deps)
        return await retrieve_memory(ctx, "BWA"), await store_memory(ctx, "BWA needs an index")

    assert asyncio.run(work()) == ([], {"success": False, "reason": "Memory client not available"})


@pytest.mark.parametrize(("content", "importance"), [("  ", 0.5), ("BWA", 7)])
def test_agent_gets_an_error_for_unstorable_content(content, importance):
    async def work(ctx, client):
        return await store_memory(ctx, content, importance=importance)

    answer = with_memory(work)
    assert answer["success"] is False
    assert answer["reason"] in {"The content is empty.", "importance: 7 is not a number from 0 to 1."}


def test_filters_and_sessions_hold():
    async def work(ctx, client):
        await client.store("BWA of the run", {"session_id": "run-1", "tool": "bwa"})
        await client.store("BWA of another run", {"session_id": "run-2", "tool": "bwa"})
        await client.store("BWA and its index", {"session_id": "run-1", "tool": "samtools"})
        return [one["content"] for one in await retrieve_memory(ctx, "BWA", filters={"tool": "bwa"})]

    assert with_memory(work, session_id="run-1") == ["BWA of the run"]


@pytest.mark.parametrize("top_k", [0, -1, 201, "5"])
def test_retrieve_memory_refuses_top_k_out_of_bounds(top_k):
    async def work(ctx, client):
        return await retrieve_memory(ctx, "BWA run", top_k=top_k)

    with pytest.raises(treering.InvalidInput, match=r"top_k: .* is not a number from 1 to 200"):
        with_memory(work)


def test_node_refuses_to_recall_no_memories():
    with pytest.raises(treering.InvalidInput, match="top_k: 0"):
        memory_node(top_k=0)


def test_store_memory_states_the_bounds_of_importance():
    async def work(ctx, client):
        return await store_memory(ctx, "BWA needs an index", importance=1.5)

    stored = with_memory(work)
    assert stored == {"success": False, "reason": "importance: 1.5 is not a number from 0 to 1."}


def test_a_filter_that_makes_no_sense_is_refused():
    async def work(ctx, client):
        return await retrieve_memory(ctx, "BWA", filters={"tool": {"like": "b"}})

    with pytest.raises(treering.InvalidInput):
        with_memory(work)


def test_settings_of_the_agent_stand_where_its_profile_says_nothing():
    async def work(ctx, client):
        await client.store("BWA run on sample 7 succeeded", {"success": True})
        await client.store("BWA run on sample 7", {"success": False})
        return [one["metadata"]["success"] for one in await retrieve_memory(ctx, "BWA run on sample 7", top_k=1)]

    assert with_memory(work) == [False]
    config = MemoryConfig.read({"retrieval": {"enable_success_weighting": True}})
    assert with_memory(work, memory_config=config) == [True]


def test_a_profile_is_named_and_its_threshold_holds():
    async def work(ctx, client):
        await client.store("BWA run on sample 7")
        return await retrieve_memory(ctx, "an index of the mouse genome")

    lax = AgentProfile(agent_type="planner", relevance_threshold=0)
    assert len(with_memory(work, agent_profile=lax)) == 1
    assert with_memory(work, agent_profile=AgentProfile(agent_type="planner", relevance_threshold=0.9)) == []
    anything, nothing = (MemoryConfig.read({"retrieval": {"min_similarity": least}}) for least in (0, 1))
    assert with_memory(work) == with_memory(work, memory_config=nothing) == []
    assert len(with_memory(work, memory_config=anything)) == 1
    assert len(with_memory(work, memory_config=nothing, agent_profile=lax)) == 1
    with pytest.raises(treering.InvalidInput, match="Unknown profile 'planer'"):
        with_memory(work, agent_profile="planer")


def test_a_blocking_client_among_the_dependencies_is_refused():
    deps = MemoryDependencies(memory_client=BlockingMemoryClient({"backend": "in_memory"}))
    with pytest.raises(treering.InvalidInput, match="memory_client is a BlockingMemoryClient"):
        asyncio.run(retrieve_memory(Context(deps), "BWA"))


def test_tools_without_a_context_are_the_same_tools():
    async def work(ctx, client):
        retrieve, store = memory_tools(ctx.deps)
        assert (retrieve.__name__, store.__name__) == ("retrieve_memory", "store_memory")
        assert defaults(retrieve) == {"query": inspect.Parameter.empty, "top_k": 5, "filters": None}
        assert defaults(store) == {"content": inspect.Parameter.empty, "metadata": None, "importance": 0.5}
        assert "ctx" not in retrieve.__doc__ + store.__doc__
        assert (await store("BWA needs an index"))["success"]
        return await retrieve("BWA index")

    assert [one["content"] for one in with_memory(work)] == ["BWA needs an index"]
    assert asyncio.run(memory_tools(None)[0]("BWA")) == []
    assert asyncio.run(memory_tools(None)[1]("BWA"))["reason"] == "Memory client not available"


def test_the_tools_are_tools_of_pydantic_ai():
    model = TestModel(call_tools=["store_memory", "retrieve_memory"])
    agent = Agent(model, deps_type=MemoryDependencies)
    agent.tool(retrieve_memory)
    agent.tool(store_memory)

    async def work(ctx, client):
        await agent.run("Remember this.", deps=ctx.deps)
        return await client.retrieve("a", profile=AgentProfile(agent_type="", relevance_threshold=0))

    (found,) = with_memory(work, agent_profile="planner", session_id="run-1")
    assert (found.metadata["agent_type"], found.metadata["session_id"]) == ("planner", "run-1")
    tools = {tool.name: tool for tool in model.last_model_request_parameters.function_tools}
    assert tools["retrieve_memory"].description.startswith("<summary>Retrieve memories")
    properties = tools["retrieve_memory"].parameters_json_schema["properties"]
    assert [*properties] == ["query", "top_k", "filters"]
    assert properties["query"]["description"] == "The query, in words."


@pytest.mark.parametrize("deps", [None, MemoryDependencies()], ids=["none", "empty"])
def test_tools_without_a_client_use_the_memory_of_their_node(deps):
    @memory_node(agent_type="planner", recall=False, store=False)
    async def plan(state):
        await store_memory(Context(deps), "BWA needs an index")

    async def work():
        async with client_parts.asynchronous() as client:
            await plan(MemoryState(memory_client=client, memory_session_id="run-1"))
            (memory,) = await client.retrieve("BWA index", session_id="run-1")
            return memory.metadata["session_id"], memory.metadata["agent_type"]

    assert asyncio.run(work()) == ("run-1", "planner")


def test_agent_in_a_node_has_its_own_profile_and_settings():
    own = MemoryDependencies(agent_profile="executor")
    off = MemoryDependencies(memory_config=MemoryConfig(enabled=False))

    @memory_node(agent_type="planner", recall=False, store=False)
    async def plan(state):
        for deps in (own, off):
            await store_memory(Context(deps), "BWA needs an index")

    async def work():
        async with client_parts.asynchronous() as client:
            await plan(MemoryState(memory_client=client))
            return [one.metadata["agent_type"] for one in await client.retrieve("BWA index", scope="space")]

    assert asyncio.run(work()) == ["executor"]
