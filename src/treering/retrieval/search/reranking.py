"""Rerank the best hits with a cross-encoder, and choose hits that do not repeat each other.

The reranker does not replace the ranking: half of the new score is the old one. Cross-encoders are trained on passages
that answer by themselves, and rank down the first hops of a chain, which share no word with the question.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

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
Shingle = tuple[str, str]
"""Two neighboring words; the first word of a text is in one, too."""
_NO_WORDS: frozenset[Shingle] = frozenset({("", "")})


def _without_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out candidates with nearly the same words as an earlier one.

    Texts that are alike share one of their first shingles in any order, so each is compared with few others (prefix
    filtering: Bayardo, Ma and Srikant, "Scaling Up All Pairs Similarity Search", WWW 2007).
    """
    distinct: list[Candidate] = []
    shingles: list[frozenset[Shingle]] = []
    by_first: defaultdict[Shingle, list[int]] = defaultdict(list)
    for candidate in candidates:
        own = _shingles(candidate.text)
        first = sorted(own, key=hash)[: len(own) - int(TUNING.candidates.duplicate_at * len(own)) + 1]
        near = {other for shingle in first for other in by_first[shingle]}
        if any(_are_alike(own, shingles[at]) and _are_duplicates(candidate, distinct[at]) for at in near):
            continue
        for shingle in first:
            by_first[shingle].append(len(distinct))
        distinct.append(candidate)
        shingles.append(own)
    return distinct


def _shingles(text: str) -> frozenset[Shingle]:
    return frozenset(pairwise(("", *_WORD.findall(text.casefold())))) or _NO_WORDS


def _are_alike(one: frozenset[Shingle], other: frozenset[Shingle]) -> bool:
    """Return whether the Jaccard similarity of the shingles of two texts is high; texts without a word are alike."""
    common = len(one & other)
    return common >= TUNING.candidates.duplicate_at * (len(one) + len(other) - common)


def _are_duplicates(one: Candidate, other: Candidate) -> bool:
    """Return whether candidates with nearly the same words are duplicates."""
    if one.exact and other.exact and one.exact != other.exact:
        return False
    return _numbers(one) == _numbers(other)


def _numbers(candidate: Candidate) -> list[str]:
    return _NUMBER.findall(_SECTION_NUMBER.sub("", candidate.text))
