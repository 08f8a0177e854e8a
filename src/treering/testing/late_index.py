"""An index that is late: it answers as it did when it was held, whatever the ledger has been told since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from treering.ports.graph import Graph
from treering.ports.index import AskedDays, Index, Lag, PassageHead, Pending, Scored, TextQuery, Vector
from treering.ports.reach import Reach


class LateIndex:
    """`ports.index.Index` over one that is not late. It shows what that one held up to a point in history.

    `sequence` tells where the ledger is (`Ledger.sequence`). An index of its own process is late like this: what was
    written since is silent in it, and what was withdrawn since is still found.
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
    def graph(self) -> Graph:
        """The graph of the index behind it, which holds no past: it proposes more than a late one would."""
        return self._inner.graph

    def by_words(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank what was there by its words."""
        return self._inner.by_words(query, reach=self._late(reach), limit=limit)

    def by_names(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank what was there by the names in it."""
        return self._inner.by_names(query, reach=self._late(reach), limit=limit)

    def neighbours(self, keys: Sequence[int]) -> Mapping[int, Sequence[int]]:
        """Give the turns before and after."""
        return self._inner.neighbours(keys)

    def by_vector(self, vector: Vector, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank what was there by meaning."""
        return self._inner.by_vector(vector, reach=self._late(reach), limit=limit)

    def similarities(self, vector: Vector, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the exact cosine of those of the keys that have a vector."""
        return self._inner.similarities(vector, keys)

    def by_place(self, text: str, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank what was there by what it is called."""
        return self._inner.by_place(text, reach=self._late(reach), limit=limit)

    def by_days(self, asked: Sequence[AskedDays], *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank the turns that were there by their days."""
        return self._inner.by_days(asked, reach=self._late(reach), limit=limit)

    def on_days(self, asked: Sequence[AskedDays], keys: Sequence[int]) -> Mapping[int, float]:
        """Return the scores `by_days` gives, of those of the keys that have one."""
        return self._inner.on_days(asked, keys)

    def visible(self, keys: Sequence[int], *, reach: Reach) -> frozenset[int]:
        """Return those of the keys that were there for a read in reach."""
        return self._inner.visible(keys, reach=self._late(reach))

    def heads(self, keys: Sequence[int]) -> Mapping[int, PassageHead]:
        """Return the heads of passages."""
        return self._inner.heads(keys)

    def vectors(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the keys that have one."""
        return self._inner.vectors(keys)

    def count(self, reach: Reach) -> int:
        """Count the passages that were there."""
        return self._inner.count(self._late(reach))

    def knows(self, words: Sequence[str], *, reach: Reach) -> frozenset[str]:
        """Return those of the words that occur in what was there."""
        return self._inner.knows(words, reach=self._late(reach))

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index holds of objects."""
        return self._inner.remains(object_ids)

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        return self._inner.lag()

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector."""
        return self._inner.pending(limit)

    def add_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash."""
        self._inner.add_vectors(vectors)

    def rebuild(self) -> int:
        """Make the passages anew."""
        return self._inner.rebuild()

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild."""
        return self._inner.differences()

    def _late(self, reach: Reach) -> Reach:
        if self._held is None:
            return reach
        return replace(reach, at=self._held if reach.at is None else min(reach.at, self._held))
