"""The log of passages that changed, which tables in memory and engines follow; and what a reach sees of passages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.core.filters import EVERYTHING
from treering.core.scope import ROOT, lineage, sees
from treering.ports.passages import Passage, Reach
from treering.ports.search import Vector
from treering.ports.vector_engine import VectorChanges
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.tables import Keys, PackedTable, restored
from treering.stores.rows.packing import REINDEX, rows_of

Moment = tuple[int, int]
"""Epoch and position in the log: what a table in memory has seen.

The epoch is counted up when passages get new keys, so that tables start over.
"""

LOG_KEPT = 50_000
"""Entries that are kept. Who has fallen further behind loads everything anew."""


class PassageLog(Protocol):
    """The log, as one transaction sees it."""

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        ...

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        ...


def follow_log(
    log: PassageLog, seen: Moment | None, *, load: Callable[[], None], reread: Callable[[Sequence[int]], None]
) -> Moment:
    """Bring a table in memory to the moment of a snapshot; return what it has seen then.

    `reread` is told the passages logged since; `load` starts over where the log does not reach back so far. A
    snapshot older than the table changes nothing: what has gone since is re-checked in the ledger.
    """
    now = log.moment()
    if seen is not None and now <= seen:
        return seen
    changed = log.logged_after(seen[1]) if seen and seen[0] == now[0] else None
    if changed is None:
        load()
    elif changed:
        reread(changed)
    return now


# A table in memory, which begins with what an earlier process kept.


LEAST_KEPT = 5_000
"""So many passages at least: fewer are read faster than a file is opened twice."""
_CHANGED_SHARE = 16
"""A table is kept anew where a process had to read one passage in so many again."""

Log = TypeVar("Log", bound=PassageLog)
Log_contra = TypeVar("Log_contra", bound=PassageLog, contravariant=True)


class KeptTable(Protocol[Log_contra]):
    """A table that lies ready for the next process."""

    def read(self, log: Log_contra) -> tuple[PackedTable, Moment] | None:
        """Return the table and the moment it is of; `None` where there is none, or the space has no such moment."""
        ...

    def keep(self, log: Log_contra, packed: PackedTable) -> PackedTable | None:
        """Keep a table of the moment of the log; return what a next process reads, `None` where it was not kept."""
        ...

    def is_gone(self) -> bool:
        """Tell whether what was read or kept here lies there no more, because something was erased."""
        ...

    def damaged(self) -> None:
        """Remove what cannot be used."""
        ...


class FollowedTable(ABC, Generic[Log]):
    """A table in memory that is brought up to date by a log. Not locked."""

    def __init__(self, kept: KeptTable[Log] | None = None) -> None:
        self._kept = kept
        self._seen: Moment | None = None
        self._changed = 0
        """How many passages were read since the table was made or unpacked."""

    def _follow(self, log: Log) -> None:
        """Bring the table to the moment of the log."""
        if self._kept and self._seen is None:
            self._begin(log, self._kept)
        elif self._kept and self._kept.is_gone() and not self._unpacked(log, self._kept):
            self._unpack(_copied(self._packed()))
        self._advance(log)

    def _begin(self, log: Log, kept: KeptTable[Log]) -> None:
        """Begin with the table that an earlier process kept; keep it anew where there is none, or much has changed."""
        found = self._unpacked(log, kept)
        self._advance(log)
        size = self._size()
        if size < LEAST_KEPT or (found and self._changed <= size // _CHANGED_SHARE):
            return
        if again := kept.keep(log, self._packed()):
            self._unpack(again)

    def _unpacked(self, log: Log, kept: KeptTable[Log]) -> bool:
        """Begin with what was kept; tell whether there is something."""
        found = kept.read(log)
        if found is None:
            return False
        try:
            self._unpack(found[0])
        except Corrupt:
            kept.damaged()
            return False
        self._seen, self._changed = found[1], 0
        return True

    def _advance(self, log: Log) -> None:
        def load() -> None:
            self._load(log)
            self._changed = self._size()

        def reread(keys: Sequence[int]) -> None:
            self._reread(log, keys)
            self._changed += len(keys)

        self._seen = follow_log(log, self._seen, load=load, reread=reread)

    @abstractmethod
    def _load(self, log: Log) -> None:
        """Fill the table anew."""

    @abstractmethod
    def _reread(self, log: Log, keys: Sequence[int]) -> None:
        """Read some passages anew."""

    @abstractmethod
    def _size(self) -> int:
        """Tell how many passages the table has."""

    @abstractmethod
    def _packed(self) -> PackedTable:
        """Return the table as arrays."""

    @abstractmethod
    def _unpack(self, packed: PackedTable) -> None:
        """Take arrays for the table. Raises `Corrupt`, and changes nothing, where they do not fit together."""


def _copied(packed: PackedTable) -> PackedTable:
    """Return the same table over arrays of its own."""
    parts: dict[str, list[npt.NDArray[Any]]] = {}
    for part in packed.parts:
        for name, array in part.items():
            parts.setdefault(name, []).append(array)
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return PackedTable(packed.numbers, {name: array.copy() for name, array in packed.arrays.items()} | joined)


# A moment of the feed that engines follow, where a log of passages and the audit log lie in a database.


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The epoch of passage keys, a position in the log of passages, and the head of the audit log.

    The head tells a copy of the space that went another way. Written `epoch:position:sequence:hash`.
    """

    epoch: int
    position: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}:{self.sequence}:{self.hash}"

    @classmethod
    def read(cls, moment: str) -> "FeedPlace | None":
        """Read a moment; `None` where it is not a moment of such a feed."""
        match moment.split(":"):
            case [epoch, position, sequence, told] if all(part.isdecimal() for part in (epoch, position, sequence)):
                return cls(int(epoch), int(position), int(sequence), told)
        return None

    def at(self, position: int) -> "FeedPlace":
        """Return the same at another position of the log."""
        return replace(self, position=position)


def short_hash(text: str) -> str:
    """Return as much of the hash of an audit event as a moment keeps."""
    return text.removeprefix("sha256:")[:16]


# Which current passages pass a filter: asked of the database once, and remembered until something is written.


_KEPT = 8

Scopes = frozenset[int] | None
"""The numbers of the scopes that a reach sees; `None` for all of them."""


@dataclass(frozen=True, slots=True)
class SeenReach:
    """A reach worked out against the scopes a space has. `scopes` is `None` where all of them are seen."""

    reach: Reach
    scopes: Scopes

    @property
    def of_history(self) -> bool:
        """Tell whether more than what is current now is seen."""
        return self.reach.withdrawn or self.reach.at is not None

    @property
    def filtered(self) -> bool:
        """Tell whether more than the scope narrows what is seen."""
        return self.reach.where != EVERYTHING


def sees_all_scopes(reach: Reach) -> bool:
    """Tell whether a reach sees all scopes, whatever they are."""
    return reach.descend and reach.scope == ROOT


def scopes_seen(known: Sequence[tuple[int, str]], reach: Reach) -> Scopes:
    """Return the numbers of those scopes that a reach sees, of all that a space has; `None` for all of them."""
    if sees_all_scopes(reach):
        return None
    seen = frozenset(number for number, scope in known if sees(reach.scope, scope, descend=reach.descend))
    return None if len(seen) == len(known) else seen


class PassingCache:
    """Keys of passages by what a read may see of them. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, dict[str, Keys]] = ((), {})

    def of(self, state: Hashable, reach: Reach, scopes: Scopes, read: Callable[[Reach, Scopes], Keys]) -> Keys:
        """Return the keys that `read` gives; `state` changes whenever anything is written."""
        if self._known[0] != state:
            self._known = (state, {})
        # The time a read asks for decides nothing here, and is another for every read. And Python takes a filter for 1
        # and one for True to be equal.
        known, asked = self._known[1], repr((replace(reach, now=None), scopes))
        if (keys := known.get(asked)) is None:
            if len(known) >= _KEPT:
                known.clear()
            keys = known[asked] = read(reach, scopes)
        return keys


# The feed of vectors that an engine beside the database follows.


T = TypeVar("T")

VectorBodies = Iterable[tuple[int, bytes]]
"""Keys of passages, and their vectors in the stored form."""


class DatabaseFeed(ABC, Generic[T]):
    """`ports.vector_engine.VectorFeed` over the ledger's database. A moment is a `FeedPlace`. `read`: a transaction."""

    def __init__(self, read: Callable[[], AbstractContextManager[T]]) -> None:
        self._hold = read
        self._passing = PassingCache()

    def moment(self) -> str:
        """Return the moment that the feed has reached."""
        with self._read() as transaction:
            return str(self._now(transaction))

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return what changed since a moment; `None` where the log no longer reaches back to it."""
        with self._read() as transaction:
            begin = self._known(transaction, moment)
            if begin is None:
                return None
            now = self._now(transaction)
            until = min(now.position, begin.position + limit)
            keys = tuple(self._logged(transaction, begin.position, until)) if until > begin.position else ()
            vectors = _vectors(self._of_keys(transaction, keys, current=True))
            return VectorChanges(str(now.at(until)), keys, vectors, now.position - until)

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages that have a vector, by ascending key."""
        with self._read() as transaction:
            vectors = _vectors(self._page(transaction, after, limit))
            return VectorChanges(str(self._now(transaction)), tuple(vectors), vectors)

    def forgotten_since(self, moment: str) -> int | None:
        """Count the passages in the log since a moment that are no rows any more."""
        with self._read() as transaction:
            begin = self._known(transaction, moment)
            return None if begin is None else self._count_forgotten(transaction, begin.position)

    def count(self) -> int:
        """Count the current passages that have a vector."""
        with self._read() as transaction:
            return self._count(transaction)

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return, for each reach, the current passages that it may see; `None` where it sees all of them."""
        with self._read() as transaction:
            seen = zip(reaches, self._scopes_of(transaction, reaches), strict=True)
            return [
                None if scopes is None and reach.where == EVERYTHING else self._allowed(transaction, reach, scopes)
                for reach, scopes in seen
            ]

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the passages that have one, current or not."""
        with self._read() as transaction:
            return _vectors(self._of_keys(transaction, keys, current=False))

    @contextmanager
    def _read(self) -> Iterator[T]:
        with rows_of("the index", hint=REINDEX), self._hold() as transaction:
            yield transaction

    @abstractmethod
    def _now(self, transaction: T) -> FeedPlace: ...

    @abstractmethod
    def _known(self, transaction: T, moment: str) -> FeedPlace | None:
        """Read a moment, and look whether the log of this space leads on from it."""

    @abstractmethod
    def _logged(self, transaction: T, after: int, until: int) -> Iterable[int]: ...

    @abstractmethod
    def _page(self, transaction: T, after: int, limit: int) -> VectorBodies: ...

    @abstractmethod
    def _of_keys(self, transaction: T, keys: Sequence[int], *, current: bool) -> VectorBodies: ...

    @abstractmethod
    def _count_forgotten(self, transaction: T, after: int) -> int: ...

    @abstractmethod
    def _count(self, transaction: T) -> int: ...

    @abstractmethod
    def _scopes_of(self, transaction: T, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        """Return, for each reach, the scopes that it sees."""

    @abstractmethod
    def _allowed(self, transaction: T, reach: Reach, scopes: Scopes) -> Keys: ...


def _vectors(rows: VectorBodies) -> dict[int, Vector]:
    return {key: restored(np.frombuffer(stored, np.int16)) for key, stored in rows}


# Index terms of where a passage stands: its scopes, and the role of its place.


def place_terms(passage: Passage) -> list[str]:
    """Return the terms of a passage: its scope itself, each scope that it lies within, the role of its place."""
    scopes = scope_terms(passage.scope)
    return scopes if passage.place_role == NO_PLACE else [*scopes, role_term(passage.place_role)]


def scope_terms(scope: str) -> list[str]:
    """Return the terms of a scope: one for itself, one for each scope that it lies within."""
    return [_exact(scope), *map(_within, lineage(scope))]


def seen_terms(reach: Reach) -> list[str]:
    """Return the terms of scopes of which a passage has to have one to be in reach."""
    terms = [_exact(scope) for scope in lineage(reach.scope)]
    return [*terms, _within(reach.scope)] if reach.descend else terms


def role_term(role: str) -> str:
    """Return the index term of a role of places, which equals no scope's."""
    return f"_{role}"


def _exact(scope: str) -> str:
    return "_" + _opaque("=" + scope)


def _within(scope: str) -> str:
    return "_" + _opaque("<" + scope)


def _opaque(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
