"""What is asked of a database: all that one open space keeps, and its access keys."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from treering.core.audit import Anchor
from treering.core.objects import Channel
from treering.core.policy import Policy
from treering.core.scope import ROOT
from treering.ports.index import Index
from treering.ports.ledger import AnchorStore, Ledger
from treering.ports.models import Embedder
from treering.ports.runtime import Backlog, Clock, JobLog, Leases
from treering.ports.search import VectorClaims
from treering.ports.vector_engine import VectorFeed


@dataclass(frozen=True, slots=True)
class Needs:
    """What stores are opened with, whatever their technology.

    `model_id` and `dimension` are those of the embedder whose vectors the index keeps; `quick` embeds each text in the
    transaction that writes it, and is another one, or the same where that costs little. With `create` a space that is
    not there is made; without it, it raises `NotFound`.
    """

    clock: Clock
    model_id: str
    dimension: int
    quick: Embedder | None = None
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
        """Refuse, durably, to open the space from now on, and all writes but those of the copy."""
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
    """Whether a database confines a connection to one of its spaces."""

    role: str
    """As whom the space is opened there."""
    exempt: str = ""
    """Why the database does not hold that role to one space, such as `is a superuser`; empty where it does."""


class NoteAnswer(Protocol):
    """Notes which files an answer named, for hooks that see an agent open or edit one of them next."""

    def __call__(
        self, answer: str, scope: str, files: Mapping[str, str], asked: Collection[str], *, in_shell: bool
    ) -> None:
        """Note it: what feedback calls the answer, by path the place in the space, and what may have been asked.

        `in_shell`: a command asked, which may be anybody's. Raises `OSError`.
        """
        ...


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
    note_answer: NoteAnswer | None = None
    """Notes which files an answer named; `None` where no hook looks for that."""
    arrival: IncomingCopy | None = None
    """What marks the space as an unfinished copy; `None` where it was not opened for one, or cannot be marked."""


# The port of access keys: who may ask a server that other machines reach, for what, and until when.


KeyRight = Literal["read", "write", "review", "admin"]
"""What a key lets its holder do; each includes those before it."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much the holder of a key may ask of one server. `None`: as much as that server allows every key."""

    requests_per_minute: int | None = None
    at_once: int | None = None
    """Requests that are answered at the same time."""
    max_body_bytes: int | None = None
    """The largest body of a request. A server that takes less than this says so."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key, without its secret."""

    id: str
    """Public: it is part of the key, and names it in lists and logs."""
    name: str
    """Unique among the keys that are not revoked. What is written with the key is written by an actor of this name."""
    digest: bytes
    """The SHA-256 of the secret."""
    space: str
    """The space it opens, as `system.access_keys.space_name` writes it. A project is a space, too."""
    scope: str = ROOT
    """The scope it is confined to: it sees and changes what lies there and below, and nothing above or beside it."""
    right: KeyRight = "read"
    channel: Channel = "agent"
    created: datetime | None = None
    expires: datetime | None = None
    """From then on it opens nothing."""
    revoked: datetime | None = None
    used: datetime | None = None
    """When it was used last, exact to a minute."""
    limits: KeyLimits = field(default_factory=KeyLimits)


class AccessKeys(Protocol):
    """Keeps keys, durably. Safe to use from many threads and processes."""

    def add(self, key: AccessKey) -> None:
        """Keep a new key. Raises `Conflict` where a key that is not revoked has its name."""
        ...

    def find(self, key_id: str) -> AccessKey | None:
        """Return a key, also one that is revoked or has expired."""
        ...

    def all(self) -> Sequence[AccessKey]:
        """Return all keys, the oldest first."""
        ...

    def revoke(self, key_id: str, *, at: datetime) -> None:
        """Have a key open nothing from now on. A key that is revoked already keeps its time."""
        ...

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Keep when a key was used last."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
