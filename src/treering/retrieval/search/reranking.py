"""Rerank the best hits with a cross-encoder, and choose hits that do not repeat each other.

The reranker does not replace the ranking: half of the new score is the old one. Cross-encoders are trained on passages
that answer by themselves, and rank down the first hops of a chain, which share no word with the question.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.ports.models import Reranker, Scores
from treering.ports.runtime import Clock
from treering.retrieval.tuning import TUNING

MOST_PAIRS = 50
"""Hits that one search may rerank, to bound the cost."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """A reranker, the number of hits it reads, and the clock that times it."""

    reranker: Reranker
    pairs: int
    clock: Clock

    def of(self, question: str, texts: Sequence[str]) -> tuple[Sequence[float], "RerankingCost"]:
        """Return the scores of the reranker for some texts, from 0 to 1, and the cost."""
        began = self.clock.elapsed()
        read = self.reranker.score(question, texts)
        return _placed(read), RerankingCost(self.reranker.model_id, len(texts), self.clock.elapsed() - began)

    def not_done(self) -> "RerankingCost":
        """Return the cost of a search without reranking."""
        return RerankingCost(self.reranker.model_id, 0, 0.0)


@dataclass(frozen=True, slots=True)
class RerankingCost:
    """The cost of reranking; 0 pairs of a question and a text if there was none."""

    model_id: str
    pairs: int
    seconds: float

    def told(self) -> dict[str, Any]:
        """Return the entry for a trace."""
        return {"model": self.model_id, "pairs": self.pairs, "milliseconds": round(1000 * self.seconds, 1)}


def blended(scores: Sequence[float], read: Sequence[float], factors: Sequence[float]) -> list[float]:
    """Return the mean of the previous score of each hit and its score by the reranker (0 to 1).

    A cross-encoder ranks down the first steps of a chain of questions, which share no word with the question.

    The new scores are between the lowest and the highest previous score, so that these hits stay before the others.
    The reranker's score is multiplied by trust, so that a text written for the reranker does not come first.
    """
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    each = zip(scores, read, factors, strict=True)
    return [(score + low + (high - low) * by_reranker * factor) / 2 for score, by_reranker, factor in each]


def _placed(scores: Scores) -> tuple[float, ...]:
    """Scale scores to 0..1 between the lowest and the highest; 1 if all are equal."""
    if not len(scores):
        return ()
    low, high = float(scores.min()), float(scores.max())
    return tuple((float(score) - low) / (high - low) if high > low else 1.0 for score in scores)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked passage; more `trust` is a higher number."""

    key: int
    score: float
    text: str
    trust: float = 1.0
    exact: str = ""
    """Two candidates with different values of it, both not empty, are no duplicates."""


@dataclass(frozen=True, slots=True)
class DiverseChoice:
    """The chosen keys, best first.

    Further candidates, at most as trusted as the given ones, change the choice only if their score is above
    `open_above`.
    """

    keys: tuple[int, ...]
    open_above: float = -inf


def diversify(candidates: Sequence[Candidate], limit: int) -> DiverseChoice:
    """Choose up to `limit` candidates without near-duplicates, from a list ranked best first.

    Of near-duplicates the most trusted stays, of equally trusted ones the first: otherwise a forged copy that matches
    better would replace the original. Texts with different numbers are no duplicates. Ties stay in the order given.
    """
    by_trust = sorted(candidates, key=lambda candidate: -candidate.trust)
    ranked = sorted(_without_duplicates(by_trust), key=lambda candidate: -candidate.score)
    return DiverseChoice(
        tuple(candidate.key for candidate in ranked[:limit]),
        # If there are fewer than `limit`, any other candidate may be chosen.
        open_above=ranked[limit - 1].score if 0 < limit <= len(ranked) else -inf,
    )


_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_SECTION_NUMBER = re.compile(r"^#{1,6}[ \t]+\d[\d.]*[ \t]+(?=[^\W\d_])", re.MULTILINE)
_BLOCK = 4_096  # shingles compared at a time
_HASHES = 65_521
_END = 0  # the number after the last word of a text, and so before the first word of the next

Counts = npt.NDArray[np.int64]


def _without_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    common = _common_shingles([candidate.text for candidate in candidates])
    own = common.diagonal()[:, np.newaxis]
    # The Jaccard similarity of their shingles; texts without a word are alike.
    alike = (common >= TUNING.candidates.duplicate_at * (own + own.T - common)).tolist()
    distinct: list[int] = []
    for n, candidate in enumerate(candidates):
        if not any(alike[n][m] and _are_duplicates(candidate, candidates[m]) for m in distinct):
            distinct.append(n)
    return [candidates[n] for n in distinct]


def _are_duplicates(one: Candidate, other: Candidate) -> bool:
    """Return whether candidates with nearly the same words are duplicates."""
    if one.exact and other.exact and one.exact != other.exact:
        return False
    return _numbers(one) == _numbers(other)


def _numbers(candidate: Candidate) -> list[str]:
    return _NUMBER.findall(_SECTION_NUMBER.sub("", candidate.text))


def _common_shingles(texts: Sequence[str]) -> Counts:
    """Count the pairs of neighboring words that each two texts have in common: `int64[n, n]`."""
    holders, pairs = _shingles(texts)
    # Most pairs occur once. A hash excludes most of them from sorting.
    hashed = pairs % _HASHES
    often = np.bincount(hashed, minlength=_HASHES)[hashed] > 1
    common = np.diag(np.bincount(holders[~often], minlength=len(texts)))
    distinct, columns = np.unique(pairs[often], return_inverse=True)
    for start in range(0, len(distinct), _BLOCK):
        inside = (columns >= start) & (columns < start + _BLOCK)
        having = np.zeros((len(texts), -(-min(_BLOCK, len(distinct) - start) // 64) * 64), np.bool_)
        having[holders[often][inside], columns[inside] - start] = True
        # A matrix product would use several threads and cost several times as much in total.
        for word in np.ascontiguousarray(np.packbits(having, axis=1).view(np.uint64).T):
            common += np.bitwise_count(word[:, np.newaxis] & word)
    return common


def _shingles(texts: Sequence[str]) -> tuple[Counts, Counts]:
    """Return the text and the pair, by number, of each two neighboring words; the first word is in a pair, too."""
    # Its own `__len__` as the factory would create a cycle, which delays freeing all words of the hits.
    numbers = defaultdict(count(1).__next__, {"": _END})
    texts_by_number = [list(map(numbers.__getitem__, _WORD.findall(text.casefold()))) for text in texts]
    words = np.array([number for of_one in texts_by_number for number in (*of_one, _END)], np.int64)
    holders = np.repeat(np.arange(len(texts)), [len(of_one) + 1 for of_one in texts_by_number])
    before = np.zeros(len(words), np.int64)
    before[1:] = words[:-1]
    within = words != _END
    return holders[within], (before * len(numbers) + words)[within]
