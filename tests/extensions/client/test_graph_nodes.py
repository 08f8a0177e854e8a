import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import client_parts
import pytest

import treering
from treering.client import (
    MemoryConfig,
    MemoryDependencies,
    MemoryDocument,
    MemoryState,
    memory_node,
    recalled_memories,
)

QUESTION = "\nQuestion: Which kinase binds?"
EVERYTHING = treering.client.AgentProfile(agent_type="", relevance_threshold=0)


@dataclass
class State(MemoryState):
    question: str = "Which kinase binds?"
    plan: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


@dataclass
class Context:
    state: Any
    deps: Any = None
    inputs: Any = None


async def plan(ctx):
    """Plan the work."""
    ctx.state.seen.append("\n".join(client_parts.texts(recalled_memories())))
    ctx.state.plan = ["search", "align"]
    return "planned"


def decorated(**options):
    return memory_node(plan, **options)


def with_client(work, config=None, **options):
    """Run `work(client)`, and return what it gives with all memories there are then."""

    async def run():
        async with client_parts.asynchronous(config, **options) as client:
            answer = await work(client)
            found = await client.retrieve("kinase plan failed", top_k=50, scope="space", profile=EVERYTHING)
            return answer, found

    return asyncio.run(run())


def test_a_node_is_given_memories_and_its_decision_is_stored():
    node = decorated(
        agent_type="planner",
        memory_type="plan",
        content=lambda ctx, result: f"Kinase {result}: {ctx.state.plan}",
        filters={"agent_type": "planner"},
        top_k=1,
    )

    async def work(client):
        await client.store("Which kinase binds? ABL1 binds", {"agent_type": "planner"})
        await client.store("Which kinase binds? Nobody knows", {"agent_type": "executor"})
        state = State(memory_client=client, memory_session_id="run-1")
        assert await node(Context(state)) == "planned"
        assert recalled_memories() == []
        return state.seen

    seen, found = with_client(work)
    assert seen == ["Which kinase binds? ABL1 binds"]
    (decision,) = (one for one in found if "node" in one.metadata)
    assert decision.content == "Kinase planned: ['search', 'align']"
    expected = {
        "node": "plan",
        "question": "Which kinase binds?",
        "session_id": "run-1",
        "agent_type": "planner",
        "memory_type": "plan",
        "success": True,
    }
    assert expected.items() <= decision.metadata.items()
    assert "timestamp" in decision.metadata


def test_without_options_the_question_is_asked_and_the_result_is_stored():
    async def work(client):
        await client.store("Which kinase binds? ABL1 binds")
        state = State(memory_client=client)
        await memory_node(plan)(Context(state))
        return state.seen

    seen, found = with_client(work)
    assert seen == ["Which kinase binds? ABL1 binds"]
    (decision,) = (one for one in found if "node" in one.metadata)
    assert (decision.content, decision.metadata["memory_type"]) == (f"plan: planned{QUESTION}", "decision")


@pytest.mark.parametrize(
    "off",
    [
        lambda client: {},
        lambda client: {"memory_client": None, "memory_config": MemoryConfig(enabled=False)},
        lambda client: {"memory_client": client, "memory_config": MemoryConfig(enabled=False)},
        lambda client: {"memory_client": client, "memory_config": MemoryConfig(excluded_agents=("planner",))},
        lambda client: {"memory_client": "<MemorySystemClient object>"},
    ],
    ids=["no client", "off", "off for the run", "excluded", "text"],
)
def test_with_memory_off_a_node_does_what_it_does_without_the_decorator(off):
    async def work(client):
        await client.store("Which kinase binds? ABL1 binds")
        fields = off(client)
        plain, state = State(**fields), State(**fields)
        answers = await plan(Context(plain)), await decorated(agent_type="planner")(Context(state))
        assert state == plain
        assert state.seen == [""]
        return answers

    answers, found = with_client(work)
    assert answers == ("planned", "planned")
    assert client_parts.texts(found) == ["Which kinase binds? ABL1 binds"]


def test_a_failing_node_records_its_failure_and_fails():
    async def broken(ctx):
        raise ValueError("no such kinase")

    async def work(client):
        with pytest.raises(ValueError, match="no such kinase"):
            await memory_node(broken, agent_type="executor")(Context(State(memory_client=client)))

    _, (failure,) = with_client(work)
    assert failure.content == f"broken failed: ValueError: no such kinase{QUESTION}"
    expected = {"memory_type": "failure_analysis", "node": "broken", "success": False, "agent_type": "executor"}
    assert expected.items() <= failure.metadata.items()
    assert failure.metadata["error"] == "ValueError: no such kinase"


@pytest.mark.parametrize("fault", ["retrieve", "store", "closed", "query", "content"])
def test_a_memory_that_fails_leaves_the_node_alone(caplog, monkeypatch, fault):
    async def fails(*_given, **_named):
        raise OSError("the disk is gone")

    async def work():
        client = client_parts.asynchronous()
        if fault == "closed":
            await client.aclose()
        elif fault in {"retrieve", "store"}:
            monkeypatch.setattr(client, fault, fails)
        options = {fault: lambda *_: 1 // 0} if fault in {"query", "content"} else {}
        state = State(memory_client=client)
        answer = await decorated(**options)(Context(state))
        await client.aclose()
        return answer, state.seen

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(work()) == ("planned", [""])
    assert any("the run continues without it" in one.message for one in caplog.records)


def test_a_node_class_is_decorated_and_names_what_comes_next():
    class Answer:
        async def run(self, ctx):
            raise NotImplementedError

    @memory_node(agent_type="planner")
    @dataclass
    class PlanNode:
        depth: int = 1

        async def run(self, ctx) -> Answer:
            """Plan."""
            return Answer()

    async def work(client):
        state = State(memory_client=client)
        return await PlanNode(2).run(Context(state))

    answer, (decision,) = with_client(work)
    assert isinstance(answer, Answer)
    assert PlanNode(2).depth == 2
    assert PlanNode.run.__annotations__["return"] is Answer
    assert (decision.content, decision.metadata["node"]) == (f"PlanNode: next Answer{QUESTION}", "PlanNode")


class ExecuteNode:
    def __init__(self, **given):
        vars(self).update(given)

    async def run(self, ctx):
        raise NotImplementedError


def decided(name, work, state=None):
    """Return what is stored of a node class of that name whose `run` does some work."""

    async def run(self, ctx):
        return work(ctx.state)

    node = memory_node(type(name, (), {"run": run}), agent_type="planner")

    async def run_node(client):
        held = state or State()
        held.memory_client = client
        await node().run(Context(held))

    return client_parts.texts(with_client(run_node)[1])


def test_a_node_class_stores_its_plan():
    def work(state):
        state.plan = ["search", "align"]
        state.notes.append("Plan created with 2 steps")
        return ExecuteNode()

    @dataclass
    class Noted(State):
        notes: list[str] = field(default_factory=list)

    assert decided("PlanNode", work, Noted()) == [f"Plan: ['search', 'align']{QUESTION}"]
    assert decided("Synthesize", work, Noted()) == [
        f"Plan: ['search', 'align']\nNotes: ['Plan created with 2 steps']{QUESTION}"
    ]


def test_decision_contains_only_new_items_of_lists():
    @dataclass
    class Noted(State):
        plan: list[str] = field(default_factory=lambda: ["search"])
        notes: list[str] = field(default_factory=lambda: ["searched"])

    def work(state):
        state.plan.append("align")
        state.notes.append("aligned")

    assert decided("Align", work, Noted()) == [f"Plan: ['align']\nNotes: ['aligned']{QUESTION}"]
    assert decided("Plan", work, Noted()) == [f"Plan: ['search', 'align']{QUESTION}"]


def test_a_later_run_recalls_the_plan_of_a_node():
    @memory_node(agent_type="planner", filters={"agent_type": "planner"}, scope="space")
    class PlanNode:
        async def run(self, ctx):
            ctx.state.seen += client_parts.texts(recalled_memories())
            ctx.state.plan.append("align")
            return ExecuteNode()

    async def work(client):
        for run, question in enumerate(("Which kinase binds?", "Which kinase binds imatinib?")):
            state = State(question=question, memory_client=client, memory_session_id=f"run-{run}")
            await PlanNode().run(Context(state))
        return state.seen

    assert with_client(work)[0] == [f"Plan: ['align']{QUESTION}"]


def test_node_without_changes_stores_fields_of_next_node():
    given = decided("SearchNode", lambda _: ExecuteNode(query="kinase", memory_client="left out"))
    assert given == [f"Query: kinase{QUESTION}"]
    assert decided("RouteNode", lambda _: ExecuteNode()) == [f"RouteNode: next ExecuteNode{QUESTION}"]
    assert decided("IdleNode", lambda _: None) == []


def test_a_node_stores_changed_keys_of_a_state_that_is_a_mapping():
    @memory_node
    async def synthesize(state):
        state["answers"].append("ABL1 binds.")

    async def work(client):
        await synthesize({"question": "Which kinase binds?", "answers": [], "memory_client": client})

    assert client_parts.texts(with_client(work)[1]) == [f"Answers: ['ABL1 binds.']{QUESTION}"]


def test_a_step_asks_with_its_input_where_the_state_has_no_question():
    async def work(client):
        await client.store("kinase ABL1 binds")
        ctx = Context(None, MemoryDependencies(memory_client=client, session_id="run-1"), inputs="kinase")

        async def step(ctx):
            return client_parts.texts(recalled_memories())

        return await memory_node(step)(ctx)

    answer, found = with_client(work)
    assert answer == ["kinase ABL1 binds"]
    assert {one.metadata.get("session_id") for one in found} == {None, "run-1"}


@pytest.mark.parametrize(
    ("options", "seen", "stored"),
    [
        ({"recall": False}, "", 1),
        ({"store": False}, "kinase ABL1", 0),
        ({"content": lambda ctx, result: None}, "kinase ABL1", 0),
        ({"query": lambda ctx: "protein"}, "", 1),
        ({"query": lambda ctx: None}, "", 1),
    ],
)
def test_what_a_node_does_not_want_is_not_done(options, seen, stored):
    async def work(client):
        await client.store("kinase ABL1")
        state = State(memory_client=client, question="kinase")
        await decorated(**options)(Context(state))
        return state.seen

    answer, found = with_client(work)
    assert answer == [seen]
    assert len(found) == 1 + stored


def test_node_content_may_be_a_document():
    document = MemoryDocument(content="Kinase plan", memory_type="plan", importance_score=0.9, agent_type="boss")

    async def work(client):
        await decorated(agent_type="planner", content=lambda *_: document)(Context(State(memory_client=client)))

    _, (decision,) = with_client(work)
    kept = {name: decision.metadata[name] for name in ("memory_type", "importance_score", "agent_type", "node")}
    assert kept == {"memory_type": "plan", "importance_score": 0.9, "agent_type": "boss", "node": "plan"}


def test_secrets_of_results_and_errors_are_not_kept():
    secret = "ghp_" + "a1B2" * 9

    async def leak(ctx):
        return {"kinase": secret}

    async def fail(ctx):
        raise ValueError(f"401 for {secret}")

    async def work(client):
        ctx = Context(State(memory_client=client))
        await memory_node(leak)(ctx)
        with pytest.raises(ValueError, match="401"):
            await memory_node(fail)(ctx)

    _, found = with_client(work)
    assert len(found) == 2
    assert not any(secret in f"{one.content}{one.metadata}" for one in found)


def test_a_long_result_is_cut():
    async def work(client):
        async def tell(ctx):
            return "kinase " * 10_000

        await memory_node(tell)(Context(State(memory_client=client)))

    _, (decision,) = with_client(work)
    assert len(decision.content) < 2_100


@pytest.mark.parametrize("what", [lambda ctx: None, type("NoNode", (), {}), 7])
def test_what_is_no_node_is_refused(what):
    with pytest.raises(treering.InvalidInput):
        memory_node(what)


def test_the_number_of_memories_is_that_of_the_agents_settings():
    async def work(client):
        for number in range(8):
            await client.store(f"Which kinase binds? Number {number}")
        counts = []
        for config in (None, MemoryConfig.read({"retrieval": {"top_k": 7}})):
            state = State(memory_client=client, memory_config=config)
            await decorated(store=False)(Context(state))
            counts.append(len(state.seen[0].splitlines()))
        return counts

    assert with_client(work)[0] == [5, 7]


def test_a_node_sees_its_own_run_and_others_where_that_is_asked():
    async def work(client):
        await client.store("Which kinase binds? ABL1 binds", {"session_id": "run-1"})
        seen = []
        for session_id, options in (("run-1", {}), ("run-2", {}), ("run-2", {"scope": "space"})):
            state = State(memory_client=client, memory_session_id=session_id)
            await decorated(store=False, **options)(Context(state))
            seen += state.seen
        return seen

    assert with_client(work)[0] == ["Which kinase binds? ABL1 binds", "", "Which kinase binds? ABL1 binds"]


def test_the_agent_that_a_node_names_is_not_the_one_of_shared_dependencies():
    async def work(client):
        deps = MemoryDependencies(agent_profile="executor")
        state = State(memory_client=client)
        await memory_node(plan, agent_type="planner", name="named")(Context(state, deps))
        await memory_node(plan, name="not named")(Context(state, deps))

    _, found = with_client(work)
    assert {one.metadata["node"]: one.metadata["agent_type"] for one in found} == {
        "named": "planner",
        "not named": "executor",
    }


def test_a_node_with_a_client_of_its_own_needs_none_in_its_state():
    async def work(client):
        await client.store("Which kinase binds? ABL1 binds")
        state = State()
        await decorated(client=client)(Context(state))
        return state

    state, found = with_client(work)
    assert state.seen == ["Which kinase binds? ABL1 binds"]
    assert {one.metadata.get("session_id") for one in found} == {None, state.memory_session_id}
