"""The space the server speaks for: opened when it is first needed, closed when the server stops."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal, get_args

from treering.core.errors import InvalidInput, NotFound, Unavailable, nearest
from treering.ports.adapter import NoFiles
from treering.ports.models import Embedder
from treering.ports.runtime import check_between_steps
from treering.sources.reading.access import files_below
from treering.spaces.wiring import start_waiting
from treering.surfaces.http.callers import Caller
from treering.surfaces.python.space import Space, open_space
from treering.system.address import Address
from treering.verbs import catalog
from treering.verbs.confined_ledger import confined, with_jobs_of
from treering.verbs.engine import Engine, Progress
from treering.verbs.envelope import WRITES, Answer, Envelope, Operation, Report, Rights, require

Allowed = Literal["review", "erase"]
ALLOWED: tuple[Allowed, ...] = get_args(Allowed)


def allowed(words: Iterable[str]) -> frozenset[Allowed]:
    """Read what an operator allows. Raises `InvalidInput` for a word that is not known."""
    given = set(words)
    for word in given.difference(ALLOWED):
        raise InvalidInput(
            f"--allow {word!r} is not known.", hint=nearest(word, ALLOWED), details={"known": list(ALLOWED)}
        )
    return frozenset(known for known in ALLOWED if known in given)


def granted(*, files: Path | None, allow: Collection[Allowed], urls: bool = False) -> Rights:
    """Return what whoever reaches the server may do: read and write the space, and what its operator allows besides.

    `files`: the folder whose files may be read. `allow`: `review` lets callers decide as a person, `erase` lets them
    erase besides. `urls`: pages of the web may be fetched.
    """
    reads_files, destroys = files is not None, "erase" in allow
    return replace(WRITES, reads_files=reads_files, fetches=urls, needs_person=bool(allow), destroys=destroys)


class Stop:
    """Tells calls that the server stops: new ones at once, those that run when their time to finish is over."""

    def __init__(self, *, finishing_seconds: float = 0.0, time: Callable[[], float] = monotonic) -> None:
        """Give what runs so many seconds to finish."""
        self._finishing_seconds = finishing_seconds
        self._time = time
        self._said = False
        self._ends = 0.0

    @property
    def said(self) -> bool:
        """Whether the server stops."""
        return self._said

    def say(self) -> None:
        """Refuse new work, and have what runs end in time."""
        if not self._said:
            self._ends = self._time() + self._finishing_seconds
            self._said = True

    def say_now(self) -> None:
        """Have all work end at its next report of progress."""
        self._ends = self._time()
        self._said = True

    def check(self, _what: str = "", _done: int = 0, _total: int | None = None) -> None:
        """Let new work begin. Raises `Unavailable` once the server stops."""
        if self._said:
            raise Unavailable("The server is stopping.", hint="What was written stays; ask again to go on.")

    def check_running(self) -> None:
        """Let work go on that runs. Raises `Unavailable` where its time to finish is over."""
        if self._said and self._time() >= self._ends:
            self.check()


@dataclass(slots=True)
class WorkApart:
    """Work that goes on when the request ends which began it, and how far it is."""

    task: "asyncio.Task[object] | None" = None
    what: str = ""
    done: int = 0
    total: int | None = None

    def note(self, what: str, done: int, total: int | None) -> None:
        """Take a report of progress."""
        self.what, self.done, self.total = what, done, total


WORK_APART: ContextVar[WorkApart | None] = ContextVar("treering_work_apart", default=None)
"""What the work under way tells how far it is, where it was begun apart from a request."""


def report_progress(what: str, done: int, total: int | None) -> None:
    """Take a report of progress in a worker. Raises what ends its work, if it has to end."""
    if apart := WORK_APART.get():
        apart.note(what, done, total)
    check_between_steps()


class ServedSpace:
    """A space for the calls of many threads.

    `files`: the folder whose files may be read; without it none: whoever reaches the server would else read any file
    its owner can. `granted`: the most that any caller may do.
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
        self._address = address
        self._stop = stop
        self._background = background
        self._embedder = embedder
        self._files = files_below(files) if files else NoFiles()
        # An import reads what is in the folder it is given, also where links in there lead: nothing asks about those.
        self._granted_besides = replace(granted, reads_files=False, fetches=False)
        self._space: Space | None = None
        self._lock = threading.Lock()

    def call(
        self,
        verb: str,
        envelope: Envelope,
        caller: Caller,
        *,
        progress: Progress = report_progress,
        lend: Callable[[Engine], Engine] | None = None,
    ) -> Report:
        """Run a verb. Only what brings something in makes a new space: a read of a wrong address must fail.

        `lend`: makes the engine of the call from that of the space.

        Raises `Denied`, before the space is opened, for a mode that does more than the caller is granted, and for a
        scope that the caller is not let into.
        """
        tool = catalog.find(verb)
        mode = tool.find(envelope.mode)
        tool.require(mode, granted=caller.granted)
        named = envelope.scope if "scope" in envelope.model_fields_set else None
        placed = envelope.model_copy(update={"scope": caller.scope_for(named)})
        engine = self.engine_for(mode, caller).with_progress(progress)
        return tool.call(lend(engine) if lend else engine, placed, granted=caller.granted)

    def grants(self, operation: Operation[Any]) -> bool:
        """Tell whether some caller may do all that an operation does which is not a mode of a verb."""
        return not operation.rights.beyond(self._granted_besides)

    def perform(
        self, operation: Operation[Answer], caller: Caller, *, given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Answer:
        """Run an operation that is not a mode of a verb. Raises `Denied` where the caller may not."""
        require(operation.name, operation.rights, granted=caller.granted_besides)
        engine = self.engine_for(operation, caller)
        return operation.perform(
            engine, scope=caller.scope, given=given, options=options, granted=caller.granted_besides
        )

    def engine_for(self, operation: Operation[Any], caller: Caller) -> Engine:
        """Open the space. What a person has to decide is done as a person, since the operator allowed that.

        Jobs are for the key that began them, and for keys with the right `admin`, whatever asks for them.
        """
        engine = self._opened(create=operation.makes_space).engine.with_progress(report_progress)
        author = caller.author or engine.author
        decides = operation.rights.needs_person
        engine = engine.with_author(author.model_copy(update={"channel": "user"}) if decides else author)
        engine = confined(engine, scope=caller.scope)
        return with_jobs_of(engine, caller.key, sees_all=caller.granted.destroys) if caller.has_key else engine

    def check(self) -> bool:
        """Open the space; tell whether there is one yet. Raises what keeps it from being opened."""
        try:
            self._opened(create=False)
        except NotFound:
            return False
        return True

    def look_after(self) -> None:
        """Have made what waits in the space, if there is one: also what a process left that died."""
        if self.check():
            start_waiting(self.engine(create=False))

    @property
    def is_open(self) -> bool:
        """Tell whether the space was opened, without waiting for whoever opens it."""
        return self._space is not None

    def pending_vectors(self) -> int:
        """Count the texts that wait for a vector; 0 where the space is not open."""
        space = self._space
        return space.engine.index.vectors.lag().pending if space else 0

    def engine(self, *, create: bool) -> Engine:
        """Return the space's parts. Raises `NotFound` where there is no space and none is to be made."""
        return self._opened(create=create, stopping=True).engine

    def close(self) -> None:
        """Close the space, if it was opened."""
        with self._lock:
            if self._space:
                self._space.close()
            self._space = None

    def _opened(self, *, create: bool, stopping: bool = False) -> Space:
        """Open the space; while the server stops, only for what has to be brought to its end."""
        with self._lock:
            if not stopping:
                self._stop.check()
            if self._space is None:
                self._space = open_space(
                    self._address,
                    create=create,
                    background=self._background,
                    embedder=self._embedder,
                    files=self._files,
                )
            return self._space
