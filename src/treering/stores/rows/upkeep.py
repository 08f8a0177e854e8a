"""Maintenance of an index in the ledger's database: rebuild its passages, and compare them with the ledger."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar
from zlib import crc32

from treering.ports.index import Behind, Change, Index
from treering.ports.models import Extractor
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.ties import Ties
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import Part
from treering.stores.rows.vectors import DatabaseVectors

VERSION = "projection_version"
"""The state with the version that created the passages; 0 during a rebuild."""

TARGET = "rebuild_version"
"""The state with the version that is rebuilding the passages."""

SHOWN = "shown_passages"
"""The state with the number of current passages."""

EPOCH = "vectors_epoch"
"""The state that is incremented when passages get new keys, so that tables in memory are loaded again."""

_EXTRACTOR = "extractor"
_TARGET_EXTRACTOR = "rebuild_extractor"
_TOTAL = "rebuild_total"

MOST_AT_ONCE = 2_000
"""Up to this many passages are rebuilt when a space is opened, in about two seconds; more in the background."""

STEP_SECONDS = 0.2
"""The maximum time for which one step of a background rebuild blocks writers."""


def is_under_way(read_state: Callable[[str], int], version: int) -> bool:
    """Return whether a rebuild in the background is running, so that some objects have no passages yet."""
    return read_state(TARGET) == version and not read_state(VERSION)


T = TypeVar("T")

AtOnce = Callable[[T, Mapping[int, str]], None]
"""Embeds texts, by number, in the transaction that writes them."""


class Replay(ABC, Generic[T]):
    """Creates passages from the histories of objects, in one transaction or in steps between which reads continue.

    In a rebuild in steps, an object either waits and has no passages, or all of its history has been applied. A change
    to a waiting object applies all of its history. Writes are therefore searchable at once, and the result equals a
    rebuild in one transaction.

    `at_once` embeds new texts; `carried` copies vectors and ties from the source of a copied space.
    """

    version: ClassVar[int]
    """Incremented when passages or the analysis of text change. An older space is rebuilt when it is opened."""

    def __init__(
        self,
        transaction: T,
        extractor: Extractor,
        *,
        at_once: AtOnce[T] | None = None,
        carried: "CarriedIndex[T] | None" = None,
    ) -> None:
        self.transaction = transaction
        self.extractor = extractor
        self._at_once = at_once
        self._carried = carried

    def is_made(self) -> bool:
        """Return whether this version and this extractor created the passages or are creating them."""
        if self._is_under_way():
            return self.read_state(_TARGET_EXTRACTOR) == self._extractor_number
        return (self.read_state(VERSION), self.read_state(_EXTRACTOR)) == (self.version, self._extractor_number)

    def prepare(self, *, most_at_once: int) -> None:
        """Rebuild the passages if another version or extractor created them. In a write transaction.

        If there are more than `most_at_once`, only start a rebuild in steps, which `advance` continues.
        """
        if self.is_made():
            return
        if self._is_worth_waiting(most_at_once):
            self.begin()
        else:
            self.rebuild()

    def begin(self) -> None:
        """Remove the passages and queue all objects. In a write transaction."""
        # An interrupted rebuild has no version. Its texts are still in the queue.
        self._keep_texts(anew=bool(self.read_state(VERSION)))
        self.clear()
        self._let_all_wait()
        self.write_state(VERSION, 0)
        self.write_state(TARGET, self.version)
        self.write_state(_TARGET_EXTRACTOR, self._extractor_number)
        self.write_state(_TOTAL, self._count_waiting())

    def advance(self, *, seconds: float) -> Behind:
        """Create the passages of queued objects for about `seconds`, at least of one object. In a write transaction."""
        if not self._is_under_way():
            return Behind(0, 0)
        end = time.monotonic() + seconds
        while waiting := self._first_waiting():
            self._catch_up(waiting)
            if time.monotonic() >= end:
                break
        behind = self.progress()
        if not behind.waiting:
            self._note_made()
        return behind

    def progress(self) -> Behind:
        """Return how many objects of a rebuild are done."""
        if not self._is_under_way():
            return Behind(0, 0)
        total = self.read_state(_TOTAL)
        return Behind(total - self._count_waiting(), total)

    def follow(self, changes: Sequence[Change]) -> None:
        """Apply changes in the transaction that wrote them, with all of the history of queued objects."""
        waiting = self.waiting_among([change.object_id for change in changes])
        self._catch_up(waiting)
        if left := [change for change in changes if change.object_id not in waiting]:
            self.apply(left)

    def rebuild(self) -> int:
        """Rebuild all passages, and return their number. Vectors of texts that still exist are retained."""
        self._drop_damaged_vectors()
        self.clear()
        self.replay(self.all_objects())
        self._note_made()
        return self._forget_unused_texts()

    def waiting_among(self, object_ids: Iterable[str]) -> Collection[str]:
        """Return the objects that are queued for a rebuild."""
        return self._find_waiting(list(dict.fromkeys(object_ids))) if self._is_under_way() else ()

    def _catch_up(self, object_ids: Iterable[str]) -> None:
        """Create the passages of queued objects; delete their texts that are no longer used."""
        if waiting := sorted(object_ids):
            self.replay(waiting)
            self._forget_waiting(waiting)

    def _note_made(self) -> None:
        """Store that this version and this extractor created all passages."""
        self.write_state(VERSION, self.version)
        self.write_state(_EXTRACTOR, self._extractor_number)
        self._stop_waiting()

    def _is_under_way(self) -> bool:
        return is_under_way(self.read_state, self.version)

    @property
    def _extractor_number(self) -> int:
        return crc32(self.extractor.extractor_id.encode())

    @abstractmethod
    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages, queued texts and graph records of objects."""

    @abstractmethod
    def differences(self) -> list[str]:
        """Describe the differences between the passages and a rebuild (the first twenty). Changes nothing.

        Queued objects are left out.
        """

    @abstractmethod
    def apply(self, changes: Sequence[Change]) -> None:
        """Update the passages of changed objects and their records in the graph."""

    @abstractmethod
    def replay(self, object_ids: Sequence[str]) -> None:
        """Create the passages of objects without any from their histories."""

    @abstractmethod
    def all_objects(self) -> list[str]:
        """Return the ids of all objects except erased ones, in order."""

    @abstractmethod
    def read_state(self, name: str) -> int:
        """Return a number in the state of the index, or 0."""

    @abstractmethod
    def write_state(self, name: str, value: int) -> None:
        """Store a number in the state of the index."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the passages. Texts and their vectors are retained. Tables in memory are loaded again."""

    @abstractmethod
    def _is_worth_waiting(self, most_at_once: int) -> bool:
        """Return whether a rebuild would take long."""

    @abstractmethod
    def _keep_texts(self, *, anew: bool) -> None:
        """Store the texts of each object, so that their vectors are retained. `anew`: delete the earlier texts."""

    @abstractmethod
    def _let_all_wait(self) -> None:
        """Queue all objects."""

    @abstractmethod
    def _count_waiting(self) -> int:
        """Count the queued objects."""

    @abstractmethod
    def _find_waiting(self, object_ids: Sequence[str]) -> Collection[str]:
        """Return the objects that are queued."""

    @abstractmethod
    def _first_waiting(self) -> list[str]:
        """Return the next queued objects by id, or none."""

    @abstractmethod
    def _forget_waiting(self, object_ids: Sequence[str]) -> None:
        """Remove objects from the queue; delete their texts that are no longer used."""

    @abstractmethod
    def _stop_waiting(self) -> None:
        """Remove the queue."""

    @abstractmethod
    def _drop_damaged_vectors(self) -> None:
        """Delete damaged vectors."""

    @abstractmethod
    def _forget_unused_texts(self) -> int:
        """Delete texts without a passage, with their vectors; return the number of passages."""


@dataclass(frozen=True, slots=True)
class IndexUpkeep(Generic[T]):
    """`ports.index.Upkeep` over a database. `read` and `write` open a transaction, `read_whole` one for long checks."""

    replay: Callable[[T], Replay[T]]
    read: Callable[[], AbstractContextManager[T]]
    write: Callable[[], AbstractContextManager[T]]
    read_whole: Callable[[], AbstractContextManager[T]]
    step_seconds: float

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the passages, queued texts and graph records of objects, even during a rebuild."""
        with rows_of("the index", hint=REINDEX), self.read() as transaction:
            return self.replay(transaction).remains(object_ids)

    def behind(self) -> Behind:
        """Return the progress of a rebuild in steps."""
        with self.read() as transaction:
            return self.replay(transaction).progress()

    def advance(self) -> Behind:
        """Run one step of a rebuild, and return its progress."""
        behind = self.behind()
        if not behind.total:
            return behind
        with self.write() as transaction:
            behind = self.replay(transaction).advance(seconds=self.step_seconds)
        time.sleep(self.step_seconds / 10)  # let writers take their turn
        return behind

    def rebuild(self) -> int:
        """Rebuild all passages from the ledger; return their number."""
        with self.write() as transaction:
            return self.replay(transaction).rebuild()

    def differences(self) -> Sequence[str]:
        """Compare the index with a rebuild, and describe the differences (the first twenty). Changes nothing."""
        with rows_of("the index", hint=REINDEX), self.read_whole() as transaction:
            return self.replay(transaction).differences()


class CarriedIndex(Generic[T]):
    """The ties and vectors that the index of a copied space takes from its source.

    The source may be ahead of the copy. Its data about a passage is still correct for the copy in the end, because a
    change of this data is also an event that is copied.
    """

    def __init__(self, source: "FollowingIndex[Any]", target: "FollowingIndex[T]") -> None:
        self.vectors: int = 0
        """The number of copied vectors."""
        self._source = source
        self._target = target
        self.ties = source.ties_of if source.extractor_id == target.extractor_id else None

    def keep_vectors(self, transaction: T, gists: Mapping[int, str]) -> dict[int, str]:
        """Store the vectors that the source has of some texts; return the other texts. `gists`: texts by number."""
        if not gists or self._source.vectors.made_by != self._target.vectors.made_by:
            return dict(gists)
        copied = self._target.vectors.keep_known(transaction, gists, self._source.vectors)
        self.vectors += len(copied)
        return {text: gists[text] for text in gists.keys() - set(copied)}


class FollowingIndex(ABC, Generic[T]):
    """An index in the ledger's database, updated in each of its transactions as a follower.

    Pass it to the ledger as a follower before the first use. Vectors of other models are retained, but not searched.
    The graph is made by one extractor, by default the built-in one. A graph by another extractor is rebuilt when the
    space is opened: up to `most_at_once` passages at once, more by `upkeep.advance`.
    """

    quick: DatabaseVectors[T] | None = None
    """The vectors of a quick model. The first write with a quick embedding registers the model."""

    carried: CarriedIndex[T] | None = None
    """The source to copy from, in the index of a copied space."""

    def __init__(
        self,
        vectors: DatabaseVectors[T],
        extractor: Extractor | None,
        most_at_once: int,
        *,
        read: Callable[[], AbstractContextManager[T]],
        kept_ties: Callable[[T, Sequence[Part]], Mapping[Part, Ties]],
    ) -> None:
        self._read = read
        self._kept_ties = kept_ties
        self._extractor = extractor or BuiltInExtractor()
        self.vectors = vectors
        self._most_at_once = most_at_once

    @property
    def extractor_id(self) -> str:
        """The id of the extractor that reads texts for the graph."""
        return self._extractor.extractor_id

    def carry_from(self, source: Index) -> None:
        """Copy ties and vectors from the index of the space that is copied."""
        if isinstance(source, FollowingIndex):
            self.carried = CarriedIndex(source, self)

    @property
    def carried_vectors(self) -> int:
        """The number of vectors copied from the source."""
        return self.carried.vectors if self.carried else 0

    def ties_of(self, parts: Sequence[Part]) -> Mapping[Part, Ties]:
        """Return the ties that the graph stores for current passages; nothing if the graph is outdated."""
        with rows_of("the graph", hint=REINDEX), self._read() as transaction:
            return self._kept_ties(transaction, parts) if self.replay(transaction).is_made() else {}

    @abstractmethod
    def replay(self, transaction: T, /) -> Replay[T]:
        """Return the replay for a transaction."""

    def is_prepared(self, transaction: T, /) -> bool:
        """Return whether the tables, the passages and the model are prepared."""
        if self.quick:
            self.quick.recognise(transaction)
        return self.replay(transaction).is_made() and self.vectors.recognise(transaction)

    def prepare(self, transaction: T, /) -> None:
        """Create missing tables and register the model; rebuild the passages of another version, or start to."""
        self.replay(transaction).prepare(most_at_once=self._most_at_once)
        self.vectors.register(transaction)

    def follow(self, transaction: T, changes: Sequence[Change], /) -> None:
        """Apply changes in the ledger's write transaction."""
        self.replay(transaction).follow(changes)
