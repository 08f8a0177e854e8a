"""The changes of vectors that an engine outside the ledger's database follows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from treering.core.filters import EVERYTHING
from treering.ports.passages import Reach
from treering.ports.search import Vector
from treering.ports.vector_engine import VectorChanges
from treering.retrieval.index.tables import Keys, restored
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.reach import PassingCache, Scopes

T = TypeVar("T")

VectorBodies = Iterable[tuple[int, bytes]]
"""Keys of passages with their stored vectors."""


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """A moment of the feed: the epoch of passage keys, a position in the passage log, and the head of the audit log.

    The head distinguishes copies of a space that diverged. The text form is `epoch:position:sequence:hash`.
    """

    epoch: int
    position: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}:{self.sequence}:{self.hash}"

    @classmethod
    def read(cls, moment: str) -> "FeedPlace | None":
        """Parse a moment; return `None` for the moment of another kind of feed."""
        match moment.split(":"):
            case [epoch, position, sequence, head] if all(part.isdecimal() for part in (epoch, position, sequence)):
                return cls(int(epoch), int(position), int(sequence), head)
        return None

    def at(self, position: int) -> "FeedPlace":
        """Return this moment with another position in the log."""
        return replace(self, position=position)


def short_hash(text: str) -> str:
    """Return the part of an audit event's hash that a moment contains."""
    return text.removeprefix("sha256:")[:16]


class DatabaseFeed(ABC, Generic[T]):
    """`ports.vector_engine.VectorFeed` over the ledger's database, whose moments are `FeedPlace`s.

    `read` opens a transaction.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[T]]) -> None:
        self._open = read
        self._passing = PassingCache()

    def moment(self) -> str:
        """Return the current moment."""
        with self._read() as transaction:
            return str(self._now(transaction))

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return the changes since a moment, or `None` if the log does not reach back that far."""
        with self._read() as transaction:
            start = self._known(transaction, moment)
            if start is None:
                return None
            now = self._now(transaction)
            end = min(now.position, start.position + limit)
            keys = tuple(self._logged(transaction, start.position, end)) if end > start.position else ()
            vectors = _vectors(self._of_keys(transaction, keys, current=True))
            return VectorChanges(str(now.at(end)), keys, vectors, now.position - end)

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages with their vectors, by ascending key."""
        with self._read() as transaction:
            vectors = _vectors(self._page(transaction, after, limit))
            return VectorChanges(str(self._now(transaction)), tuple(vectors), vectors)

    def forgotten_since(self, moment: str) -> int | None:
        """Return the number of passages logged since a moment that no longer have a row."""
        with self._read() as transaction:
            start = self._known(transaction, moment)
            return None if start is None else self._count_forgotten(transaction, start.position)

    def count(self) -> int:
        """Return the number of current passages with a vector."""
        with self._read() as transaction:
            return self._count(transaction)

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return the current passages in each reach, or `None` for a reach that includes all of them."""
        with self._read() as transaction:
            scopes_of_reaches = self._scopes_of(transaction, reaches)
            return [
                None if scopes is None and reach.where == EVERYTHING else self._allowed(transaction, reach, scopes)
                for reach, scopes in zip(reaches, scopes_of_reaches, strict=True)
            ]

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of passages, current or not. Passages without a vector are left out."""
        with self._read() as transaction:
            return _vectors(self._of_keys(transaction, keys, current=False))

    @contextmanager
    def _read(self) -> Iterator[T]:
        with rows_of("the index", hint=REINDEX), self._open() as transaction:
            yield transaction

    @abstractmethod
    def _now(self, transaction: T) -> FeedPlace: ...

    @abstractmethod
    def _known(self, transaction: T, moment: str) -> FeedPlace | None:
        """Parse a moment; return `None` if this space never had it or its log does not reach back to it."""

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
    def _scopes_of(self, transaction: T, reaches: Sequence[Reach]) -> Sequence[Scopes]: ...

    @abstractmethod
    def _allowed(self, transaction: T, reach: Reach, scopes: Scopes) -> Keys: ...


def _vectors(rows: VectorBodies) -> dict[int, Vector]:
    return {key: restored(np.frombuffer(stored, np.int16)) for key, stored in rows}
