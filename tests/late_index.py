"""An index that is late: it answers as it did when it was held, whatever the ledger has been told since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from treering.ports.index import Behind, Index, Upkeep
from treering.ports.passages import PassageRequest, Passages, PassagesFound, Reach
from treering.ports.search import (
    Graph,
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


class LateIndex:
    """`ports.index.Index` over one that is not late. It shows what that one held up to a point in history.

    `sequence` tells where the ledger is (`Ledger.sequence`). An index of its own process is late like this: what was
    written since is silent in it, and what was withdrawn since is still found. Only the graph is not late: the one
    behind it holds no past, and proposes more than a late one would.
    """

    def __init__(self, inner: Index, sequence: Callable[[], int]) -> None:
        self._inner = inner
        self._sequence = sequence
        self._held: int | None = None

    def hold(self) -> None:
        """From now on show nothing that is written."""
        self._held = self._sequence()

    def catch_up(self) -> None:
        """Show everything again."""
        self._held = None

    @property
    def passages(self) -> Passages:
        """The passages, as they were."""
        return _LatePassages(self._inner.passages, self._late)

    @property
    def text(self) -> TextSearch:
        """Search by text in what was there."""
        return _LateText(self._inner.text, self._late)

    @property
    def vectors(self) -> Vectors:
        """Search by meaning in what was there."""
        return _LateVectors(self._inner.vectors, self._late, self.unknown)

    @property
    def graph(self) -> Graph:
        """The graph of the index behind it."""
        return self._inner.graph

    @property
    def upkeep(self) -> Upkeep:
        """What keeps the index behind it right. It is behind as long as it is held; going on lets it catch up."""
        return _LateUpkeep(self._inner.upkeep, self)

    def unknown(self) -> int:
        """Count the audit events that were written since it was held."""
        return 0 if self._held is None else self._sequence() - self._held

    def _late(self, reach: Reach) -> Reach:
        if self._held is None:
            return reach
        return replace(reach, at=self._held if reach.at is None else min(reach.at, self._held))


_Late = Callable[[Reach], Reach]


class _LatePassages:
    def __init__(self, inner: Passages, late: _Late) -> None:
        self._inner = inner
        self._late = late

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        return self._inner.read([replace(one, reach=one.reach and self._late(one.reach)) for one in requests])

    def count(self, reach: Reach) -> int:
        return self._inner.count(self._late(reach))

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        return self._inner.places(self._late(reach))


class _LateText:
    def __init__(self, inner: TextSearch, late: _Late) -> None:
        self._inner = inner
        self._late = late

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        return self._inner.search([replace(one, reach=self._late(one.reach)) for one in requests])


class _LateVectors:
    def __init__(self, inner: Vectors, late: _Late, unknown: Callable[[], int]) -> None:
        self._inner = inner
        self._late = late
        self._unknown = unknown

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        return self._inner.search([replace(one, reach=self._late(one.reach)) for one in requests])

    def lag(self) -> Lag:
        lag = self._inner.lag()
        return replace(lag, behind=lag.behind + self._unknown())

    def pending(self, limit: int) -> Sequence[Pending]:
        return self._inner.pending(limit)

    def add(self, vectors: Mapping[str, Vector]) -> None:
        self._inner.add(vectors)


class _LateUpkeep:
    def __init__(self, inner: Upkeep, index: LateIndex) -> None:
        self._inner = inner
        self._index = index

    def remains(self, object_ids: Sequence[str]) -> int:
        return self._inner.remains(object_ids)

    def rebuild(self) -> int:
        return self._inner.rebuild()

    def behind(self) -> Behind:
        unknown = self._index.unknown()
        return Behind(0, unknown) if unknown else self._inner.behind()

    def advance(self) -> Behind:
        if not self._index.unknown():
            return self._inner.advance()
        self._index.catch_up()
        return self.behind()

    def differences(self) -> Sequence[str]:
        return self._inner.differences()
