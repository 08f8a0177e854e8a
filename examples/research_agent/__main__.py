"""Run the research agent: `python -m examples.research_agent`, with any key of its configuration changed behind it."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import hydra
from omegaconf import DictConfig

from treering.client import ExecutionHistoryMemoryBridge, MemoryConfig, MemorySystemClient

from .state import AgentDependencies, ResearchState
from .tools import ToolRegistry
from .workflow import research_graph


async def research(config: DictConfig) -> dict[str, Any]:
    """Answer the question of a configuration, and return the answer with the recalled memories."""
    memory = MemoryConfig.read(config.memory)
    async with MemorySystemClient(memory) as client:
        session_id = f"research-{uuid4().hex}"
        state = ResearchState(
            question=config.question,
            max_iterations=config.max_iterations,
            memory_session_id=session_id,
            memory_client=client,
            memory_config=memory,
        )
        deps = AgentDependencies(
            memory_client=client,
            memory_config=memory,
            session_id=session_id,
            agent_profile="executor",
            tools=ToolRegistry(client),
        )
        answer = await research_graph(config.model).run(state=state, deps=deps)
        # Integration point 7: the history of the run becomes memories, each step once.
        bridge = ExecutionHistoryMemoryBridge(client)
        kept = await bridge.ingest_execution_history(state.history, session_id)
    return {
        "answer": answer,
        "mapped": state.best.mapped if state.best else None,
        "tried": [str(one) for one in state.tried],
        "recalled": state.recalled,
        "earlier_plans": state.earlier_plans,
        "traces": kept,
    }


@hydra.main(version_base=None, config_path=str(Path(__file__).parent / "conf"), config_name="config")
def main(config: DictConfig) -> None:
    """Print the answer and its sources, as JSON."""
    print(json.dumps(asyncio.run(research(config)), indent=2))


if __name__ == "__main__":
    main()
