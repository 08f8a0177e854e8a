"""The index of one space, in parts with one port each, which may be in different databases."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from treering.core.objects import Object
from treering.ports.passages import Passages
from treering.ports.search import Graph, TextSearch, Vectors


@dataclass(frozen=True, slots=True)
class Behind:
    """The progress of rebuilding an index (in objects), or of following the ledger (in audit events).

    0 of 0 if it is complete and current.
    """

    done: int
    total: int

    @property
    def waiting(self) -> int:
        """The number of objects or changes that it does not contain yet."""
        return self.total - self.done


class Upkeep(Protocol):
    """The maintenance of an index, which can always be rebuilt from the ledger."""

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count entries of objects in any state; 0 after their erasure was applied."""
        ...

    def rebuild(self) -> int:
        """Delete the passages and rebuild them from the ledger; return their number."""
        ...

    def behind(self) -> Behind:
        """Return how far a rebuild has progressed, or how far the index is behind the ledger. Cheap."""
        ...

    def advance(self) -> Behind:
        """Continue a rebuild begun when the space was opened; return the progress.

        An index in another database continues with the change feed.

        Works for a fraction of a second and saves the result, so that writers wait little and nothing is lost if the
        process ends. Any process may continue with another call.
        """
        ...

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; return the differences.

        Pending work of `advance` is not a difference.
        """
        ...


class Index(Protocol):
    """The parts of an index. A passage has the same key in all of them.

    Any part may be behind: it may miss existing passages, and its results are read again from the ledger before they
    are shown.
    """

    @property
    def passages(self) -> Passages:
        """The passages and their visibility."""
        ...

    @property
    def text(self) -> TextSearch:
        """Search by words, names, places and days."""
        ...

    @property
    def vectors(self) -> Vectors:
        """Search by meaning."""
        ...

    @property
    def graph(self) -> Graph:
        """The graph of current knowledge."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """The maintenance of all parts."""
        ...


def quick_vectors(index: Index) -> Vectors | None:
    """Return the vectors of the quick model, from the attribute `quick` of an index that has one.

    Texts get them when they are written; `lag` counts the passages pending for the space's own model.
    """
    vectors: Vectors | None = getattr(index, "quick", None)
    return vectors


@runtime_checkable
class CarryingIndex(Protocol):
    """An optional ability of an index: it copies the index of a copied ledger instead of rebuilding it."""

    @property
    def carried_vectors(self) -> int:
        """Count the vectors that were taken from the source."""
        ...

    def carry_from(self, source: Index) -> None:
        """Copy identical content from the index of the copied space; compute the rest."""
        ...


def one_moment(index: Index) -> AbstractContextManager[object]:
    """Hold one snapshot: reads of the index and the ledger in this thread see it, at lower cost.

    An index in the database of the ledger has a method `one_moment()`; for others this does nothing.
    """
    hold: Callable[[], AbstractContextManager[object]] = getattr(index, "one_moment", nullcontext)
    return hold()


@dataclass(frozen=True, slots=True)
class Change:
    """One object going from one revision to the next. `after` is `None` for an erased object."""

    seq: int
    object_id: str
    before: Object | None
    after: Object | None


class Projection(Protocol):
    """A fold over a ledger's change feed. For any history and any cut, catching up equals rebuilding."""

    @property
    def cursor(self) -> int:
        """The audit sequence number up to which changes were applied; stored durably with the projection."""
        ...

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        """Apply the changes after the cursor, in order, and move the cursor to `upto`, atomically.

        Changes up to the cursor were already applied and are skipped.
        """
        ...

    def clear(self) -> None:
        """Delete everything, and start again at 0."""
        ...
