"""The workflow: plan, align in a nested loop until nothing gets better, and report."""

import json
from collections.abc import Iterator
from time import perf_counter
from typing import Literal, TypeAlias

from pydantic_ai import AgentRunResult
from pydantic_ai.messages import ToolReturnPart
from pydantic_graph import Graph, GraphBuilder, StepContext, TypeExpression

from treering.client import memory_node, nested_memory, recalled_memories

from .agents import executor_agent, planner_agent
from .state import AgentDependencies, Alignment, Plan, ResearchState

SAMPLE = "S7"
Next = Literal["again", "done"]
Research: TypeAlias = Graph[ResearchState, AgentDependencies, None, str]
Refining: TypeAlias = Graph[ResearchState, AgentDependencies, None, Next]


def research_graph(model: str) -> Research:
    """Return the workflow. Integration point 8: its nodes recall and store their decisions."""
    planner, loop = planner_agent(model), refining_graph(model)
    builder = GraphBuilder(
        name="research", state_type=ResearchState, deps_type=AgentDependencies, input_type=type(None), output_type=str
    )

    @builder.step
    @memory_node(
        agent_type="planner",
        memory_type="plan",
        scope="space",
        filters={"memory_type": "plan"},
        content=lambda ctx, _: f"Plan for: {ctx.state.question} Begin with seed length {ctx.state.plan.seed_length}.",
    )
    async def plan(ctx: StepContext[ResearchState, AgentDependencies, None]) -> None:
        state = ctx.state
        state.earlier_plans = [memory.content for memory in recalled_memories()]
        result = await planner.run(state.question, deps=ctx.deps.of_all_runs("planner"))
        state.plan, state.recalled = result.output, list(_recalled(result))

    @builder.step
    async def refine(ctx: StepContext[ResearchState, AgentDependencies, None]) -> None:
        # Integration point 4: what the loop stores is the run's when the loop has ended.
        async with nested_memory(ctx.state, "refine") as state, nested_memory(ctx.deps, "refine") as deps:
            await loop.run(state=state, deps=deps)

    @builder.step
    @memory_node(agent_type="executor", memory_type="tool_result")
    async def report(ctx: StepContext[ResearchState, AgentDependencies, None]) -> str:
        best = ctx.state.best
        if best is None:
            return f"No seed length aligned the short reads of sample {SAMPLE}."
        return f"Seed length {best.seed_length} maps {best.mapped} % of the short reads of sample {SAMPLE}."

    builder.add(
        builder.edge_from(builder.start_node).to(plan),
        builder.edge_from(plan).to(refine),
        builder.edge_from(refine).to(report),
        builder.edge_from(report).to(builder.end_node),
    )
    return builder.build()


def refining_graph(model: str) -> Refining:
    """Return the loop: align, and again with the next seed length as long as that gets better."""
    executor = executor_agent(model)
    builder = GraphBuilder(
        name="refine", state_type=ResearchState, deps_type=AgentDependencies, input_type=type(None), output_type=Next
    )

    @builder.step
    async def align(ctx: StepContext[ResearchState, AgentDependencies, Next | None]) -> Next:
        state = ctx.state
        seed_length = state.next_seed_length
        began = perf_counter()
        order = json.dumps({"sample": SAMPLE, "seed_length": seed_length})
        answer = (await executor.run(order, deps=ctx.deps)).output
        state.took(Alignment(seed_length, int(answer) if answer.isdigit() else None), perf_counter() - began)
        return "again" if state.goes_on else "done"

    builder.add(
        builder.edge_from(builder.start_node).to(align),
        builder.edge_from(align).to(
            builder.decision()
            .branch(builder.match(TypeExpression[Literal["again"]]).to(align))
            .branch(builder.match(TypeExpression[Literal["done"]]).to(builder.end_node))
        ),
    )
    return builder.build()


def _recalled(result: AgentRunResult[Plan]) -> Iterator[str]:
    """Return the texts of the memories that an agent's memory tool gave it."""
    for message in result.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and part.tool_name == "retrieve_memory":
                memories = part.content if isinstance(part.content, list) else []
                yield from (str(memory["content"]) for memory in memories if isinstance(memory, dict))
