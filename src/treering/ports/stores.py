"""The ports of a database: the stores of one open space, and access keys."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

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
    """The requirements for opening stores, independent of their technology.

    `model_id` and `dimension` are those of the embedder of the index; `quick` embeds each text in the transaction that
    writes it, and may be the same embedder if that is cheap. With `create`, a missing space is created; without it,
    `NotFound` is raised.
    """

    clock: Clock
    model_id: str
    dimension: int
    quick: Embedder | None = None
    policy: Policy | None = None
    """The policy for reading a space that has none and cannot be written. Any other space has its own policy."""
    anchor: AnchorStore | None = None
    create: bool = True
    connection: object | None = None
    """An open driver of the database, which is used and left open, if the technology has one."""
    arriving: bool = False
    """Whether the space will receive a copy: a new or unfinished space is only opened for that."""
    saves_tables: bool = True
    """Whether searches save the tables that they had to load for later processes; else background work does."""


@dataclass(frozen=True, slots=True)
class IncomingCopy:
    """Keep a space closed to other users while it receives a copy: it becomes usable when the copy is complete."""

    begin: Callable[[], None]
    """Refuse durably to open the space, and refuse all writes except the writes of the copy."""
    end: Callable[[], None]
    """Make the space usable."""


class BackUp(Protocol):
    """Copies a space into a file while others use it."""

    def __call__(self, target: Path, *, replace: bool, copied: Callable[[int, int], None]) -> Anchor:
        """Copy the space, reporting the bytes copied and the total; return the head of the copy's audit log."""
        ...


@dataclass(frozen=True, slots=True)
class Protection:
    """Whether a database confines a connection to one of its spaces."""

    role: str
    """The role with which the space is opened."""
    exempt: str = ""
    """The reason why the database does not restrict that role to one space, such as `is a superuser`, or empty."""


class NoteAnswer(Protocol):
    """Records the files in an answer, for hooks that see which of them an agent opens or edits next."""

    def __call__(
        self, answer: str, scope: str, files: Mapping[str, str], asked: Collection[str], *, in_shell: bool
    ) -> None:
        """Record the id of the answer, the places in the space by path, and possible askers.

        With `in_shell`, a command asked, possibly on behalf of any session. Raises `OSError`.
        """
        ...


class ReadyValues(Protocol):
    """Values computed from a space, for the next process. They may vanish at any time; an erasure deletes them."""

    def read(self, name: str) -> Any:
        """Return a value of JSON, or `None` if there is none."""
        ...

    def write(self, name: str, value: Any) -> None:
        """Store a value of JSON, if possible."""
        ...


class PreparedTables(Protocol):
    """Tables in memory that searches need, saved in files for all processes. An erasure deletes the files."""

    def has_tables_to_prepare(self) -> bool:
        """Return whether a file is missing, or much has changed since it was saved. Cheap."""
        ...

    def prepare_tables(self) -> None:
        """Save these tables. Takes up to half a minute of CPU in a space of a million passages."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one open space. Safe to use from many threads.

    `read_only`: whether nothing can be written, as on a read-only medium. `close` releases files and connections of
    all of them, and may be called twice.
    """

    ledger: Ledger
    index: Index
    jobs: JobLog
    leases: Leases
    back_up: BackUp
    close: Callable[[], None]
    read_only: bool = False
    feed: VectorFeed | None = None
    """The change feed for engines; `None` if the technology has none, so that no engine can be used."""
    claims: VectorClaims | None = None
    """Shares the texts to embed among processes; `None` if one process at a time embeds."""
    backlog: Backlog | None = None
    """Promised work; `None` if only the promising process does it."""
    protection: Callable[[], Protection] | None = None
    """Checks how the database separates spaces; `None` if it has only one space."""
    note_answer: NoteAnswer | None = None
    """Records which files an answer named; `None` if no hook uses it."""
    ready: ReadyValues | None = None
    """Values for the next process; `None` if every process computes them."""
    arrival: IncomingCopy | None = None
    """Marks the space as an unfinished copy; `None` if it was not opened for one, or cannot be marked."""
    tables: PreparedTables | None = None
    """The tables that searches load; `None` if the technology saves none."""


KeyRight = Literal["read", "write", "review", "admin"]
"""The right of a key; each includes the ones before it."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits for the holder of a key on one server. `None`: the server's limit for every key."""

    requests_per_minute: int | None = None
    at_once: int | None = None
    """Concurrent requests."""
    max_body_bytes: int | None = None
    """The largest body of a request. A lower limit of the server takes precedence."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key, without its secret."""

    id: str
    """Public: a part of the key that identifies it in lists and logs."""
    name: str
    """Unique among the keys that are not revoked. The author of the key's writes has this name."""
    digest: bytes
    """The SHA-256 of the secret."""
    space: str
    """The space it opens, as written by `extensions.server.keys.space_name`. A project is a space, too."""
    scope: str = ROOT
    """It reads and changes this scope and the scopes below, and reads those of `read_up_to`."""
    right: KeyRight = "read"
    channel: Channel = "agent"
    created: datetime | None = None
    expires: datetime | None = None
    """The time at which it becomes invalid."""
    revoked: datetime | None = None
    used: datetime | None = None
    """The time of its last use, to the minute."""
    limits: KeyLimits = field(default_factory=KeyLimits)
    read_up_to: str = ""
    """The highest scope above `scope` that it may read, together with those in between; empty: none."""


class AccessKeys(Protocol):
    """Store keys durably. Safe to use from many threads and processes."""

    def add(self, key: AccessKey) -> None:
        """Store a new key. Raises `Conflict` if a key with its name exists and is not revoked."""
        ...

    def find(self, key_id: str) -> AccessKey | None:
        """Return a key, even if it is revoked or expired."""
        ...

    def all(self) -> Sequence[AccessKey]:
        """Return all keys, the oldest first."""
        ...

    def revoke(self, key_id: str, *, at: datetime) -> None:
        """Revoke a key. The revocation time of a revoked key does not change."""
        ...

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Store the time of a key's last use."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
