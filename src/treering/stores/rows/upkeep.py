"""Keeping an index right that lies in the ledger's database: its passages made anew, and compared with the ledger."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar
from zlib import crc32

from treering.ports.index import Behind, Change, Index
from treering.ports.models import Extractor
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.ties import Ties
from treering.stores.rows.fold import Part
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.vectors import DatabaseVectors

VERSION = "projection_version"
"""The state that names the version that made the passages; 0 while they are being made."""

TARGET = "rebuild_version"
"""The state that names the version that is making the passages, while it is at it."""

SHOWN = "shown_passages"
"""The state that counts current passages, so that nobody has to count them."""

EPOCH = "vectors_epoch"
"""The state that is counted up when passages get new keys, so that tables in memory start over."""

_EXTRACTOR = "extractor"
_TARGET_EXTRACTOR = "rebuild_extractor"
_TOTAL = "rebuild_total"

MOST_AT_ONCE = 2_000
"""Passages that are made anew while a space is opened; more are made beside reads. About two seconds."""

STEP_SECONDS = 0.2
"""How long one step of making passages anew holds writers up."""


def is_under_way(read_state: Callable[[str], int], version: int) -> bool:
    """Tell whether the passages are being made beside reads, so that some objects have none yet."""
    return read_state(TARGET) == version and not read_state(VERSION)


class Replay(ABC):
    """Makes passages from the histories of objects, in one transaction: all at once, or a few at a time beside reads.

    Beside reads, every object is one of two: it waits, and has no passage, or all its history is applied. A change to
    one that waits applies all its history. So what is written is found at once, and the end equals a rebuild at once.
    """

    version: ClassVar[int]
    """Raised when passages or the analysis of text change: an older space is rebuilt when it is opened."""

    def __init__(self, extractor: Extractor) -> None:
        self.extractor = extractor

    def is_made(self) -> bool:
        """Tell whether this version and this extractor made the passages, or are at it."""
        if self._is_under_way():
            return self.read_state(_TARGET_EXTRACTOR) == self._extractor_number
        return (self.read_state(VERSION), self.read_state(_EXTRACTOR)) == (self.version, self._extractor_number)

    def prepare(self, *, most_at_once: int) -> None:
        """Make passages anew that another version or extractor made, or none. In a write transaction.

        Where these are more than `most_at_once`, it only begins with it: `advance` goes on.
        """
        if self.is_made():
            return
        if self._is_worth_waiting(most_at_once):
            self.begin()
        else:
            self.rebuild()

    def begin(self) -> None:
        """Throw away the passages and let all objects wait for theirs. In a write transaction."""
        # An earlier replay that was interrupted has no version: its texts still wait.
        self._keep_texts(anew=bool(self.read_state(VERSION)))
        self.clear()
        self._let_all_wait()
        self.write_state(VERSION, 0)
        self.write_state(TARGET, self.version)
        self.write_state(_TARGET_EXTRACTOR, self._extractor_number)
        self.write_state(_TOTAL, self._count_waiting())

    def advance(self, *, seconds: float) -> Behind:
        """Make the passages of waiting objects for about so long, of one object at least. In a write transaction."""
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
        """Tell how many objects have their passages, of how many."""
        if not self._is_under_way():
            return Behind(0, 0)
        total = self.read_state(_TOTAL)
        return Behind(total - self._count_waiting(), total)

    def follow(self, changes: Sequence[Change]) -> None:
        """Apply changes in the transaction that wrote them; of an object that waits, all its history."""
        waiting = self.waiting_among([change.object_id for change in changes])
        self._catch_up(waiting)
        if left := [change for change in changes if change.object_id not in waiting]:
            self.apply(left)

    def rebuild(self) -> int:
        """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
        self._drop_damaged_vectors()
        self.clear()
        self.replay(self.all_objects())
        self._note_made()
        return self._forget_unused_texts()

    def waiting_among(self, object_ids: Iterable[str]) -> Collection[str]:
        """Return those of the objects whose passages are still to be made."""
        return self._find_waiting(list(dict.fromkeys(object_ids))) if self._is_under_way() else ()

    def _catch_up(self, object_ids: Iterable[str]) -> None:
        """Make the passages of some that wait; forget the texts that were theirs and are no more."""
        if waiting := sorted(object_ids):
            self.replay(waiting)
            self._forget_waiting(waiting)

    def _note_made(self) -> None:
        """Note that this version and this extractor made the passages, of all objects."""
        self.write_state(VERSION, self.version)
        self.write_state(_EXTRACTOR, self._extractor_number)
        self._stop_waiting()

    def _is_under_way(self) -> bool:
        return is_under_way(self.read_state, self.version)

    @property
    def _extractor_number(self) -> int:
        return crc32(self.extractor.extractor_id.encode())

    # What a database does in its own way.

    @abstractmethod
    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index holds of objects: passages, texts that wait, records of the graph."""

    @abstractmethod
    def differences(self) -> list[str]:
        """Say how the passages differ from those a rebuild would make (the first twenty). Changes nothing.

        Objects whose passages are still to be made are left out.
        """

    @abstractmethod
    def apply(self, changes: Sequence[Change]) -> None:
        """Bring the passages of changed objects, and what the graph holds of them, up to date."""

    @abstractmethod
    def replay(self, object_ids: Sequence[str]) -> None:
        """Apply whole histories to passages that know nothing of these objects."""

    @abstractmethod
    def all_objects(self) -> list[str]:
        """Return the ids of all objects, erased ones apart, in order."""

    @abstractmethod
    def read_state(self, name: str) -> int:
        """Return a number that the index remembers; 0 where it remembers none."""

    @abstractmethod
    def write_state(self, name: str, value: int) -> None:
        """Remember a number."""

    @abstractmethod
    def clear(self) -> None:
        """Throw away the passages; texts and their vectors stay. Tables in memory start over."""

    @abstractmethod
    def _is_worth_waiting(self, most_at_once: int) -> bool:
        """Tell whether making the passages takes long."""

    @abstractmethod
    def _keep_texts(self, *, anew: bool) -> None:
        """Note which object has which text, so that its vectors are kept. `anew`: forget what was noted before."""

    @abstractmethod
    def _let_all_wait(self) -> None:
        """Note that all objects wait for their passages."""

    @abstractmethod
    def _count_waiting(self) -> int:
        """Count the objects that wait."""

    @abstractmethod
    def _find_waiting(self, object_ids: Sequence[str]) -> Collection[str]:
        """Return those of the objects that wait."""

    @abstractmethod
    def _first_waiting(self) -> list[str]:
        """Return the objects that come next, by id; none where no object waits."""

    @abstractmethod
    def _forget_waiting(self, object_ids: Sequence[str]) -> None:
        """Note that objects wait no longer; forget those of their texts that nothing has any more."""

    @abstractmethod
    def _stop_waiting(self) -> None:
        """Note that no object waits."""

    @abstractmethod
    def _drop_damaged_vectors(self) -> None:
        """Forget the vectors that are not what was kept."""

    @abstractmethod
    def _forget_unused_texts(self) -> int:
        """Forget texts that no passage has, and their vectors; return the number of passages."""


T = TypeVar("T")


class IndexUpkeep(Generic[T]):
    """`ports.index.Upkeep` over a database. `read`, `write`: hold a transaction; `read_whole`: one for long checks."""

    def __init__(
        self,
        replay: Callable[[T], Replay],
        *,
        read: Callable[[], AbstractContextManager[T]],
        write: Callable[[], AbstractContextManager[T]],
        read_whole: Callable[[], AbstractContextManager[T]],
        step_seconds: float,
    ) -> None:
        self._replay = replay
        self._read = read
        self._write = write
        self._read_whole = read_whole
        self._step_seconds = step_seconds

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index holds of objects, in whatever state: passages, texts that wait, records of the graph."""
        with rows_of("the index", hint=REINDEX), self._read() as transaction:
            return self._replay(transaction).remains(object_ids)

    def behind(self) -> Behind:
        """Tell how far it is with making passages anew, where that was begun."""
        with self._read() as transaction:
            return self._replay(transaction).progress()

    def advance(self) -> Behind:
        """Make passages anew for a moment, where that was begun; tell how far it is then."""
        behind = self.behind()
        if not behind.total:
            return behind
        with self._write() as transaction:
            behind = self._replay(transaction).advance(seconds=self._step_seconds)
        time.sleep(self._step_seconds / 10)  # or writers would wait for their turn as long as this goes on
        return behind

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        with self._write() as transaction:
            return self._replay(transaction).rebuild()

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs (the first twenty)."""
        with rows_of("the index", hint=REINDEX), self._read_whole() as transaction:
            return self._replay(transaction).differences()


class CarriedIndex(Generic[T]):
    """What the index of a copy takes from that of its source, so that it need not be made again: ties and vectors.

    The source may be further than the copy: what it holds of a passage is what the copy holds of it in the end, for
    whatever changes that is an event that is copied, too.
    """

    def __init__(self, source: "FollowingIndex[Any]", target: "FollowingIndex[T]") -> None:
        self.vectors: int = 0
        """How many came along."""
        self._source = source
        self._target = target
        self.ties = source.ties_of if source.extractor_id == target.extractor_id else None

    def keep_vectors(self, transaction: T, gists: Mapping[int, str]) -> dict[int, str]:
        """Keep the vectors that the source has of some texts, by number; return the texts that it has none of."""
        if not gists or self._source.vectors.made_by != self._target.vectors.made_by:
            return dict(gists)
        kept = self._target.vectors.keep_known(transaction, gists, self._source.vectors)
        self.vectors += len(kept)
        return {text: gists[text] for text in gists.keys() - set(kept)}


class FollowingIndex(ABC, Generic[T]):
    """What an index in the ledger's database has as a follower of the ledger: it is in step with each transaction.

    Hand it to the ledger as a follower before it is asked anything. Vectors are those of one model; what another model
    made is kept, but neither searched nor mixed. The graph is what one extractor (the built-in one unless another is
    given) finds; what another found is made anew when the space is opened: up to `most_at_once` passages then, more by
    `upkeep.advance`.
    """

    quick: DatabaseVectors[T] | None = None
    """The vectors of a quick model, which the first write that needs it makes known to the space."""

    carried: CarriedIndex[T] | None = None
    """What this index takes from another one, where it is that of a copy."""

    def __init__(self, vectors: DatabaseVectors[T], extractor: Extractor | None, most_at_once: int) -> None:
        self._extractor = extractor or BuiltInExtractor()
        self.vectors = vectors
        self._most_at_once = most_at_once

    @property
    def extractor_id(self) -> str:
        """Name what reads texts for the graph."""
        return self._extractor.extractor_id

    def carry_from(self, source: Index) -> None:
        """Take from the index of the space that is copied what would be made of its ledger again."""
        if isinstance(source, FollowingIndex):
            self.carried = CarriedIndex(source, self)

    @property
    def carried_vectors(self) -> int:
        """Count the vectors that were taken from the source."""
        return self.carried.vectors if self.carried else 0

    @abstractmethod
    def ties_of(self, parts: Sequence[Part]) -> Mapping[Part, Ties]:
        """Return what the graph holds of those of some current passages that it has; nothing where it is outdated."""

    @abstractmethod
    def replay(self, transaction: T, /) -> Replay:
        """Return what makes passages from histories in a transaction."""

    def is_prepared(self, transaction: T, /) -> bool:
        """Tell whether the tables, the passages and the model are as `prepare` leaves them."""
        if self.quick:
            self.quick.recognise(transaction)
        return self.replay(transaction).is_made() and self.vectors.recognise(transaction)

    def prepare(self, transaction: T, /) -> None:
        """Make what is missing; make passages anew that another version made, or begin with it."""
        self.replay(transaction).prepare(most_at_once=self._most_at_once)
        self.vectors.register(transaction)

    def follow(self, transaction: T, changes: Sequence[Change], /) -> None:
        """Apply changes inside the ledger's write transaction."""
        self.replay(transaction).follow(changes)
