"""What is asked of a database: all that one open space keeps, as one value."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treering.core.audit import Anchor
from treering.core.policy import Policy
from treering.ports.backlog import Backlog
from treering.ports.clock import Clock
from treering.ports.index import Index
from treering.ports.jobs import JobLog
from treering.ports.lease import Leases
from treering.ports.ledger import AnchorStore, Ledger
from treering.ports.vector_engine import VectorFeed
from treering.ports.vectors import VectorClaims


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
