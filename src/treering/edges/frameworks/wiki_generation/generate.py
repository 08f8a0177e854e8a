"""`generate_wiki`: one run over the wiki of a repository, begun or gone on with."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from treering.core.errors import Conflict, InvalidInput
from treering.core.scope import ROOT
from treering.derived.asking import Budget
from treering.edges.frameworks.extras import FRAMEWORKS, imported
from treering.edges.frameworks.langgraph.saver import TreeringSaver
from treering.edges.frameworks.wiki_generation.graph import Confirm, GenerationSteps, wiki_graph
from treering.edges.surfaces.space import Space, open_space
from treering.edges.wiki_files.folder import WikiFolder
from treering.edges.wiki_repository import MakeWriter, ReadRepository, WikiMaterial, read_repository
from treering.memories.leasing import held
from treering.memories.wiki.citing import Citations
from treering.memories.wiki.files.addresses import NoAddresses, forge_of
from treering.memories.wiki.generating import CeilingReached, WikiGeneration, WikiReport
from treering.memories.wiki.kept_wikis import KeptWikis, WikiRun
from treering.memories.wiki.pages import LineCitation, WikiPublisher, WikiWriter
from treering.memories.wiki.rules.writer import rule_writer
from treering.memories.wiki.space_memories import SpaceWikiMemories
from treering.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.tools.engine import Progress

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

AT_ONCE = 4
"""Pages that are written side by side, where nobody says how many."""
_AGENT_WRITER = "treering.edges.frameworks.wiki_generation.agent_writer"
LEASE_SECONDS = 15.0
"""How long a process that died keeps others from generating the same wiki."""
WAIT_SECONDS = LEASE_SECONDS + 2
"""How long one that may have died is waited for."""


async def generate_wiki(
    repository_id: UUID | str,
    force_regenerate: bool = False,
    *,
    repository: Path | str | None = None,
    branch: str | None = None,
    space: Space | None = None,
    scope: str | None = None,
    model: "str | BaseChatModel | None" = None,
    budget: Budget | None = None,
    confirm: Confirm | None = None,
    middleware: Sequence[Any] = (),
    writer: MakeWriter | None = None,
    publisher: WikiPublisher | Path | str | None = None,
    memories: WikiGenerationStore | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    at_once: int = AT_ONCE,
    progress: Progress | None = None,
) -> WikiReport:
    """Generate the wiki of a repository, or bring it up to date; return what was done.

    Pages that are made of the same as before are kept. A run that was ended in the middle is gone on with.
    `force_regenerate`: write a new generation of all pages. Its agents do not see the memories of the one before;
    when it is complete it replaces that one, memories included. Until then, and after a failure, all stands as before.

    `repository`: the folder of the work tree; needed once, then the space knows it. `branch`: a branch has a wiki and
    memories of its own. `space`: without one that of the settings is opened. `scope`: where the sources of the
    repository lie. `model`: the chat model of LangChain, or its
    name, whose agents plan and write the pages; without one rules do. `budget`: a ceiling on what this call may use of
    it; where it is reached, the report says `stopped`. `confirm`: told before the pages are written what they are
    estimated to take; where it returns false the run stops. `middleware`: of the agents, besides their memory.
    `writer`: makes another writer instead. `publisher`: the folder in which people read them,
    or whoever puts them elsewhere; without one they are kept in the space alone. `memories`: where agents keep what
    they remember, else the space. `checkpointer`: of LangGraph, with asynchronous methods, else the space. `at_once`:
    how many pages are written side by side.

    Raises `InvalidInput` for what cannot be a wiki, `Conflict` where another process is generating it, and what the
    writer raises. Call it again to go on.
    """
    if at_once < 1:
        raise InvalidInput(f"at_once: {at_once} is not a number of pages.", hint="Give 1 or more.")
    about = WikiRepository.of(repository_id, branch=branch)
    async with _opened(space) as opened:
        kept = KeptWikis(opened.engine, about, memories or SpaceWikiMemories(opened.engine))
        make = writer or (_by_agents(model, budget, middleware) if model else _by_rules)
        job = _Job(
            opened,
            kept,
            checkpointer or TreeringSaver(opened),
            1 if make is _by_rules else at_once,  # rules compute, and gain nothing from threads
            progress or opened.engine.progress,
            confirm,
        )
        async with _in_thread(job.alone()):
            read = await asyncio.to_thread(job.read, repository, scope, publisher)
            run, resumed = await job.begun(force=force_regenerate)
            material = await asyncio.to_thread(job.material, read, run)
            places = _folder(Path(publisher), read) if isinstance(publisher, Path | str) else publisher
            generation = WikiGeneration(kept, run, make(material), material.citations, places, resumed=resumed)
            return replace(await job.perform(generation), commit=read.commit)


def _by_agents(model: "str | BaseChatModel", budget: Budget | None, middleware: Sequence[Any]) -> MakeWriter:
    made = imported(_AGENT_WRITER, "AgentWriter", FRAMEWORKS["langchain"])
    return partial(made, model=model, budget=budget, middleware=middleware)


def _by_rules(material: WikiMaterial) -> WikiWriter:
    place = material.read.place
    return rule_writer(material.space.engine, place.scope, root=place.root)


def _folder(folder: Path, read: ReadRepository) -> WikiFolder:
    def cited_text(citation: LineCitation) -> str:
        lines = read.tree.lines(citation.path) or ()
        return "\n".join(lines[citation.first_line - 1 : citation.last_line])

    return WikiFolder(folder, forge_of(read.remote) or NoAddresses(), cited_text, read.commit or "")


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
        """Keep other processes from generating the same wiki. One that died keeps this one waiting for a while."""
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
        """Bring the repository into the space as it lies now. Raises `InvalidInput` where nobody said where it is."""
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
        """Return what the writer of a run has."""
        current = None if run.force else self.kept.current()
        return WikiMaterial(
            space=self.space,
            repository=replace(self.kept.repository, generation=run.generation, commit=read.commit),
            run_id=run.id,
            read=read,
            citations=Citations(self.space.engine, read.place, read.tree),
            memories=self.kept.generations,
            known=current.plan if current else None,
        )

    async def begun(self, *, force: bool) -> tuple[WikiRun, bool]:
        """Return the run that is under way, and whether it was; another is begun where it asked for something else."""
        run = await asyncio.to_thread(self.kept.open_run)
        if run and run.force == force and await asyncio.to_thread(self.kept.can_go_on, run):
            return run, True
        if run:
            await self.saver.adelete_thread(run.id)
        return await asyncio.to_thread(lambda: self.kept.begin(force=force)), False

    async def perform(self, generation: WikiGeneration) -> WikiReport:
        """Run the graph to its end, from where an earlier process left it."""
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
            # After a failure too: pages that were written are kept in the space, and only the others are written again.
            await self.saver.adelete_thread(generation.run.id)
        return replace(report, estimate=steps.estimate)


def lease_name(repository: WikiRepository) -> str:
    """Return the name of the lease of whoever generates a wiki."""
    return f"wiki of {repository.scope}"


@asynccontextmanager
async def _opened(space: Space | None) -> AsyncIterator[Space]:
    if space is not None:
        yield space
        return
    opened = await asyncio.to_thread(open_space)
    try:
        yield opened
    finally:
        await asyncio.to_thread(opened.close)


@asynccontextmanager
async def _in_thread(context: Any) -> AsyncIterator[None]:
    """Enter and leave a blocking context in threads."""
    await asyncio.to_thread(context.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
