"""The space of a server, opened when it is first needed, and the additions of parts to a server."""

import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

from starlette.requests import Request

from treering.core.errors import Denied, InvalidInput, NotFound, Unavailable, nearest
from treering.core.scope import ROOT, Boundary
from treering.extensions.mcp.recent_answers import RecentAnswers
from treering.extensions.server.callers import Bounds, Caller
from treering.extensions.server.confined_index import ConfinedIndex
from treering.extensions.server.confined_ledger import confined, with_jobs_of
from treering.extensions.server.contract import Route
from treering.extensions.server.web.view import ReadSpace
from treering.extensions.server.workers import Stop, Workers, report_progress
from treering.ports.adapter import NoFiles
from treering.ports.models import Embedder
from treering.registry import extensions, load
from treering.sources.reading.access import files_below
from treering.spaces.wiring import start_waiting
from treering.surfaces.python.space import Space, open_space
from treering.system.address import Address
from treering.verbs import catalog
from treering.verbs.engine import Engine, Progress
from treering.verbs.envelope import DECIDES, WRITES, Answer, Envelope, Operation, Report, Rights, require

_T = TypeVar("_T")
Allowed = Literal["review", "erase"]
ALLOWED: tuple[Allowed, ...] = get_args(Allowed)


def allowed(words: Iterable[str]) -> frozenset[Allowed]:
    """Parse the permissions of --allow. Raises `InvalidInput` for an unknown one."""
    given = set(words)
    for word in given.difference(ALLOWED):
        raise InvalidInput(
            f"--allow {word!r} is not known.", hint=nearest(word, ALLOWED), details={"known": list(ALLOWED)}
        )
    return frozenset(known for known in ALLOWED if known in given)


def granted(*, files: Path | None, allow: Collection[Allowed], urls: bool = False) -> Rights:
    """Return the rights of callers: read and write the space, and what the operator allows in addition.

    `files`: the folder whose files may be read. `allow`: `review` lets callers decide as a person, `erase` lets them
    also erase. `urls`: web pages may be fetched.
    """
    reads_files, destroys = files is not None, "erase" in allow
    return replace(WRITES, reads_files=reads_files, fetches=urls, needs_person=bool(allow), destroys=destroys)


class ServedSpace:
    """A space for the calls of many threads.

    `files`: the folder whose files may be read; `None`: no files, because callers could otherwise read any file of the
    server's user. `granted`: the maximal rights of any caller.
    """

    def __init__(
        self,
        address: Address | str,
        *,
        stop: Stop,
        background: bool,
        embedder: Embedder | None,
        files: Path | None,
        granted: Rights,
    ) -> None:
        access = files_below(files) if files else NoFiles()
        self._open = partial(open_space, address, background=background, embedder=embedder, files=access)
        self._stop = stop
        # An import follows links in its folder without a check, so it is not granted.
        self._granted_besides = replace(granted, reads_files=False, fetches=False)
        self._space: Space | None = None
        self._indexes: dict[Boundary, ConfinedIndex] = {}
        self._lock = threading.Lock()
        self._verifying = threading.Lock()
        # Requests are no conversations: a number alone might be one of another agent's answer.
        self._answers = RecentAnswers(has_last=False)

    def call(
        self,
        verb: str,
        envelope: Envelope,
        caller: Caller,
        *,
        progress: Progress = report_progress,
        lend: Callable[[Engine], Engine] | None = None,
        as_person: bool = False,
    ) -> Report:
        """Call a verb. Only calls that ingest create a missing space: reading from a wrong address must fail.

        `lend`: makes the engine of the call from that of the space. `as_person`: write with the rights of a person.

        Raises `Denied`, before the space is opened, for a mode that exceeds the caller's rights or a scope outside the
        caller's scope, and `Unavailable` for a second verification of the whole space at the same time.
        """
        tool = catalog.find(verb)
        mode = tool.find(envelope.mode)
        mode = replace(mode, rights=mode.rights | DECIDES) if as_person else mode
        tool.require(mode, granted=caller.granted)
        if mode.whole_space:
            _check_whole_space(f"{verb} in mode {mode.name!r}", caller)
        named = envelope.scope if "scope" in envelope.model_fields_set else None
        placed = envelope.model_copy(update={"scope": caller.scope_for(named)})
        places_of = partial(self._answers.places, caller=caller.key)
        engine = replace(self.engine_for(mode, caller), progress=progress, places_of=places_of)
        with self._one_verification() if mode.whole_space else nullcontext():
            report = tool.call(lend(engine) if lend else engine, placed, granted=caller.granted)
        self._answers.note(report, caller=caller.key)
        return report

    def grants(self, operation: Operation[Any]) -> bool:
        """Return whether callers may use an operation that is not a mode of a verb."""
        return not operation.rights.beyond(self._granted_besides)

    def how_to_grant(self, operation: Operation[Any]) -> str:
        """Return the operator's instruction for allowing an operation; empty if callers may use it."""
        try:
            require(operation.name, operation.rights, granted=self._granted_besides)
        except Denied as error:
            return error.hint
        return ""

    def perform(
        self, operation: Operation[Answer], caller: Caller, *, given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Answer:
        """Run an operation that is not a mode of a verb. Raises `Denied` if it exceeds the caller's rights."""
        require(operation.name, operation.rights, granted=caller.granted_besides)
        engine = self.engine_for(operation, caller)
        return operation.perform(
            engine, scope=caller.scope, given=given, options=options, granted=caller.granted_besides
        )

    def engine_for(self, operation: Operation[Any], caller: Caller) -> Engine:
        """Open the space. Decisions of a person are written as a person, since the operator allowed that.

        Jobs are visible to the key that started them, and to keys with the right `admin`.
        """
        engine = self._opened(create=operation.makes_space).engine.with_progress(report_progress)
        author = caller.author or engine.author
        decides = operation.rights.needs_person
        engine = engine.with_author(author.model_copy(update={"channel": "user"}) if decides else author)
        if (boundary := caller.boundary) not in self._indexes:
            self._indexes[boundary] = ConfinedIndex(engine.index, boundary)
        engine = confined(engine, boundary, index=self._indexes[boundary])
        return with_jobs_of(engine, caller.key, sees_all=caller.granted.destroys) if caller.has_key else engine

    def check(self) -> bool:
        """Open the space; return whether it exists. Raises the errors of opening it."""
        try:
            self._opened(create=False)
        except NotFound:
            return False
        return True

    def is_readable(self) -> bool:
        """Read the space; return whether it exists. Raises the errors of opening and reading it."""
        if not self.check():
            return False
        self.engine(create=False).ledger.sequence()
        return True

    def look_after(self) -> None:
        """Start pending work of the space, if it exists, including work left by processes that died."""
        if self.check():
            start_waiting(self.engine(create=False))

    @property
    def is_open(self) -> bool:
        """Return whether the space is open, without waiting if it is being opened."""
        return self._space is not None

    def pending_vectors(self) -> int:
        """Return how many texts wait for their embedding; 0 if the space is not open."""
        space = self._space
        return space.engine.index.vectors.lag().pending if space else 0

    def engine(self, *, create: bool) -> Engine:
        """Return the engine of the space. Raises `NotFound` if it does not exist and `create` is false."""
        return self._opened(create=create, stopping=True).engine

    def close(self) -> None:
        """Close the space, if it was opened."""
        with self._lock:
            if self._space:
                self._space.close()
            self._space = None
            self._indexes.clear()

    @contextmanager
    def _one_verification(self) -> Iterator[None]:
        """Hold off other verifications of the whole space, which each occupy a thread for minutes."""
        if not self._verifying.acquire(blocking=False):
            raise Unavailable("The space is being verified for another call.", hint="Try again when that has ended.")
        try:
            yield
        finally:
            self._verifying.release()

    def _opened(self, *, create: bool, stopping: bool = False) -> Space:
        """Return the open space, or open it; while the server stops, only to finish running work."""
        with self._lock:
            if self._space is None:
                if not stopping:
                    self._stop.check()
                self._space = self._open(create=create)
            return self._space


def _check_whole_space(what: str, caller: Caller) -> None:
    """Raise `Denied` for the key of a scope, and for one without the right `admin`."""
    if caller.has_key and (caller.scope != ROOT or not caller.granted.destroys):
        of_key = f"for the scope {caller.scope}" if caller.scope != ROOT else "without the right admin"
        raise Denied(
            f"{what} reads the whole space, and this key is {of_key}.",
            hint="Use a key with the right admin, or run it on the machine of the space. "
            "`query` in mode `recent` lists changes.",
            details={"operation": what, "not_granted": ["whole_space"]},
        )


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of a server that it passes to the parts of Treering."""

    space: ServedSpace
    workers: Workers
    bounds: Bounds
    stop: Stop
    background: bool
    """Whether vectors are embedded in the background."""
    embedder: Embedder | None
    """A model for all spaces; none: each opens its own."""

    async def run(self, request: Request, work: Callable[[], _T], *, writes: bool) -> _T:
        """Return the result of a request's work, within the time limit of reads or writes. Raises as `Workers.run`."""
        seconds = self.bounds.work_seconds if writes else self.bounds.read_seconds
        return await self.workers.run(request.receive, work, seconds=seconds, reads=not writes)


class FurtherSpaces(Protocol):
    """Spaces in addition to the server's own, such as those of projects, each with an id."""

    def ids(self) -> list[str]:
        """Return the ids of the spaces that can be listed."""
        ...

    def address(self, identity: str, /) -> Address:
        """Return the address of a space. Raises `InvalidInput` for an invalid id."""
        ...

    def count_open(self) -> tuple[int, int]:
        """Return how many are open, and how many of their texts wait for a vector."""
        ...

    def for_pages(self, identity: str, caller: Caller, *, check_stop: Callable[[], None]) -> ReadSpace:
        """Return a space for the pages of a caller. Its calls raise `NotFound` if it does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class ServedPart:
    """The additions of a part to a server."""

    routes: Sequence[Route] = ()
    spaces: FurtherSpaces | None = None
    warm: Callable[[], None] | None = None
    """Called when the server starts; returns at once."""
    look_after: Callable[[], None] | None = None
    """Called now and then, for work that a process left behind."""
    close: Callable[[], Awaitable[None]] | None = None


def served_parts(context: ServerContext, chosen: Mapping[str, Any]) -> list[ServedPart]:
    """Return the additions of each extension. `chosen`: the values of its flags, by the name of the extension."""
    return [
        load(extension.http_routes)(context, chosen.get(extension.name))
        for extension in extensions()
        if extension.http_routes
    ]
