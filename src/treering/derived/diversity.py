"""Leaving out of a ranking what has been said already.

Sameness is judged on the words and not on vectors: two sentences that differ in one number are one thing to an
embedder and two facts to a reader.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt

DUPLICATE_AT = 0.9
"""Part of the shingles that two texts must share to count as one."""

REPETITION_COST = 0.1
"""Part of its score that a text loses when all of it stands in a text ranked above."""


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
    duplicate_at: float = DUPLICATE_AT,
    repetition_cost: float = REPETITION_COST,
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
    alike = common >= at * (own + own.T - common)
    said = np.where(2 * common > own, common / np.maximum(own, 1), 0.0)
    kept: list[int] = []
    duplicates: dict[int, int] = {}
    for n, candidate in enumerate(candidates):
        twin = next((m for m in kept if alike[n, m] and _numbers(candidate) == _numbers(candidates[m])), None)
        if twin is None:
            kept.append(n)
        else:
            duplicates[candidate.key] = candidates[twin].key
    better = (kept[:place] for place in range(len(kept)))
    found = [_Kept(candidates[n], float(said[n, ms].max(initial=0.0))) for n, ms in zip(kept, better, strict=True)]
    return found, duplicates


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
        having = np.zeros((len(texts), min(_BLOCK, len(distinct) - start)), np.float32)
        having[holders[often][inside], columns[inside] - start] = 1
        common += (having @ having.T).astype(np.int64)
    return common


def _shingles(texts: Sequence[str]) -> tuple[Counts, Counts]:
    """Give, for each two neighbouring words of a text, the text and the pair, by number; the first word has one too."""
    numbers: defaultdict[str, int] = defaultdict(int)
    numbers[""] = _END
    numbers.default_factory = numbers.__len__
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
