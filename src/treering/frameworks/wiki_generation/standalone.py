"""Agents that plan and write a wiki by themselves, and the whole generation as one graph that is handed a state."""

import asyncio
import operator
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, TypedDict
from uuid import UUID
from weakref import finalize

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, TodoListMiddleware, ToolRetryMiddleware
from langchain.agents.middleware.types import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from treering.core.errors import InvalidInput, TreeringError
from treering.core.scope import ROOT
from treering.extensions.wiki.generating import WikiReport
from treering.extensions.wiki.kept_wikis import KeptWikis
from treering.extensions.wiki.memories.wiki_memory import WikiRepository
from treering.extensions.wiki.memories.wiki_memory_service import WikiMemoryService
from treering.extensions.wiki.pages import WikiPage, WikiPlan
from treering.extensions.wiki.work_tree import ReadRepository, read_repository
from treering.frameworks.langchain.run_scope import WikiRunContext, field_of_run
from treering.frameworks.langchain.wiki_middleware import WikiMemoryMiddleware
from treering.frameworks.wiki_generation.agent_prompts import PAGE, STRUCTURE
from treering.frameworks.wiki_generation.agent_writer import WikiPageText, WikiStructure
from treering.frameworks.wiki_generation.generate import generate_wiki, in_threads, stores_for
from treering.frameworks.wiki_generation.repository_tools import RepositoryTools, Runtime
from treering.surfaces.python.space import Space, open_space
from treering.system.settings import Settings

_RETRIES = 3
_Agent = CompiledStateGraph[Any, Any, Any, Any]


class WikiWorkflowState(TypedDict, total=False):
    """The state of `wiki_workflow`: its input and output."""

    repository_id: UUID | str
    repository_url: str
    branch: str
    repo_dir: str
    """The folder of the work tree; needed once, then the space knows it."""
    force_regenerate: bool
    structure: WikiPlan
    pages: Annotated[list[WikiPage], operator.add]
    report: WikiReport


async def create_structure_agent(
    model: str | BaseChatModel | None = None,
    *,
    space: Space | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
) -> _Agent:
    """Return an agent that plans the pages of a wiki; its `structured_response` is the plan.

    It reads the repository at the `repo_dir` of its run and stores memories for its `repository_id`; both are keys of
    the state, of the context, or of `config={"state": …}`. `model`: a chat model of LangChain, or its name; default:
    `TREERING_WIKI_MODEL`. `space`: default: the configured one. `middleware`: in addition to memory, to-dos and
    retries. Raises `InvalidInput` if no model is given.
    """
    return await asyncio.to_thread(_agent, "structure_agent", STRUCTURE, WikiStructure, model, space, middleware)


async def create_page_agent(
    model: str | BaseChatModel | None = None,
    *,
    space: Space | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
) -> _Agent:
    """Return an agent that writes one page of a wiki; its `structured_response` is the page.

    It is made as `create_structure_agent` makes one.
    """
    return await asyncio.to_thread(_agent, "page_agent", PAGE, WikiPageText, model, space, middleware)


def _agent(
    name: str,
    system_prompt: str,
    schema: type[Any],
    model: str | BaseChatModel | None,
    space: Space | None,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]],
) -> _Agent:
    named = model or Settings.read().wiki_model
    if not named:
        raise InvalidInput(
            "No model is named for the agents that write a wiki.",
            hint='Give one: create_page_agent("openai:gpt-4o-mini"), or set TREERING_WIKI_MODEL.',
        )
    opened = space or open_space()
    in_space = space is not None or not Settings.read().wiki_memory
    layers: list[AgentMiddleware[Any, Any, Any]] = [
        WikiMemoryMiddleware(name, service=WikiMemoryService(opened if in_space else None)),
        TodoListMiddleware(),
        ModelRetryMiddleware(max_retries=_RETRIES, backoff_factor=2.0, initial_delay=1.0),
        ToolRetryMiddleware(max_retries=_RETRIES, backoff_factor=2.0, initial_delay=1.0),
        *middleware,
    ]
    agent = create_agent(
        named,
        RepositoryTools(opened, _OpenedRepositories(opened).of_run).tools(),
        system_prompt=system_prompt,
        middleware=layers,
        response_format=ToolStrategy(schema),
        context_schema=WikiRunContext,
    )
    if space is None:
        finalize(agent, opened.close)
    return agent


class _OpenedRepositories:
    """The repositories of runs, which each run names as `repo_dir`: no model names it."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._lock = Lock()
        self._read: dict[str, ReadRepository] = {}

    def of_run(self, runtime: Runtime) -> ReadRepository:
        """Return the repository of a run, read once. Raises `ToolException` if there is none."""
        folder = field_of_run(runtime.context, runtime.state, "repo_dir")
        if not folder:
            raise ToolException("The run names no folder of the repository: repo_dir is missing in its state.")
        with self._lock:
            if folder not in self._read:
                try:
                    self._read[folder] = read_repository(self._space, Path(str(folder)), ROOT)
                except TreeringError as error:
                    raise ToolException(f"The repository cannot be read: {error.message} {error.hint}") from None
            return self._read[folder]


async def _generated(state: WikiWorkflowState, config: RunnableConfig) -> WikiWorkflowState:
    given = config.get("configurable", {})
    branch = state.get("branch") or None
    async with in_threads(stores_for(given.get("space"), None)) as (opened, memories):
        report = await generate_wiki(
            state["repository_id"],
            state.get("force_regenerate", False),
            repository=state.get("repo_dir") or None,
            branch=branch,
            space=opened,
            memories=memories,
            model=given.get("model") or Settings.read().wiki_model or None,
            publisher=given.get("publisher"),
        )
        about = WikiRepository.of(state["repository_id"], branch=branch)
        kept = KeptWikis(opened.engine, about, memories)
        wiki = await asyncio.to_thread(kept.current)
        if wiki is None:
            return {"report": report}
        pages = await asyncio.to_thread(kept.pages, wiki)
        return {"structure": wiki.plan, "pages": [*pages.values()], "report": report}


def _workflow() -> _Agent:
    graph = StateGraph(WikiWorkflowState)
    graph.add_node("generate", _generated)
    graph.add_edge(START, "generate")
    graph.add_edge("generate", END)
    return graph.compile()


wiki_workflow = _workflow()
"""`generate_wiki` as a graph of LangGraph: `await wiki_workflow.ainvoke({"repository_id": …, "repo_dir": …})`.

`config={"configurable": {"model": …, "space": …, "publisher": …}}` contains options of `generate_wiki`.
"""
