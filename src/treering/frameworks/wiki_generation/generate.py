"""`generate_wiki`: start or resume one run over the wiki of a repository."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from treering.core.errors import Conflict, InvalidInput
from treering.core.scope import ROOT
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Usage
from treering.extensions.wiki.citing import Citations
from treering.extensions.wiki.files.addresses import forge_of, no_address
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.generating import CeilingReached, WikiGeneration, WikiReport
from treering.extensions.wiki.kept_wikis import KeptWikis, WikiRun
from treering.extensions.wiki.memories.named_store import open_named_store
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository, generation_store
from treering.extensions.wiki.pages import LineCitation, WikiPublisher, WikiWriter
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.extensions.wiki.work_tree import MakeWriter, ReadRepository, WikiMaterial, read_repository
from treering.frameworks import FRAMEWORKS, imported
from treering.frameworks.langgraph.saver import TreeringSaver
from treering.surfaces.python.space import Space, open_space
from treering.system.settings import Settings
from treering.verbs.engine import Progress
from treering.verbs.leases import held

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# The steps of a generation as a graph of LangGraph: structure, then pages side by side, then publishing.


_Done = TypeVar("_Done")
Confirm = Callable[[Usage], bool]
"""Called with the estimated usage of pages before they are written; returns whether to continue."""


class GenerationState(TypedDict, total=False):
    """The content of checkpoints: paths of pages. Plans and pages are stored in the space."""

    to_write: list[str]


class PageState(TypedDict):
    """The input of one page."""

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
        """Plan the pages."""
        return {"to_write": await self._in_thread(self._planned)}

    async def page(self, state: PageState) -> GenerationState:
        """Write one page. After a failure no further page is started; pages in progress are finished and stored."""
        if not self.failures:
            try:
                await self._in_thread(lambda: self.generation.write(state["path"]))
            except Exception as error:  # noqa: BLE001 - it is raised when the pages under way are finished
                self.failures.append(error)
        return {}

    async def publish(self, state: GenerationState) -> GenerationState:
        """Publish the pages and switch to them. Raises the errors of writing a page."""
        if self.failures:
            raise self.failures[0]
        count = len(state.get("to_write", ()))
        self.progress("Writing pages", count, count)
        self.reports.append(await self._in_thread(self.generation.publish))
        return {}

    def pages(self, state: GenerationState) -> list[Send] | str:
        """Return the next nodes after the structure: one per page, or the end if there is none to write."""
        return [Send("page", PageState(path=path)) for path in state["to_write"]] or "publish"

    def _planned(self) -> list[str]:
        paths = self.generation.plan()
        self.estimate = self.generation.estimate()
        if self.confirm and self.estimate and not self.confirm(self.estimate):
            raise CeilingReached("The pages were not generated: their estimated cost is over the limit.")
        self.progress("Writing pages", 0, len(paths))
        return paths

    async def _in_thread(self, work: Callable[[], _Done]) -> _Done:
        # Without the context of the graph, so that agents do not store checkpoints in it.
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


AT_ONCE = 4
"""The default number of pages written in parallel."""
_AGENT_WRITER = "treering.frameworks.wiki_generation.agent_writer"
LEASE_SECONDS = 15.0
"""How long a dead process blocks others from generating the same wiki."""
WAIT_SECONDS = LEASE_SECONDS + 2
"""The time to wait for a process that may have died."""


class WikiOptions(TypedDict, total=False):
    """Further options of `generate_wiki`, by name."""

    repository: Path | str | None
    """The folder of the work tree; needed once, then the space knows it."""
    branch: str | None
    """A branch has a wiki and memories of its own."""
    space: Space | None
    """Default: the configured space."""
    scope: str | None
    """The scope of the repository's sources."""
    model: "str | BaseChatModel | None"
    """The chat model of LangChain, or its name, whose agents plan and write the pages; without one rules do."""
    budget: Budget | None
    """A limit on this call's use of the model; when it is reached, the report has the status `stopped`."""
    confirm: Confirm | None
    """Called with the estimated usage before the pages are written; if it returns false, the run stops."""
    middleware: Sequence[Any]
    """Of the agents, besides their memory."""
    writer: MakeWriter | None
    """Makes another writer instead."""
    publisher: WikiPublisher | Path | str | None
    """The folder for readers, or a publisher for another place; otherwise the pages are only in the space."""
    memories: WikiGenerationStore | None
    """The store of the agents' memories; default: the space."""
    checkpointer: BaseCheckpointSaver[Any] | None
    """Of LangGraph, with asynchronous methods, else the space."""
    at_once: int
    """How many pages are written side by side; by default `AT_ONCE`."""
    progress: Progress | None
    """Called with the progress; default: the progress of the space."""


async def generate_wiki(
    repository_id: UUID | str, force_regenerate: bool = False, **options: Unpack[WikiOptions]
) -> WikiReport:
    """Generate or update the wiki of a repository; return a report.

    Pages with unchanged inputs stay. An interrupted run is resumed. `force_regenerate`: write a new generation of all
    pages. Its agents do not see the memories of the previous one; when it is complete, it replaces that one, including
    its memories. Until then, and after a failure, nothing changes. The keyword arguments are those of `WikiOptions`:
    `repository`, `branch`, `space`, `scope`, `model`, `budget`, `confirm`, `middleware`, `writer`, `publisher`,
    `memories`, `checkpointer`, `at_once`, `progress`.

    Raises `InvalidInput` for an invalid wiki, `Conflict` if another process is generating it, and the errors of the
    writer. Call it again to resume.
    """
    if unknown := options.keys() - WikiOptions.__annotations__:
        raise TypeError(f"generate_wiki() got an unexpected keyword argument {min(unknown)!r}")
    if (at_once := options.get("at_once", AT_ONCE)) < 1:
        raise InvalidInput(f"at_once: {at_once} is not a number of pages.", hint="Give 1 or more.")
    about = WikiRepository.of(repository_id, branch=options.get("branch"))
    publisher = options.get("publisher")
    async with in_threads(stores_for(options.get("space"), options.get("memories"))) as (opened, memories):
        kept = KeptWikis(opened.engine, about, memories)
        make = _writer(options)
        job = _Job(
            opened,
            kept,
            options.get("checkpointer") or TreeringSaver(opened),
            1 if make is _by_rules else at_once,  # rules compute, and gain nothing from threads
            options.get("progress") or opened.engine.progress,
            options.get("confirm"),
        )
        async with in_threads(job.alone()):
            read = await asyncio.to_thread(job.read, options.get("repository"), options.get("scope"), publisher)
            run, resumed = await job.begun(force=force_regenerate)
            material = await asyncio.to_thread(job.material, read, run)
            places = _folder(Path(publisher), read) if isinstance(publisher, Path | str) else publisher
            generation = WikiGeneration(kept, run, make(material), material.citations, places, resumed)
            return replace(await job.perform(generation), commit=read.commit)


def _writer(options: WikiOptions) -> MakeWriter:
    model, given = options.get("model"), options.get("writer")
    if given or not model:
        return given or _by_rules
    made = imported(_AGENT_WRITER, "AgentWriter", FRAMEWORKS["langchain"])
    return partial(made, model=model, budget=options.get("budget"), middleware=options.get("middleware", ()))


def _by_rules(material: WikiMaterial) -> WikiWriter:
    place = material.read.place
    return RuleWriter(material.space.engine, place.scope, root=place.root)


def _folder(folder: Path, read: ReadRepository) -> WikiFolder:
    def cited_text(citation: LineCitation) -> str:
        lines = read.tree.lines(citation.path) or ()
        return "\n".join(lines[citation.first_line - 1 : citation.last_line])

    return WikiFolder(folder, forge_of(read.remote) or no_address, cited_text, read.commit or "")


@dataclass(frozen=True, slots=True)
class _Job:
    """One call of `generate_wiki`."""

    space: Space
    kept: KeptWikis
    saver: BaseCheckpointSaver[Any]
    at_once: int
    progress: Progress
    confirm: Confirm | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the wiki against other processes. The lock of a dead process expires after a while."""
        name = lease_name(self.kept.repository)
        leases = self.space.engine.leases
        with held(leases, name, uuid4().hex, LEASE_SECONDS, wait_seconds=WAIT_SECONDS) as lease:
            if lease is None:
                raise Conflict(
                    "Another process is generating this wiki.",
                    hint=f"Wait for it; if it hangs, end it, and take its lease away: treering unlock '{name}'.",
                )
            yield

    def read(self, repository: Path | str | None, scope: str | None, publisher: object) -> ReadRepository:
        """Ingest the current work tree. Raises `InvalidInput` if its folder is unknown."""
        known = self.kept.place()
        if repository is None and known is None:
            raise InvalidInput(
                f"The space does not know the repository {self.kept.repository.repository_id!r}.",
                hint="Give the folder of its work tree: generate_wiki(…, repository='path/to/it').",
            )
        folder = Path(repository) if repository is not None else Path(known[0] if known else "")
        place = scope or (known[1] if known else ROOT)
        wiki = Path(publisher) if isinstance(publisher, Path | str) else None
        read = read_repository(self.space, folder, place, without=wiki)
        if known != (str(read.tree.root), place):
            self.kept.keep_place(str(read.tree.root), place)
        return read

    def material(self, read: ReadRepository, run: WikiRun) -> WikiMaterial:
        """Return the input of the writer of a run."""
        current = None if run.force else self.kept.current()
        return WikiMaterial(
            space=self.space,
            repository=replace(self.kept.repository, generation=run.generation, commit=read.commit),
            run_id=run.id,
            read=read,
            citations=Citations(self.space.engine, read.place, read.tree.lines),
            memories=self.kept.generations,
            known=current.plan if current else None,
        )

    async def begun(self, *, force: bool) -> tuple[WikiRun, bool]:
        """Return the unfinished run and `True`, or start a new one if it cannot be continued."""
        run = await asyncio.to_thread(self.kept.open_run)
        if run and run.force == force and await asyncio.to_thread(self.kept.can_go_on, run):
            return run, True
        if run:
            await self.saver.adelete_thread(run.id)
        return await asyncio.to_thread(lambda: self.kept.begin(force=force)), False

    async def perform(self, generation: WikiGeneration) -> WikiReport:
        """Run the graph, from the checkpoint of an earlier process if there is one."""
        thread: RunnableConfig = {
            "configurable": {"thread_id": generation.run.id},
            "max_concurrency": self.at_once,
        }
        pool = ThreadPoolExecutor(self.at_once, thread_name_prefix="wiki")
        steps = GenerationSteps(generation, pool, self.progress, self.confirm)
        try:
            graph = wiki_graph(steps, self.saver)
            begun = bool((await graph.aget_state(thread)).next)
            await graph.ainvoke(None if begun else {"to_write": []}, thread)
            [report] = steps.reports
        except CeilingReached as error:
            stopped = await asyncio.to_thread(generation.stopped)
            report = replace(stopped, stopped_by=f"{error.message} {error.hint}".strip())
        finally:
            await asyncio.to_thread(pool.shutdown)
            # After a failure too: the written pages are in the space, so the next run writes only the others.
            await self.saver.adelete_thread(generation.run.id)
        return replace(report, estimate=steps.estimate)


def lease_name(repository: WikiRepository) -> str:
    """Return the name of the lease for generating a wiki."""
    return f"wiki of {repository.scope}"


@contextmanager
def stores_for(
    space: Space | None, memories: WikiGenerationStore | None
) -> Iterator[tuple[Space, WikiGenerationStore]]:
    """Yield a space and the memories of agents. Close them afterwards if they were opened here.

    Default: the configured space, and the memories in a given space, else the configured ones.
    """
    with ExitStack() as stack:
        opened = space or stack.enter_context(open_space())
        if memories is None and space is None and Settings.read().wiki_memory:
            named = open_named_store(None)
            stack.callback(named.close)
            memories = generation_store(named.store)
        yield opened, memories or SpaceWikiMemories(opened.engine)


@asynccontextmanager
async def in_threads(context: AbstractContextManager[_Done]) -> AsyncIterator[_Done]:
    """Enter and leave a blocking context in threads."""
    entered = await asyncio.to_thread(context.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
