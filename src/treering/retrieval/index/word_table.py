"""Words in memory: postings of the terms that were asked for, ranked by BM25, to the same scores as FTS5's `bm25()`."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_POSTINGS = 2_000_000
"""So many postings are kept, of the terms that were asked for last: 16 MB."""

_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6  # as FTS5: a word in most passages counts next to nothing, not against


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages that have a term, by ascending key, and how often each has it, weighted by column."""

    keys: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]


class WordTable:
    """How long passages are, and the postings of terms, as of one moment.

    About 8 bytes for each possible key up to the greatest, and 8 for each posting kept. Not locked: nobody may search
    while somebody changes it.
    """

    def __init__(self, *, most_postings: int = MOST_POSTINGS) -> None:
        self._most = most_postings
        self._kept = 0
        self._postings: OrderedDict[str, Postings] = OrderedDict()
        self._lengths: Floats = np.zeros(0)
        self._rows = 0
        self._usual = 0.0

    def begin(self, keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Take the lengths (in terms) of all passages, how many there are and how long together; forget all else."""
        self._lengths = np.zeros(int(keys.max(initial=-1)) + 1)
        self._lengths[keys] = lengths
        self.renew((), np.zeros(0, np.int64), np.zeros(0, np.int64), rows=rows, total=total)

    def renew(self, changed: Sequence[int], keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Bring lengths to a later moment: those of `changed` are gone but for `keys`. Postings are forgotten."""
        greatest = max((*changed, int(keys.max(initial=-1))), default=-1)
        if greatest >= len(self._lengths):
            larger = np.zeros(greatest + 1 + greatest // 8)
            larger[: len(self._lengths)] = self._lengths
            self._lengths = larger
        self._lengths[list(changed)] = 0
        self._lengths[keys] = lengths
        self._rows, self._usual = rows, total / max(1, rows)
        self._postings.clear()
        self._kept = 0

    def find(self, term: str) -> Postings | None:
        """Return the postings of a term where they are here."""
        if term in self._postings:
            self._postings.move_to_end(term)
        return self._postings.get(term)

    def keep(self, term: str, postings: Postings) -> None:
        """Remember the postings of a term, and forget those of terms not asked for lately where they are too many."""
        self._postings[term] = postings
        self._kept += len(postings.keys)
        while self._kept > self._most and len(self._postings) > 1:
            _, gone = self._postings.popitem(last=False)
            self._kept -= len(gone.keys)

    def rank(self, terms: Sequence[Postings], limit: int) -> tuple[Keys, Floats]:
        """Return the best passages that have any of the terms, and their scores; of equal ones the lower key first."""
        return best(self.scores(terms), limit)

    def scores(self, terms: Sequence[Postings]) -> Floats:
        """Return the score of every passage by its key, 0 where it has no term; one given twice counts twice."""
        scores = np.zeros(len(self._lengths))
        for each in terms:
            keys, counts = each.keys, each.counts.astype(np.float64)
            norms = _K1 * (1 - _B + _B * self._lengths[keys] / self._usual)
            scores[keys] += self._idf(len(keys)) * ((counts * (_K1 + 1)) / (counts + norms))
        return scores

    def scores_of_others(self, lengths: Floats, found: Sequence[Postings], having: Sequence[int]) -> Floats:
        """Return the scores of passages that are not in the table, by how common terms are in it.

        `lengths`: in terms, by key; `found`: of each term, which of them have it; `having`: how many of the table do.
        """
        usual = self._usual or (lengths[lengths > 0].mean() if lengths.any() else 1.0)
        scores = np.zeros(len(lengths))
        for each, held in zip(found, having, strict=True):
            counts = each.counts.astype(np.float64)
            norms = _K1 * (1 - _B + _B * lengths[each.keys] / usual)
            scores[each.keys] += self._idf(held) * counts * (_K1 + 1) / (counts + norms)
        return scores

    def _idf(self, having: int) -> float:
        rarity = log((self._rows - having + 0.5) / (having + 0.5))
        return rarity if rarity > 0 else _LEAST_IDF


def only(scores: Floats, keys: Keys) -> Floats:
    """Return the scores of some passages; all others score 0."""
    kept = np.zeros(len(scores))
    kept[keys] = scores[keys]
    return kept


def best(scores: Floats, limit: int, *, among: npt.NDArray[np.int32] | None = None) -> tuple[Keys, Floats]:
    """Return the best of passages (`among`: of some of them) and their scores; of equal ones the lower key first."""
    found = np.flatnonzero(scores) if among is None else among[scores[among] > 0].astype(np.int64)
    if len(found) > limit:
        nth = np.partition(scores[found], len(found) - limit)[len(found) - limit]
        found = found[scores[found] >= nth]
    order = np.lexsort((found, -scores[found]))[:limit]
    return found[order], scores[found[order]]
