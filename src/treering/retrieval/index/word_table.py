"""In-memory table of words: lengths of passages and postings, ranked by BM25."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.retrieval.index.tables import MAX_KEY, Keys, PackedTable, distinct, nth_largest, unfit

Scores = npt.NDArray[np.float64]

MAX_CHANGES = 100_000
"""Changed passages since the cache of postings was empty; after that, it is cleared."""
MIN_POSTINGS = 2_000_000
"""Postings in the cache of recently used terms in a small space: 16 MB."""

POSTINGS_PER_PASSAGE = 12
"""Postings in this cache for each passage of a larger space: enough for the common words of questions.

At 500,000 passages a search takes 32 ms instead of 39 with 2 million (`benchmarks scale`).
"""

MAX_WEIGHT = 2
"""The greatest weight of a column."""

K1 = 1.2
B = 0.75
_LEAST_IDF = 1e-6  # as in FTS5, the weight of a word in most passages, instead of a negative one


def bm25(texts: Sequence[Counter[str]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each word the texts with it, by their place, and its weight in each (Robertson and Zaragoza 2009)."""
    usual = sum(text.total() for text in texts) / max(1, len(texts))
    found: dict[str, list[tuple[int, float]]] = {}
    for place, text in enumerate(texts):
        norm = K1 * (1 - B + B * text.total() / usual) if usual else K1
        for word, times in text.items():
            found.setdefault(word, []).append((place, times * (K1 + 1) / (times + norm)))
    rarity = {word: log(1 + (len(texts) - len(held) + 0.5) / (len(held) + 0.5)) for word, held in found.items()}
    return {word: [(place, weight * rarity[word]) for place, weight in held] for word, held in found.items()}


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages with a term, by ascending key, and its number of occurrences in each, weighted by column."""

    keys: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]

    def renewed(self, changed: npt.NDArray[np.int32], first: int, added: Mapping[int, float]) -> "Postings":
        """Return the postings without changed passages, and with `added` instead of all passages from a key on."""
        keys = self.keys[: np.searchsorted(self.keys, first)]
        places = np.searchsorted(keys, changed)
        removed = places[keys.take(places, mode="clip") == changed] if len(keys) else places[:0]
        if len(keys) == len(self.keys) and not (len(removed) or added):
            return self
        new = np.array(sorted(added), np.int32)
        counts = np.array([added[key] for key in new.tolist()], np.float32)
        return Postings(
            np.concatenate([np.delete(keys, removed), new]),
            np.concatenate([np.delete(self.counts[: len(keys)], removed), counts]),
        )


@dataclass(frozen=True, slots=True)
class PostingLists:
    """The postings of several terms, joined."""

    bounds: Mapping[str, tuple[int, int]]
    """By term, the first position in the arrays, and the position after the last."""
    keys: npt.NDArray[np.int32]
    doubled: npt.NDArray[Any]
    """Twice the numbers of occurrences, which are whole numbers, because weights of columns are multiples of a half."""

    def find(self, term: str) -> Postings:
        """Return the postings of a term."""
        part = slice(*self.bounds[term])
        return Postings(self.keys[part], self.doubled[part] * np.float32(0.5))


_NO_LISTS = PostingLists({}, np.zeros(0, np.int32), np.zeros(0, np.int16))


@dataclass(frozen=True, slots=True)
class WeighedPostings:
    """Distinct passages with a score for each."""

    keys: npt.NDArray[np.int32]
    scores: Scores


class WordTable:
    """The lengths of passages and cached postings of one snapshot, ranked by BM25 like the `bm25()` of FTS5.

    It takes about 12 bytes per possible key up to the greatest, and 8 bytes per cached posting. Postings of frequent
    terms may be in a mapped file instead. Not thread-safe: the caller must not search during changes.
    """

    def __init__(self, *, most_postings: int = 0) -> None:
        self._most = most_postings
        self._cached = 0
        self.rows = 0
        """The number of passages."""
        self._total = 0
        self._postings: OrderedDict[str, tuple[Postings, int]] = OrderedDict()
        """By term, with the number of changes that they include."""
        self._saved = _NO_LISTS
        """Postings that include no changes."""
        self._changed: list[int] = []
        """The passages that were added or removed."""
        self._lengths = np.zeros(0, np.int32)
        self._norms: Scores | None = None
        """By key, the BM25 length norm of the passage; computed when needed."""

    def begin(self, keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Start over with the lengths (in terms) of all passages, their number, and their total length."""
        self._lengths = np.zeros(int(keys.max(initial=-1)) + 1, np.int32)
        self._lengths[keys] = lengths
        self.rows, self._total, self._norms = rows, total, None
        self.forget()

    def packed(self, frequent: Mapping[str, int], read: Callable[[str], Postings]) -> PackedTable:
        """Return the table with the postings of frequent terms, which are given with their numbers of passages.

        `read` returns the current postings of a term.
        """
        widest = 2 * MAX_WEIGHT * int(self._lengths.max(initial=0))
        kind = np.int16 if widest <= np.iinfo(np.int16).max else np.int32

        def parts() -> Iterator[Mapping[str, npt.NDArray[Any]]]:
            yield {"keys": _NO_LISTS.keys, "doubled": np.zeros(0, kind)}
            for term in frequent:
                postings = read(term)
                yield {"keys": postings.keys, "doubled": (2 * postings.counts).astype(kind)}

        bounds = np.cumsum([0, *frequent.values()], dtype=np.int64)
        terms = np.frombuffer("\n".join(frequent).encode("utf-32-le"), np.uint32)
        arrays: dict[str, npt.NDArray[Any]] = {"lengths": self._lengths, "bounds": bounds, "terms": terms}
        numbers = {"rows": self.rows, "total": self._total, "bytes": np.dtype(kind).itemsize}
        return PackedTable(numbers, arrays, int(bounds[-1]), parts())

    def unpack(self, packed: PackedTable) -> None:
        """Load a table from `packed`, without copying its arrays. Raises `Corrupt` if they are inconsistent."""
        lengths, bounds = packed.array("lengths", np.int32, None), packed.array("bounds", np.int64, None)
        keys = packed.array("keys", np.int32, None)
        kind = np.int16 if packed.number("bytes", most=4) == np.dtype(np.int16).itemsize else np.int32
        doubled = packed.array("doubled", kind, len(keys))
        try:
            joined = packed.array("terms", np.uint32, None).tobytes().decode("utf-32-le")
        except UnicodeDecodeError as error:
            raise unfit() from error
        terms = joined.split("\n") if joined else []
        ends = [0, *bounds.tolist(), len(keys)]
        if len(bounds) != len(terms) + 1 or any(one > other for one, other in pairwise(ends)):
            raise unfit()
        self.rows, self._total = packed.number("rows", most=MAX_KEY), packed.number("total", most=2**62)
        self._lengths, self._norms = lengths, None
        self.forget()
        self._saved = PostingLists(dict(zip(terms, pairwise(bounds.tolist()), strict=True)), keys, doubled)

    def forget(self) -> None:
        """Forget all postings."""
        self._postings.clear()
        self._saved = _NO_LISTS
        self._changed, self._cached = [], 0

    def detach(self) -> None:
        """Forget all postings, and copy the lengths, so that a mapped file is not used any more."""
        self.forget()
        self._lengths = self._lengths.copy()

    def renew(self, changed: Sequence[int], keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Update to a later snapshot: replace the lengths of `changed` passages by those of `keys`.

        If passages were removed, the cache is cleared, so that their words are not in memory any more.
        """
        greatest = max((*changed, int(keys.max(initial=-1))), default=-1)
        if greatest >= len(self._lengths):
            self._lengths = np.concatenate(
                [self._lengths, np.zeros(greatest + 1 + greatest // 8 - len(self._lengths), np.int32)]
            )
        altered = self._altered(changed, keys)
        self._lengths[list(changed)] = 0
        self._lengths[keys] = lengths
        self.rows, self._total, self._norms = rows, total, None
        if len(self._changed) > MAX_CHANGES:
            self.forget()
        elif not set(changed) <= set(keys.tolist()):
            self._postings.clear()
            self._cached = 0
        self._changed += altered.tolist()

    def _altered(self, changed: Sequence[int], keys: Keys) -> Keys:
        """Return the changed passages that were added or removed. The words of a passage never change.

        A passage may have the key of an erased one only if there is no greater key from before.
        """
        altered = np.array(changed, np.int64)
        before = self._lengths > 0
        were = before[altered]
        before[altered] = False
        greatest = len(before) - int(np.argmax(before[::-1])) - 1 if before.any() else -1
        same = were & np.isin(altered, keys) & (altered < greatest)
        unchanged: Keys = altered[~same]
        return unchanged

    def held(self, terms: Iterable[str]) -> set[str]:
        """Return the terms with cached or saved postings."""
        return {term for term in terms if term in self._postings or term in self._saved.bounds}

    def having(self, term: str) -> int | None:
        """Return the number of passages in the cached or saved postings of a term."""
        if term in self._postings:
            return len(self._postings[term][0].keys)
        start, end = self._saved.bounds.get(term, (-1, -1))
        return end - start if end >= 0 else None

    def find(self, term: str) -> Postings | None:
        """Return the cached or saved postings of a term."""
        if term in self._postings:
            self._postings.move_to_end(term)
            return self._postings[term][0]
        return self._saved.find(term) if term in self._saved.bounds else None

    def renewed(self, term: str, look_up: Callable[[int], Mapping[int, float]]) -> Postings | None:
        """Return the current postings of a term; `None` if they are neither cached nor saved.

        `look_up` returns the occurrences of the term in all passages with it from a key on.
        """
        postings = self.find(term)
        start = self._postings[term][1] if term in self._postings else 0
        if postings is None or start == len(self._changed):
            return postings
        changed = distinct(np.array(self._changed[start:], np.int32))
        added = changed[self._lengths[changed] > 0]
        first = int(added[0]) if len(added) else len(self._lengths)
        postings = postings.renewed(changed, first, look_up(first) if len(added) else {})
        self.keep(term, postings)
        return postings

    def keep(self, term: str, postings: Postings) -> None:
        """Cache the current postings of a term; evict the least recently used terms if there are too many."""
        self._cached += len(postings.keys) - (len(self._postings[term][0].keys) if term in self._postings else 0)
        self._postings[term] = (postings, len(self._changed))
        self._postings.move_to_end(term)
        most = self._most or max(MIN_POSTINGS, POSTINGS_PER_PASSAGE * self.rows)
        while self._cached > most and len(self._postings) > 1:
            _, (evicted, _) = self._postings.popitem(last=False)
            self._cached -= len(evicted.keys)

    def rank(self, terms: Sequence[Postings], limit: int) -> tuple[Keys, Scores]:
        """Return the best passages with any of the terms, and their scores; ties by ascending key."""
        return best(self.scores(terms), limit)

    def scores(self, terms: Sequence[Postings | WeighedPostings]) -> Scores:
        """Return the score of every passage by key, 0 without any of the terms; a repeated term counts twice."""
        scores = np.zeros(len(self._lengths))
        for each in terms:
            keys = each.keys.astype(np.int64)  # takes half the time, because numpy would convert them at each use
            scores[keys] += each.scores if isinstance(each, WeighedPostings) else self._weighed(each, keys)
        return scores

    def _weighed(self, postings: Postings, keys: Keys) -> Scores:
        if self._norms is None:
            self._norms = K1 * (1 - B + B * self._lengths.astype(np.float64) / (self._usual or 1.0))
        counts = postings.counts.astype(np.float64)
        weighed: Scores = self._idf(len(counts)) * ((counts * (K1 + 1)) / (counts + self._norms.take(keys)))
        return weighed

    def scores_of_others(self, lengths: Scores, found: Sequence[Postings], having: Sequence[int]) -> Scores:
        """Return the scores of passages that are not in the table, with the term frequencies of the table.

        `lengths` are in terms, by key. `found` are the postings of each term among them, and `having` is the number of
        passages of the table with the term.
        """
        usual = self._usual or (lengths[lengths > 0].mean() if lengths.any() else 1.0)
        scores = np.zeros(len(lengths))
        for each, frequency in zip(found, having, strict=True):
            counts = each.counts.astype(np.float64)
            norms = K1 * (1 - B + B * lengths[each.keys] / usual)
            scores[each.keys] += self._idf(frequency) * counts * (K1 + 1) / (counts + norms)
        return scores

    @property
    def _usual(self) -> float:
        """The mean length of a passage."""
        return self._total / max(1, self.rows)

    def _idf(self, having: int) -> float:
        rarity = log((self.rows - having + 0.5) / (having + 0.5))
        return rarity if rarity > 0 else _LEAST_IDF


def only(scores: Scores, keys: Keys) -> Scores:
    """Return the scores of some passages, and 0 for all others."""
    selected = np.zeros(len(scores))
    selected[keys] = scores[keys]
    return selected


def best(scores: Scores, limit: int, *, among: npt.NDArray[np.int32] | Keys | None = None) -> tuple[Keys, Scores]:
    """Return the best passages (`among`: of these) and their scores; ties by ascending key."""
    # Comparing first is ten times as fast as looking for numbers other than 0.
    keys = np.flatnonzero(scores > 0) if among is None else among[scores[among] > 0].astype(np.int64, copy=False)
    if len(keys) > limit:
        values = scores[keys]
        keys = keys[values >= nth_largest(values, limit)]
    order = np.lexsort((keys, -scores[keys]))[:limit]
    return keys[order], scores[keys[order]]
