"""The memory client as a document asks for it: nodes, tools, loops, runners and documents as their authors write them.

State and dependencies are the host's own dataclasses here, with the fields that the document names.
"""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

from treering.client import AgentProfile, MemoryConfig, MemoryDocument, MemorySystemClient, Switches
from treering.testing import HashingEmbedder

EVERYTHING = AgentProfile(agent_type="", relevance_threshold=0)
QUESTION = "Which kinase binds imatinib?"


@dataclass
class ResearchState:
    question: str
    plan: list[str] | None = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    memory_session_id: str | None = None
    memory_client: MemorySystemClient | None = None
    memory_config: MemoryConfig | None = None


@dataclass
class AgentDependencies:
    config: dict[str, Any] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)
    other_agents: list[str] = field(default_factory=list)
    data_sources: list[str] = field(default_factory=list)
    memory_client: MemorySystemClient | None = None
    memory_config: MemoryConfig | None = None
    session_id: str | None = None
    agent_profile: AgentProfile | None = None


@dataclass
class Context:
    state: Any = None
    deps: Any = None


@dataclass
class ExecuteNode:
    pass


@dataclass
class PlanNode:
    """A node that asks before its work and stores after it, by itself."""

    async def run(self, ctx: Context) -> ExecuteNode:
        context = None
        if ctx.state.memory_client:
            memories = await ctx.state.memory_client.retrieve(
                query=ctx.state.question,
                filters={"agent_type": "planner"},
                top_k=3,
                session_id=ctx.state.memory_session_id,
            )
            context = "\n".join(memory.content for memory in memories)
        ctx.state.plan = ["search", f"read about: {context}"]
        ctx.state.notes.append(f"Plan created with {len(ctx.state.plan)} steps")
        if ctx.state.memory_client:
            await ctx.state.memory_client.store(
                content=f"Plan: {ctx.state.plan}",
                metadata={
                    "node": "PlanNode",
                    "question": ctx.state.question,
                    "timestamp": datetime.now().isoformat(),  # noqa: DTZ005 - as hosts write it
                    "session_id": ctx.state.memory_session_id,
                },
            )
        return ExecuteNode()


def opened(**given):
    """Return a client in memory that embeds by hashing words."""
    config = MemoryConfig(backend="in_memory", session_ttl=3600, **given)
    return MemorySystemClient(config, embedder=HashingEmbedder(), background=False)


def used(work, **given):
    """Run `work(client)` with a client, and close it."""

    async def use():
        async with opened(**given) as client:
            return await work(client)

    return asyncio.run(use())


async def everything(client, session_id=None):
    return await client.retrieve("plan tool finding kinase", top_k=50, session_id=session_id, profile=EVERYTHING)


def test_node_recalls_first_and_stores_its_plan():
    async def work(client):
        for number in range(5):
            told = {"agent_type": "planner", "session_id": "run-1"}
            await client.store(f"{QUESTION} Earlier plan {number}", told)
        await client.store(f"{QUESTION} Run by another agent", {"agent_type": "executor", "session_id": "run-1"})
        await client.store(f"{QUESTION} Of another run", {"agent_type": "planner", "session_id": "run-2"})
        state = ResearchState(QUESTION, memory_session_id="run-1", memory_client=client)
        began = datetime.now(UTC) - timedelta(seconds=1)
        assert await PlanNode().run(Context(state)) == ExecuteNode()
        context = state.plan[1].removeprefix("read about: ").splitlines()
        assert len(context) == 3
        assert all(line.startswith(f"{QUESTION} Earlier plan") for line in context)
        (kept,) = [one for one in await everything(client, "run-1") if "node" in one.metadata]
        assert kept.content == f"Plan: {state.plan}"
        told = {"node": "PlanNode", "question": QUESTION, "session_id": "run-1"}
        assert told.items() <= kept.metadata.items()
        assert began <= kept.timestamp <= datetime.now(UTC)

    used(work)


def test_without_a_client_the_same_node_does_its_work_alone():
    state = ResearchState(QUESTION)
    assert asyncio.run(PlanNode().run(Context(state))) == ExecuteNode()
    assert (state.plan, state.notes) == (["search", "read about: None"], ["Plan created with 2 steps"])


CONCEPTS = [{"imatinib", "drug", "inhibitor"}, {"kinase", "enzyme", "abl1"}, {"alignment", "bwa", "reads"}]


def concepts(texts):
    """Embed by the concepts that the words of a text belong to."""
    return [[0.01, *(float(bool(known & set(text.lower().split()))) for known in CONCEPTS)] for text in texts]


def test_a_memory_is_retrieved_by_meaning_where_it_shares_no_word_with_the_question():
    async def work():
        async with MemorySystemClient({"backend": "in_memory"}, embedder=concepts, background=False) as client:
            for text in ("Imatinib stops ABL1", "BWA was slow", "Reads were trimmed"):
                await client.store(content=text)
            await client.catch_up()
            return [one.content for one in await client.retrieve(query="which inhibitor for that enzyme")]

    assert asyncio.run(work()) == ["Imatinib stops ABL1"]


class PlannerAgent:
    """An agent that registers the two tools of the memory by itself."""

    def __init__(self, dependencies=None):
        self.dependencies = dependencies or AgentDependencies()
        self.model = TestModel(call_tools=["store_memory", "retrieve_memory"])
        self._agent = Agent(self.model, deps_type=AgentDependencies)
        self._register_memory_tools()

    def _register_memory_tools(self):
        @self._agent.tool
        async def retrieve_memory(
            ctx: RunContext[AgentDependencies], query: str, top_k: int = 5, filters: dict[str, Any] | None = None
        ) -> list[dict[str, Any]]:
            """Retrieve relevant memories for the current task."""
            if not ctx.deps.memory_client:
                return []
            memories = await ctx.deps.memory_client.retrieve(
                query=query, top_k=top_k, filters=filters or {}, session_id=ctx.deps.session_id
            )
            return [
                {
                    "content": memory.content,
                    "metadata": memory.metadata,
                    "similarity": memory.similarity_score,
                    "timestamp": memory.timestamp,
                }
                for memory in memories
            ]

        @self._agent.tool
        async def store_memory(
            ctx: RunContext[AgentDependencies],
            content: str,
            metadata: dict[str, Any] | None = None,
            importance: float = 0.5,
        ) -> dict[str, Any]:
            """Store a new memory for future retrieval."""
            profile = ctx.deps.agent_profile
            memory_id = await ctx.deps.memory_client.store(
                content=content,
                metadata={
                    **(metadata or {}),
                    "agent_type": profile.agent_type if profile else "unknown",
                    "session_id": ctx.deps.session_id,
                    "importance": importance,
                },
            )
            return {"success": True, "memory_id": memory_id}

    async def run(self):
        return await self._agent.run("Remember this.", deps=self.dependencies)


@pytest.mark.parametrize(("profile", "agent"), [(AgentProfile(agent_type="planner"), "planner"), (None, "unknown")])
def test_an_agent_registers_tools_of_its_own_on_the_client(profile, agent):
    async def work(client):
        for session in ("run-1", None):
            await PlannerAgent(AgentDependencies(memory_client=client, session_id=session, agent_profile=profile)).run()
        of_run = await client.retrieve("a", session_id="run-1", scope="session", profile=EVERYTHING)
        return of_run, await client.retrieve("a", scope="space", profile=EVERYTHING)

    of_run, found = used(work)
    assert len(of_run) == 1
    assert (of_run[0].metadata["agent_type"], of_run[0].metadata["session_id"]) == (agent, "run-1")
    assert [one.metadata["agent_type"] for one in found] == [agent] * 2
    assert of_run[0].metadata["importance"] == of_run[0].metadata["importance_score"]


def test_a_nested_loop_gets_a_context_of_its_own_and_shares_it_upwards_when_it_has_ended():
    async def spawn_nested_loop(ctx, loop_id):
        nested = ctx.deps.memory_client.create_nested_context(parent_session_id=ctx.deps.session_id, loop_id=loop_id)
        told = {"session_id": nested.session_id}
        await ctx.deps.memory_client.store(content=f"Finding of the kinase loop {loop_id}", metadata=told)
        inside = await everything(ctx.deps.memory_client, nested.session_id)
        outside = await everything(ctx.deps.memory_client, ctx.deps.session_id)
        await ctx.deps.memory_client.merge_nested_context(nested)
        return nested.session_id, [[one.content for one in found] for found in (inside, outside)]

    async def work(client):
        await client.store("Kinase plan of the parent", {"session_id": "run-1"})
        ctx = Context(deps=AgentDependencies(memory_client=client, session_id="run-1"))
        session, (inside, outside) = await spawn_nested_loop(ctx, "refine")
        assert session not in {None, "run-1"}
        assert sorted(inside) == ["Finding of the kinase loop refine", "Kinase plan of the parent"]
        assert outside == ["Kinase plan of the parent"]
        return {one.content: one.metadata.get("part_of") for one in await everything(client, "run-1")}, session

    kept, session = used(work)
    assert kept == {"Kinase plan of the parent": None, "Finding of the kinase loop refine": session}


@dataclass
class ExecutionResult:
    success: bool
    data: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class ToolRunner:
    """A synchronous runner that stores every run by itself, on the blocking form of the client."""

    memory_client: Any = None

    def run(self, params):
        began = time.monotonic()
        result = (
            ExecutionResult(True, {"mapped": 97}) if "reads" in params else ExecutionResult(False, error="no reads")
        )
        self._store_execution_memory(params, result, time.monotonic() - began)
        return result

    def _store_execution_memory(self, params, result, duration):
        if not self.memory_client:
            return
        told = f"Result: {result.data}" if result.success else f"Error: {result.error}"
        self.memory_client.store(
            content=f"Tool bwa executed with params: {params}\n{told}",
            metadata={
                "memory_type": "tool_execution",
                "tool_name": "bwa",
                "success": result.success,
                "duration": duration,
                "parameters": params,
                "result_summary": result.data if result.success else None,
                "error": result.error,
                "timestamp": datetime.now().isoformat(),  # noqa: DTZ005 - as hosts write it
            },
        )


def test_a_synchronous_runner_stores_its_runs_while_an_event_loop_runs():
    async def work(client):
        runner = ToolRunner()
        assert runner.run({"reads": "a.fq"}).success, "without a client nothing is stored"
        runner.memory_client = client.sync
        runner.run({"reads": "a.fq"})
        runner.run({})
        return {one.metadata["success"]: one for one in await everything(client)}

    found = used(work)
    assert found[True].content == "Tool bwa executed with params: {'reads': 'a.fq'}\nResult: {'mapped': 97}"
    assert found[False].content == "Tool bwa executed with params: {}\nError: no reads"
    told = {name: found[True].metadata[name] for name in ("tool_name", "parameters", "result_summary", "error")}
    assert told == {
        "tool_name": "bwa",
        "parameters": {"reads": "a.fq"},
        "result_summary": {"mapped": 97},
        "error": None,
    }


def test_a_memory_document_is_stored_with_every_field_that_is_its_own():
    async def work(client):
        first, second = [await client.store(f"Kinase finding {number}") for number in range(2)]
        own = {
            "memory_type": "decision",
            "agent_type": "planner",
            "session_id": "run-1",
            "importance_score": 0.8,
            "temporal_weight": 0.5,
            "follows": first,
            "caused_by": [first],
            "references": [second],
            "cross_references": {"genes": ["ABL1"]},
            "quality_score": 0.9,
        }
        made = datetime.now(UTC) - timedelta(hours=1)
        document = MemoryDocument(id="doc_1", content="Kinase plan", metadata={"tool": "bwa"}, created_at=made, **own)
        kept = await client.store(document)
        (found,) = [one for one in await everything(client, "run-1") if one.id == kept]
        assert own.items() <= found.metadata.items()
        assert (found.metadata["document_id"], found.metadata["tool"], found.timestamp) == ("doc_1", "bwa", made)
        for relation, other in (("FOLLOWS", first), ("CAUSED_BY", first), ("REFERENCES", second)):
            related = await client.get_related_memories(kept, types=[relation], direction="out")
            assert [one.id for one in related] == [other]

    used(work)


def test_temporal_weight_applies_if_time_is_weighted():
    async def work(client):
        await client.store(MemoryDocument(content="Kinase plan", temporal_weight=0.2))
        await client.store(MemoryDocument(content="Kinase plan of another day", temporal_weight=1.0))
        return [
            [one.content for one in await client.retrieve("kinase plan", profile=profile)]
            for profile in (EVERYTHING, AgentProfile(agent_type="", relevance_threshold=0, switches=switches))
        ]

    switches = Switches(enable_temporal_weighting=True)
    plain, weighed = used(work)
    assert plain == ["Kinase plan", "Kinase plan of another day"]
    assert weighed == plain[::-1]
