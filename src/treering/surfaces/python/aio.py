"""The everyday methods of a space as coroutines, each of which runs in a worker thread."""

import asyncio
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from treering.core.objects import Channel
from treering.core.scope import ROOT
from treering.surfaces.python.everyday import Item, Place, Places
from treering.surfaces.python.results import Brief, Hits, Log, NewEntry, Pack
from treering.surfaces.python.space import Space, open_space

if TYPE_CHECKING:
    from treering.core.patch import Receipt
    from treering.extensions.statements.people import Person
    from treering.verbs.ingest.report import IngestReport
    from treering.verbs.query.browsing import ExpandReport, PageReport


def open_async(
    address: str | Path | None = None, *, actor: str | None = None, channel: Channel = "agent", **options: Any
) -> "AsyncSpace":
    """Return a space for `async with`, which opens it. Takes the options of `treering.open`."""
    return AsyncSpace(address, actor=actor, channel=channel, **options)


class AsyncSpace:
    """A space whose methods are coroutines. Each is the method of `treering.Space` with this name."""

    def __init__(self, address: str | Path | None, **options: Any) -> None:
        self._address, self._options = address, options
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """The open space, for everything that has no method here. Raises `RuntimeError` outside of `async with`."""
        if self._space is None:
            raise RuntimeError("The space is not open: use it inside `async with treering.aio.open() as space`.")
        return self._space

    async def __aenter__(self) -> Self:
        self._space = await asyncio.to_thread(open_space, self._address, **self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.space.close)

    async def add(
        self, what: Path | str = "", *, note: str | None = None, title: str = "", scope: str = ROOT
    ) -> "IngestReport":
        """Read a repository, folder, file, page or note into the space."""
        return await asyncio.to_thread(self.space.add, what, note=note, title=title, scope=scope)

    async def search(
        self,
        text: str,
        *,
        limit: int = 10,
        kind: str = "",
        path: str = "",
        since: date | datetime | str | None = None,
        scope: str = ROOT,
    ) -> Hits:
        """Return the passages and objects that answer best."""
        return await asyncio.to_thread(
            self.space.search, text, limit=limit, kind=kind, path=path, since=since, scope=scope
        )

    async def ask(self, task: str, *, max_tokens: int | None = None, scope: str = ROOT) -> Pack:
        """Return the knowledge for a task or a question."""
        return await asyncio.to_thread(self.space.ask, task, max_tokens=max_tokens, scope=scope)

    async def brief(self, *, scope: str = ROOT) -> Brief:
        """Return a brief before starting."""
        return await asyncio.to_thread(self.space.brief, scope=scope)

    async def show(self, what: Item, *, scope: str = ROOT) -> "PageReport":
        """Return one object with its history, a file, or some lines of one."""
        return await asyncio.to_thread(self.space.show, what, scope=scope)

    async def person(
        self, name: str, *, as_of: int | str | date | None = None, max_tokens: int | None = None, scope: str = ROOT
    ) -> "Person":
        """Return the statements of conversations by and about a person."""
        return await asyncio.to_thread(self.space.person, name, as_of=as_of, max_tokens=max_tokens, scope=scope)

    async def read(self, *places: Place, scope: str = ROOT) -> "ExpandReport":
        """Return the words at some places."""
        return await asyncio.to_thread(self.space.read, *places, scope=scope)

    async def log(
        self, about: str = "", *, since: date | datetime | str | None = None, limit: int = 50, scope: str = ROOT
    ) -> Log:
        """Return the changes, newest first."""
        return await asyncio.to_thread(self.space.log, about, since=since, limit=limit, scope=scope)

    async def decide(
        self,
        text: str,
        *,
        outcome: str = "",
        question: str = "",
        why: str = "",
        instead_of: Sequence[str] = (),
        because: Places = (),
        scope: str = ROOT,
    ) -> NewEntry:
        """Record a decision."""
        return await asyncio.to_thread(
            self.space.decide,
            text,
            outcome=outcome,
            question=question,
            why=why,
            instead_of=instead_of,
            because=because,
            scope=scope,
        )

    async def rule(
        self, text: str, *, applies_to: str = "", why: str = "", because: Places = (), scope: str = ROOT
    ) -> NewEntry:
        """Record a rule to follow."""
        return await asyncio.to_thread(
            self.space.rule, text, applies_to=applies_to, why=why, because=because, scope=scope
        )

    async def prefer(self, text: str, *, applies_to: str = "", because: Places = (), scope: str = ROOT) -> NewEntry:
        """Record a preference."""
        return await asyncio.to_thread(self.space.prefer, text, applies_to=applies_to, because=because, scope=scope)

    async def fact(self, text: str, *, of: str = "", because: Places = (), scope: str = ROOT) -> NewEntry:
        """Record a fact such as `port = 8080` of a subject."""
        return await asyncio.to_thread(self.space.fact, text, of=of, because=because, scope=scope)

    async def task(self, text: str, *, priority: str = "normal", summary: str = "", scope: str = ROOT) -> NewEntry:
        """Open a task."""
        return await asyncio.to_thread(self.space.task, text, priority=priority, summary=summary, scope=scope)

    async def done(self, task: Item, resolution: str = "", *, scope: str = ROOT) -> NewEntry:
        """Resolve a task."""
        return await asyncio.to_thread(self.space.done, task, resolution, scope=scope)

    async def replace(self, old: Item, text: str, *, why: str = "", because: Places = ()) -> NewEntry:
        """Replace a statement with a new one."""
        return await asyncio.to_thread(self.space.replace, old, text, why=why, because=because)

    async def undo(self, patch_id: Item = "") -> "Receipt":
        """Undo a patch; the default is this author's last record."""
        return await asyncio.to_thread(self.space.undo, patch_id)
