"""The two agents: a planner and an executor, with the tools of the program and those of its memory."""

from typing import Any

from pydantic_ai import Agent, RunContext

from treering.client import retrieve_memory, store_memory

from .scripted import executor_model, planner_model
from .state import AgentDependencies, Plan

SCRIPTED = "scripted"


def planner_agent(model: str) -> Agent[AgentDependencies, Plan]:
    """Return the agent that says where to begin. Integration point 3: it asks its memory when it wants to."""
    agent = Agent(
        planner_model() if model == SCRIPTED else model,
        deps_type=AgentDependencies,
        output_type=Plan,
        instructions="Plan which seed length to try first, and the step to the next. Look into your memory first.",
    )
    agent.tool(retrieve_memory)
    agent.tool(search_papers)
    return agent


def executor_agent(model: str) -> Agent[AgentDependencies, str]:
    """Return the agent that aligns once. Integration point 3: it stores the lessons."""
    agent = Agent(
        executor_model() if model == SCRIPTED else model,
        deps_type=AgentDependencies,
        instructions="Align with the seed length you are told, store what came of it, and answer with the percentage.",
    )
    agent.tool(align_reads)
    agent.tool(store_memory)
    return agent


def search_papers(ctx: RunContext[AgentDependencies], query: str) -> dict[str, Any]:
    """Find the paper that fits a question best."""
    return _run(ctx, "search_papers", {"query": query})


def align_reads(ctx: RunContext[AgentDependencies], sample: str, seed_length: int) -> dict[str, Any]:
    """Align the short reads of a sample with seeds of one length."""
    return _run(ctx, "align_reads", {"sample": sample, "seed_length": seed_length})


def _run(ctx: RunContext[AgentDependencies], tool: str, params: dict[str, Any]) -> dict[str, Any]:
    result = ctx.deps.tools.make(tool).run(params)
    return result.data if result.success else {"error": result.error}
