"""The view of an index for a caller with access to some scopes.

It adds the caller's boundary to every read, so that nothing outside is counted, ranked, named or walked through. What
an index knows about the whole space, such as its backlog, `verbs.index_warnings` limits for such a caller.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from treering.core.scope import Boundary
from treering.ports.index import Index, Upkeep, one_moment, quick_vectors
from treering.ports.passages import PassageRequest, Passages, PassagesFound, Reach
from treering.ports.search import (
    Graph,
    GraphView,
    Lag,
    Near,
    NearRequest,
    Pending,
    TextFound,
    TextRequest,
    TextSearch,
    Vector,
    Vectors,
)


class ConfinedIndex:
    """A `ports.index.Index` limited to the scopes of a boundary."""

    def __init__(self, index: Index, boundary: Boundary) -> None:
        self._index = index
        self._boundary = boundary

    @property
    def passages(self) -> Passages:
        """The passages within the boundary."""
        return _Passages(self._index.passages, self._boundary)

    @property
    def text(self) -> TextSearch:
        """Search by text within the boundary."""
        return _Text(self._index.text, self._boundary)

    @property
    def vectors(self) -> Vectors:
        """Search by meaning within the boundary."""
        return _Vectors(self._index.vectors, self._boundary)

    @property
    def quick(self) -> Vectors | None:
        """The vectors of the quick model within the boundary, if there are any."""
        quick = quick_vectors(self._index)
        return quick and _Vectors(quick, self._boundary)

    @property
    def graph(self) -> Graph:
        """The graph within the boundary."""
        return _Graph(self._index.graph, self._boundary)

    @property
    def upkeep(self) -> Upkeep:
        """The maintenance of the whole index."""
        return self._index.upkeep

    def one_moment(self) -> AbstractContextManager[object]:
        """Hold one snapshot."""
        return one_moment(self._index)


@dataclass(frozen=True, slots=True)
class _Passages:
    whole: Passages
    boundary: Boundary

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Read passages for several requests. Keys come from searches here; heads are shown through the ledger."""
        return self.whole.read(
            [replace(one, reach=one.reach and _within(one.reach, self.boundary)) for one in requests]
        )

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        return self.whole.count(_within(reach, self.boundary))

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        """Return the object and the part of each passage in reach."""
        return self.whole.places(_within(reach, self.boundary))


@dataclass(frozen=True, slots=True)
class _Text:
    whole: TextSearch
    boundary: Boundary

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests."""
        return self.whole.search([replace(one, reach=_within(one.reach, self.boundary)) for one in requests])


@dataclass(frozen=True, slots=True)
class _Vectors:
    whole: Vectors
    boundary: Boundary

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests."""
        return self.whole.search([replace(one, reach=_within(one.reach, self.boundary)) for one in requests])

    def lag(self) -> Lag:
        """Return how far embedding the whole space is behind."""
        return self.whole.lag()

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts of the whole space without a vector."""
        return self.whole.pending(limit)

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by content hash."""
        self.whole.add(vectors)


@dataclass(frozen=True, slots=True)
class _Graph:
    whole: Graph
    boundary: Boundary

    def view(self, reach: Reach) -> GraphView:
        """Return the graph as a read may walk it."""
        return self.whole.view(_within(reach, self.boundary))


def _within(reach: Reach, boundary: Boundary) -> Reach:
    return replace(reach, boundary=boundary)
