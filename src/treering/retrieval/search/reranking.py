"""Reading the best of what was found again, question and text together, and weighing that beside the ranking so far.

What a cross-encoder says does not replace the ranking: half of the new score is the old one. It was trained on
passages that answer by themselves, and ranks down the first hops of a chain, which share no word with the question.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.ports.models import Reranker, Scores
from treering.ports.runtime import Clock
from treering.retrieval.tuning import TUNING

MOST_PAIRS = 50
"""Hits that one search may read again: what this costs has to stay bounded."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """How a search reads its best hits again: with what, how many of them, and by which clock it is timed."""

    reranker: Reranker
    pairs: int
    clock: Clock

    def of(self, question: str, hits: Sequence["Reranked"]) -> "Rescored":
        """Read the best of `hits` again; return the new scores of those, in the order given."""
        best = hits[: self.pairs]
        began = self.clock.elapsed()
        read = self.reranker.score(question, [hit.text for hit in best])
        seconds = self.clock.elapsed() - began
        placed = _placed(read)
        return Rescored(
            scores=blended(best, placed), read=placed, cost=RerankingCost(self.reranker.model_id, len(best), seconds)
        )

    def not_done(self) -> "RerankingCost":
        """Return the cost of reading nothing again."""
        return RerankingCost(self.reranker.model_id, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Reranked:
    """A hit as it is read again. `factor` is what trust takes from it, 1 for nothing; `score` is weighed by it."""

    text: str
    score: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RerankingCost:
    """What reading again cost: pairs of a question and a text; none where it was not done."""

    model_id: str
    pairs: int
    seconds: float

    def told(self) -> dict[str, Any]:
        """Return it as a trace shows it."""
        return {"model": self.model_id, "pairs": self.pairs, "milliseconds": round(1000 * self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class Rescored:
    """The new scores of the hits that were read again, what the reranker said of each (0 to 1), and what it cost."""

    scores: tuple[float, ...]
    read: tuple[float, ...]
    cost: RerankingCost


def blended(hits: Sequence[Reranked], read: Sequence[float]) -> tuple[float, ...]:
    """Weigh what the reranker says of each hit (0 to 1) beside its score so far.

    The new scores lie between the lowest and the highest of the old ones, so that these hits stay before the rest.
    What the reranker says counts as far as the hit is trusted: else a text written to please it would come first.
    """
    if not hits:
        return ()
    low, high = min(hit.score for hit in hits), max(hit.score for hit in hits)
    share = TUNING.candidates.rerank_share
    return tuple(
        (1 - share) * hit.score + share * (low + (high - low) * said * hit.factor)
        for hit, said in zip(hits, read, strict=True)
    )


def _placed(scores: Scores) -> tuple[float, ...]:
    """Bring scores to 0..1 between the lowest and the highest; 1 where they are all alike."""
    if not len(scores):
        return ()
    low, high = float(scores.min()), float(scores.max())
    return tuple((float(score) - low) / (high - low) if high > low else 1.0 for score in scores)


# Leaving out of a ranking what has been said already.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked passage; more `trust` is a higher number."""

    key: int
    score: float
    text: str
    trust: float = 1.0


@dataclass(frozen=True, slots=True)
class DiverseChoice:
    """The keys chosen, best first, and for each one left out as a duplicate the key that stands for it.

    Candidates that come after those given, with no more trust than any of them, change nothing unless they score more
    than `open_above`.
    """

    keys: tuple[int, ...]
    duplicates: Mapping[int, int] = field(default_factory=dict)
    open_above: float = -inf


def diversify(
    candidates: Sequence[Candidate],
    limit: int,
    *,
    duplicate_at: float = TUNING.candidates.duplicate_at,
    repetition_cost: float = TUNING.candidates.repetition_cost,
) -> DiverseChoice:
    """Choose up to `limit` candidates that do not repeat each other, from a list ranked best first.

    Of near-duplicates the most trusted stays, of equally trusted ones the first: otherwise a forged copy that
    matches better would take the original away. Texts with different numbers never are duplicates. A text of which
    a better one, no less trusted, says more than half falls behind (less is how people talk of one matter, and
    costs recall). The order of equals is the order given.
    """
    by_trust = sorted(candidates, key=lambda candidate: -candidate.trust)
    kept, duplicates = _without_duplicates(by_trust, duplicate_at)
    ranked = _demote_repetition(kept, repetition_cost)
    keys = [candidate.key for candidate, _ in ranked[:limit]]
    chosen = set(keys)
    return DiverseChoice(
        tuple(keys),
        {twin: key for twin, key in duplicates.items() if key in chosen},
        # Where there is room, any other may come among them.
        open_above=ranked[limit - 1][1] if 0 < limit <= len(ranked) else -inf,
    )


_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_BLOCK = 4_096  # shingles compared at a time
_HASHES = 65_521
_END = 0  # stands behind the last word of a text, and so before the first of the next

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A candidate that is not a duplicate, and the largest part of its text that a single better one says."""

    candidate: Candidate
    said: float


def _without_duplicates(candidates: Sequence[Candidate], at: float) -> tuple[list[_Kept], dict[int, int]]:
    common = _common_shingles([candidate.text for candidate in candidates])
    own = common.diagonal()[:, np.newaxis]
    # Texts without a word are alike; others are by the part of all their shingles that they share.
    alike = (common >= at * (own + own.T - common)).tolist()
    said = np.where(2 * common > own, common / np.maximum(own, 1), 0.0)
    kept: list[int] = []
    duplicates: dict[int, int] = {}
    for n, candidate in enumerate(candidates):
        twin = next((m for m in kept if alike[n][m] and _numbers(candidate) == _numbers(candidates[m])), None)
        if twin is None:
            kept.append(n)
        else:
            duplicates[candidate.key] = candidates[twin].key
    said_before = np.tril(said[np.ix_(kept, kept)], -1).max(axis=1, initial=0.0).tolist()
    return [_Kept(candidates[n], by_better) for n, by_better in zip(kept, said_before, strict=True)], duplicates


def _numbers(candidate: Candidate) -> list[str]:
    return _NUMBER.findall(candidate.text)


def _common_shingles(texts: Sequence[str]) -> Counts:
    """Count, for each two texts, the pairs of neighbouring words that both have: `int64[n, n]`."""
    holders, pairs = _shingles(texts)
    # Most pairs are found once. Sorting costs, so that those are told apart by a hash first.
    hashed = pairs % _HASHES
    often = np.bincount(hashed, minlength=_HASHES)[hashed] > 1
    common = np.diag(np.bincount(holders[~often], minlength=len(texts)))
    distinct, columns = np.unique(pairs[often], return_inverse=True)
    for start in range(0, len(distinct), _BLOCK):
        inside = (columns >= start) & (columns < start + _BLOCK)
        having = np.zeros((len(texts), -(-min(_BLOCK, len(distinct) - start) // 64) * 64), np.bool_)
        having[holders[often][inside], columns[inside] - start] = True
        # Not as a product of matrices: that is spread over threads, which costs several times as much in all.
        for word in np.ascontiguousarray(np.packbits(having, axis=1).view(np.uint64).T):
            common += np.bitwise_count(word[:, np.newaxis] & word)
    return common


def _shingles(texts: Sequence[str]) -> tuple[Counts, Counts]:
    """Give, for each two neighbouring words of a text, the text and the pair, by number; the first word has one too."""
    # Not its own `__len__`: in a cycle, all words of the hits would stay in memory until the collector looks.
    numbers = defaultdict(count(1).__next__, {"": _END})
    said = [list(map(numbers.__getitem__, _WORD.findall(text.casefold()))) for text in texts]
    words = np.array([number for of_one in said for number in (*of_one, _END)], np.int64)
    holders = np.repeat(np.arange(len(texts)), [len(of_one) + 1 for of_one in said])
    before = np.zeros(len(words), np.int64)
    before[1:] = words[:-1]
    within = words != _END
    return holders[within], (before * len(numbers) + words)[within]


def _demote_repetition(kept: Sequence[_Kept], cost: float) -> list[tuple[Candidate, float]]:
    """Lower each score by what better texts say already, then rank again."""
    lowered = [(one.candidate, one.candidate.score * (1 - cost * one.said)) for one in kept]
    return sorted(lowered, key=lambda one: -one[1])
