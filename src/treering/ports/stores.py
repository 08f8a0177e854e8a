"""What is asked of a database: all that one open space keeps, as one value."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treering.core.audit import Anchor
from treering.core.policy import Policy
from treering.ports.copying import Told
from treering.ports.index import Index
from treering.ports.ledger import AnchorStore, Ledger
from treering.ports.runtime import Backlog, Clock, JobLog, Leases
from treering.ports.search import VectorClaims
from treering.ports.vector_engine import VectorFeed


@dataclass(frozen=True, slots=True)
class Needs:
    """What stores are opened with, whatever their technology.

    `model_id` and `dimension` are those of the embedder whose vectors the index keeps. With `create` a space that is
    not there is made; without it, it raises `NotFound`.
    """

    clock: Clock
    model_id: str
    dimension: int
    policy: Policy | None = None
    """By what to read a space that holds no policy and cannot be written. Any other holds the policy in force."""
    anchor: AnchorStore | None = None
    create: bool = True
    connection: object | None = None
    """An open driver of the database, to be used and left open, where the technology has one."""
    arriving: bool = False
    """Whether a copy is to be put there: a space that is made, or was left unfinished, is opened for that alone."""


class IncomingCopy(Protocol):
    """Keeps a space closed to all others while a copy is put there: it is usable when it is complete, not before."""

    def begin(self) -> None:
        """Refuse, durably, whoever opens the space from now on, and all that is written there but the copy."""
        ...

    def end(self) -> None:
        """Let the space be used."""
        ...


class BackUp(Protocol):
    """Copies a space into a file while others use it."""

    def __call__(self, target: Path, *, replace: bool, copied: Callable[[int, int], None]) -> Anchor:
        """Make the copy, telling how many bytes of how many are copied; return the head of its audit log."""
        ...


@dataclass(frozen=True, slots=True)
class Protection:
    """Whether a database keeps whoever is connected to one of its spaces."""

    role: str
    """As whom the space is opened there."""
    exempt: str = ""
    """Why the database does not hold that role to one space, such as `is a superuser`; empty where it does."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one open space. Safe to use from many threads.

    `read_only`: whether nothing can be written, as on a read-only medium. `close` releases files and connections of
    all of them; doing it twice is harmless.
    """

    ledger: Ledger
    index: Index
    jobs: JobLog
    leases: Leases
    back_up: BackUp
    close: Callable[[], None]
    read_only: bool = False
    feed: VectorFeed | None = None
    """What engines beside the space follow; `None` where the technology has none, and no engine can be used."""
    claims: VectorClaims | None = None
    """What shares the texts to be embedded among processes; `None` where one process at a time embeds."""
    backlog: Backlog | None = None
    """Work that was promised; `None` where only the process that promised it comes to do it."""
    protection: Callable[[], Protection] | None = None
    """Asks the database how it keeps spaces apart; `None` where it holds one space alone."""
    arrival: IncomingCopy | None = None
    """What marks the space as an unfinished copy; `None` where it was not opened for one, or cannot be marked."""


# Servers that share spaces: a directory says which of them has which space.


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server as it stands. `answers`: whether it can be connected to. A draining one takes no new spaces."""

    name: str
    address: str
    spaces: int
    draining: bool
    answers: bool


@dataclass(frozen=True, slots=True)
class UnfinishedMove:
    """A move that was begun and is not done.

    `target`: the server that a copy is made on; `left_on`: the one whose old copy is still to be removed.
    """

    space: str
    server: str
    target: str | None
    left_on: str | None


@dataclass(frozen=True, slots=True)
class Relocation:
    """A space that was moved. `paused`: how long writers were held up, in seconds; all of it took `seconds`."""

    space: str
    old_server: str
    server: str
    head: Anchor
    counts: dict[str, int]
    """The number of records per table."""
    vectors: int
    """Vectors that came along."""
    paused: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StayedThere:
    """A space that is where it was to be. `given_up`: the server whose begun copy was removed, if there was one."""

    space: str
    server: str
    given_up: str | None = None


class ServerDirectory(Protocol):
    """The servers of a directory, for who administers them."""

    def add(self, name: str, address: str) -> int:
        """Add a server; return the number of spaces that it has already. Raises `InvalidInput`, `Conflict`."""
        ...

    def states(self) -> Sequence[ServerState]:
        """Return all servers, by name."""
        ...

    def unfinished(self) -> Sequence[UnfinishedMove]:
        """Return the moves that are not done."""
        ...

    def move(self, space: str, server: str, told: Told) -> Relocation | StayedThere:
        """Move a space to a server while it is used, or go on with a move that was broken off.

        To the server that it is on: give up a move that was begun. Raises `NotFound`, `Conflict`.
        """
        ...

    def drain(self, server: str, told: Told) -> Iterator[Relocation | StayedThere]:
        """Have a server take no new spaces, and move those that it has to the others, one after the other."""
        ...


# Reads that may be of a moment ago: a store may answer them from a replica, and tells how old the answer may be.


NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old an answer may be: it holds everything that was committed `seconds` ago or earlier.

    `sequence`: the last audit event that it holds. `behind`: how many more there are known to be.
    """

    sequence: int
    seconds: float
    behind: int


class LateReads:
    """The reads of one call. None is of an earlier moment than those before it, nor than `at_least`.

    `told`: how old the oldest answer of a replica may be; `None` as long as all were of now.
    """

    def __init__(self, at_least: int) -> None:
        self.at_least = at_least
        self.told: Staleness | None = None

    def saw(self, sequence: int, staleness: Staleness | None = None) -> None:
        """Note what a read saw: the state of an audit event, and how old it may be where a replica answered."""
        self.at_least = max(self.at_least, sequence)
        if staleness and (self.told is None or staleness.seconds > self.told.seconds):
            self.told = staleness


_CURRENT: ContextVar[LateReads | None] = ContextVar("treering_late_reads", default=None)


@contextmanager
def late_reads(*, at_least: int = 0) -> Iterator[LateReads]:
    """Allow the reads that this thread does inside to be late, but of the audit event `at_least` or a later one."""
    late = LateReads(at_least)
    token = _CURRENT.set(late)
    try:
        yield late
    finally:
        _CURRENT.reset(token)


def current_late_reads() -> LateReads | None:
    """Return what the reads of this thread are allowed; `None` where they have to be of now."""
    return _CURRENT.get()


def require_newest() -> None:
    """Have the rest of the reads under way be of now."""
    if late := _CURRENT.get():
        late.at_least = NEVER
