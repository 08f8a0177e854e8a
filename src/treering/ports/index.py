"""An index: what can be found of one space, in parts that each have a port and may live in different databases."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from treering.core.objects import Object
from treering.ports.passages import Passages
from treering.ports.search import Graph, TextSearch, Vectors


@dataclass(frozen=True, slots=True)
class Behind:
    """How far an index is with being made anew (in objects), or with what it was told (in audit events).

    0 of 0 where it is whole and knows everything that was written.
    """

    done: int
    total: int

    @property
    def waiting(self) -> int:
        """Return how many objects or changes it does not know yet."""
        return self.total - self.done


class Upkeep(Protocol):
    """What keeps an index right. It may always be made anew from the ledger."""

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index still holds of objects, in whatever state; 0 once it was told that they are erased."""
        ...

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        ...

    def behind(self) -> Behind:
        """Tell how far it is with being made anew, or behind the ledger. Costs little."""
        ...

    def advance(self) -> Behind:
        """Go on with making the index anew, where that was begun when the space was opened; tell how far it is then.

        An index that lives elsewhere goes on with the change feed.

        Works for a moment (a fraction of a second) and keeps it, so that writers wait little and nothing is lost
        where the process ends. Whoever calls it again, in whatever process, goes on from there.
        """
        ...

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs.

        What `advance` has still to do is not a difference.
        """
        ...


class Index(Protocol):
    """The parts of an index. A passage has the same key in all of them.

    Any part may be late: what it does not find may be there all the same, and what it finds is read again from the
    ledger before it is shown.
    """

    @property
    def passages(self) -> Passages:
        """The passages, and who may see them."""
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
        """The graph of what is current."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """What keeps all of them right."""
        ...


def quick_vectors(index: Index) -> Vectors | None:
    """Return the vectors of the quick model, from the attribute `quick` of an index that has one.

    Texts get them when they are written; `lag` counts the passages that wait for the space's own model.
    """
    vectors: Vectors | None = getattr(index, "quick", None)
    return vectors


@runtime_checkable
class CarryingIndex(Protocol):
    """An ability that an index may have: what it would make of a copied ledger it takes from the source's index."""

    @property
    def carried_vectors(self) -> int:
        """Count the vectors that were taken from the source."""
        ...

    def carry_from(self, source: Index) -> None:
        """Take from the index of the space that is copied, as far as that holds the same; make the rest."""
        ...


def one_moment(index: Index) -> AbstractContextManager[object]:
    """Hold one moment: reads of this thread see the same state of the index and of the ledger, and cost less.

    An index in the database of the ledger has a method `one_moment()`; of others nothing is held.
    """
    hold: Callable[[], AbstractContextManager[object]] = getattr(index, "one_moment", nullcontext)
    return hold()


# The port of projections: what is made of a ledger's changes, and may be made anew from them at any time.


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
        """The audit sequence number up to which changes were applied; kept durably with what they made."""
        ...

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        """Apply the changes behind the cursor, in order, and move the cursor to `upto`: all of it or nothing.

        Changes at or before the cursor were applied already and are left out.
        """
        ...

    def clear(self) -> None:
        """Throw everything away, and start over at 0."""
        ...
