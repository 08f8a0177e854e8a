"""The steps of a generation as a graph of LangGraph: structure, then pages side by side, then publishing."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from treering.memories.wiki.generating import CeilingReached, WikiGeneration, WikiReport
from treering.ports.model import Usage
from treering.tools.engine import Progress

_Done = TypeVar("_Done")
Confirm = Callable[[Usage], bool]
"""Told what pages are estimated to take before they are written; says whether to go on."""


class GenerationState(TypedDict, total=False):
    """What checkpoints hold: paths of pages. Plans and pages are kept in the space."""

    to_write: list[str]


class PageState(TypedDict):
    """What one page is written from."""

    path: str


@dataclass
class GenerationSteps:
    """The nodes of the graph. Each does its work in a thread of `pool`, so at most as many pages are under way."""

    generation: WikiGeneration
    pool: Executor
    progress: Progress
    confirm: Confirm | None = None
    reports: list[WikiReport] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    estimate: Usage | None = None

    async def structure(self, state: GenerationState) -> GenerationState:
        """Settle which pages have to be written."""
        return {"to_write": await self._in_thread(self._planned)}

    async def page(self, state: PageState) -> GenerationState:
        """Write one page. After a failure no further page is begun; those under way are finished, and kept."""
        if not self.failures:
            try:
                await self._in_thread(lambda: self.generation.write(state["path"]))
            except Exception as error:  # noqa: BLE001 - it is raised when the pages under way are finished
                self.failures.append(error)
        return {}

    async def publish(self, state: GenerationState) -> GenerationState:
        """Publish the pages and switch to them. Raises what writing a page raised."""
        if self.failures:
            raise self.failures[0]
        count = len(state.get("to_write", ()))
        self.progress("Writing pages", count, count)
        self.reports.append(await self._in_thread(self.generation.publish))
        return {}

    def pages(self, state: GenerationState) -> list[Send] | str:
        """Return where the graph goes after the structure: to each page, or straight on where none is to be written."""
        return [Send("page", PageState(path=path)) for path in state["to_write"]] or "publish"

    def _planned(self) -> list[str]:
        paths = self.generation.plan()
        self.estimate = self.generation.estimate()
        if self.confirm and self.estimate and not self.confirm(self.estimate):
            raise CeilingReached("The pages were not asked for at what they are estimated to take.")
        self.progress("Writing pages", 0, len(paths))
        return paths

    async def _in_thread(self, work: Callable[[], _Done]) -> _Done:
        # Without the context of the graph: an agent that works there is no part of it, and keeps no checkpoints in it.
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)


def wiki_graph(
    steps: GenerationSteps, checkpointer: BaseCheckpointSaver[Any] | None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the graph over some steps."""
    graph = StateGraph(GenerationState)
    graph.add_node("structure", steps.structure)
    graph.add_node("page", steps.page)
    graph.add_node("publish", steps.publish)
    graph.add_edge(START, "structure")
    graph.add_conditional_edges("structure", steps.pages, ["page", "publish"])
    graph.add_edge("page", "publish")
    graph.add_edge("publish", END)
    return graph.compile(checkpointer=checkpointer)
