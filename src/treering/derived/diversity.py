"""Leaving out of a ranking what has been said already.

Sameness is judged on the words and not on vectors: two sentences that differ in one number are one thing to an
embedder and two facts to a reader.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DUPLICATE_AT = 0.9
"""Part of the shingles that two texts must share to count as one."""

REPETITION_COST = 0.1
"""Part of its score that a text loses when all of it stands in a text ranked above."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked passage. `source` is whatever `max_per_source` counts by; more `trust` is a higher number."""

    key: int
    score: float
    source: str
    text: str
    trust: float = 1.0


@dataclass(frozen=True, slots=True)
class DiverseChoice:
    """The keys chosen, best first, and for each one left out as a duplicate the key that stands for it."""

    keys: tuple[int, ...]
    duplicates: Mapping[int, int] = field(default_factory=dict)


def diversify(
    candidates: Sequence[Candidate],
    limit: int,
    *,
    max_per_source: int | None = None,
    duplicate_at: float = DUPLICATE_AT,
    repetition_cost: float = REPETITION_COST,
) -> DiverseChoice:
    """Choose up to `limit` candidates that do not repeat each other, from a list ranked best first.

    Of near-duplicates the most trusted stays, of equally trusted ones the first: otherwise a forged copy that
    matches better would take the original away. Texts with different numbers never are duplicates. A text of which
    a better one, no less trusted, says more than half falls behind (less is how people talk of one matter, and
    costs recall).
    The cap per source is soft: what is above it comes after the rest, and only where the rest does not fill
    `limit`. The order of equals is the order given.
    """
    by_trust = sorted(candidates, key=lambda candidate: -candidate.trust)
    kept, duplicates = _without_duplicates(map(_Shingled.of, by_trust), duplicate_at)
    ranked = _demote_repetition(kept, repetition_cost)
    keys = _cap_sources(ranked, max_per_source)[:limit]
    chosen = set(keys)
    return DiverseChoice(tuple(keys), {twin: key for twin, key in duplicates.items() if key in chosen})


_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Shingled:
    """A candidate with the pairs of neighbouring words in it, and its numbers in order."""

    candidate: Candidate
    shingles: frozenset[tuple[str, str]]
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, candidate: Candidate) -> "_Shingled":
        words = ["", *_WORD.findall(candidate.text.casefold())]
        return cls(candidate, frozenset(pairwise(words)), tuple(_NUMBER.findall(candidate.text)))

    def same(self, other: "_Shingled", common: int, at: float) -> bool:
        """Tell whether both are one text, by the number of shingles they have in `common`."""
        small, large = sorted((len(self.shingles), len(other.shingles)))
        alike = small >= at * large and common >= at * (small + large - common)
        return alike and self.numbers == other.numbers

    def repeated(self, common: int) -> float:
        """Return the part of this text that `common` shingles are, or 0 where it is less than half."""
        return common / len(self.shingles) if 2 * common > len(self.shingles) else 0.0


@dataclass(frozen=True, slots=True)
class _Kept:
    """A text that is no duplicate, and the largest part of it that a single better one says."""

    text: _Shingled
    said: float


def _without_duplicates(shingled: Iterable[_Shingled], at: float) -> tuple[list[_Kept], dict[int, int]]:
    kept: list[_Kept] = []
    duplicates: dict[int, int] = {}
    # Which kept texts have a shingle: most texts share none, so nobody compares each with each.
    having: dict[tuple[str, str] | None, list[int]] = {}
    for each in shingled:
        marks = each.shingles or {None}
        common = Counter(place for mark in marks for place in having.get(mark, ()))
        if None in marks:  # texts without a word are alike
            common = Counter(dict.fromkeys(common, 0))
        twin = next((n for n in sorted(common) if each.same(kept[n].text, common[n], at)), None)
        if twin is not None:
            duplicates[each.candidate.key] = kept[twin].text.candidate.key
            continue
        for mark in marks:
            having.setdefault(mark, []).append(len(kept))
        kept.append(_Kept(each, max(map(each.repeated, common.values()), default=0.0)))
    return kept, duplicates


def _demote_repetition(kept: Sequence[_Kept], cost: float) -> list[Candidate]:
    """Lower each score by what better texts say already, then rank again."""
    return [
        one.text.candidate for one in sorted(kept, key=lambda one: -one.text.candidate.score * (1 - cost * one.said))
    ]


def _cap_sources(ranked: Iterable[Candidate], most: int | None) -> list[int]:
    within: list[int] = []
    beyond: list[int] = []
    seen: dict[str, int] = {}
    for candidate in ranked:
        seen[candidate.source] = seen.get(candidate.source, 0) + 1
        fits = most is None or seen[candidate.source] <= most
        (within if fits else beyond).append(candidate.key)
    return within + beyond
