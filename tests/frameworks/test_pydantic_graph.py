"""pydantic-graph: two graphs of the current builder, with memory and without, equal but for memory."""

from dataclasses import dataclass, field

import pytest
from framework_parts import asynchronous
from pydantic_graph import GraphBuilder, StepContext

from treering.client import MemoryDependencies, MemoryState, memory_node, recalled_memories

pytestmark = pytest.mark.anyio


@dataclass
class State(MemoryState):
    question: str = ""
    steps: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)


async def plan(ctx: StepContext[State, MemoryDependencies, str]) -> str:
    ctx.state.steps.append("plan")
    ctx.state.recalled = [one.content for one in recalled_memories()]
    return f"plan for {ctx.inputs}"


async def act(ctx: StepContext[State, MemoryDependencies, str]) -> str:
    ctx.state.steps.append("act")
    if "bad" in ctx.inputs:
        raise ValueError("the input is bad")
    return ctx.inputs.upper()


def graph_of(decorate):
    builder = GraphBuilder(name="work", state_type=State, deps_type=MemoryDependencies, input_type=str, output_type=str)
    planning, acting = builder.step(decorate(plan)), builder.step(decorate(act))
    builder.add(
        builder.edge_from(builder.start_node).to(planning),
        builder.edge_from(planning).to(acting),
        builder.edge_from(acting).to(builder.end_node),
    )
    return builder.build()


PLAIN, DECORATED = graph_of(lambda step: step), graph_of(memory_node(scope="space"))


async def outcome(graph, question, **deps):
    state = State(question=question)
    try:
        return await graph.run(state=state, deps=MemoryDependencies(**deps), inputs=question), state
    except ValueError as error:
        return str(error), state


@pytest.mark.parametrize("question", ["align the reads", "bad reads"])
async def test_two_graphs_are_equal_but_for_memory(question):
    plain, plain_state = await outcome(PLAIN, question)
    off, off_state = await outcome(DECORATED, question)
    assert (off, off_state) == (plain, plain_state), "without a client a decorated graph is the plain one"
    async with asynchronous() as client:
        first, first_state = await outcome(DECORATED, question, memory_client=client, session_id="one")
        second, second_state = await outcome(DECORATED, question, memory_client=client, session_id="two")
    assert first == second == plain
    assert first_state.steps == second_state.steps == plain_state.steps
    assert first_state.recalled == []
    assert any(question in one for one in second_state.recalled)


async def test_what_steps_decided_is_kept_and_of_a_step_that_failed_its_failure():
    async with asynchronous() as client:
        await outcome(DECORATED, "align the reads", memory_client=client, session_id="s")
        await outcome(DECORATED, "bad reads", memory_client=client, session_id="s")
        asked = ["plan for align the reads", "act failed: the input is bad"]
        kept = [one for query in asked for one in await client.retrieve(query, top_k=20, session_id="s")]
    assert {(one.metadata["node"], one.metadata["memory_type"], one.metadata["success"]) for one in kept} == {
        ("plan", "decision", True),
        ("act", "decision", True),
        ("act", "failure_analysis", False),
    }
