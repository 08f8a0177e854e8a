"""Leaving out of a ranking what has been said already.

Sameness is judged on the words and not on vectors: two sentences that differ in one number are one thing to an
embedder and two facts to a reader.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DUPLICATE_AT = 0.9
"""Part of the shingles that two texts must share to count as one."""

REPETITION_COST = 0.1
"""Part of its score that a text loses when all of it stands in a text ranked above."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked passage. `source` is whatever `max_per_source` counts by."""

    key: int
    score: float
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Selection:
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
) -> Selection:
    """Choose up to `limit` candidates that do not repeat each other, from a list ranked best first.

    Of near-duplicates the first stays; texts with different numbers never are duplicates. A text of which a
    better one says more than half falls behind (less is how people talk of one matter, and costs recall).
    The cap per source is soft: what is above it comes after the rest, and only where the rest does not fill
    `limit`. The order of equals is the order given.
    """
    shingled = [_Shingled.of(candidate) for candidate in candidates]
    kept, duplicates = _without_duplicates(shingled, duplicate_at)
    ranked = _demote_repetition(kept, repetition_cost)
    keys = _cap_sources(ranked, max_per_source)[:limit]
    chosen = set(keys)
    return Selection(tuple(keys), {twin: key for twin, key in duplicates.items() if key in chosen})


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

    def same(self, other: "_Shingled", at: float) -> bool:
        small, large = sorted((len(self.shingles), len(other.shingles)))
        if small < at * large or self.numbers != other.numbers:
            return False
        common = len(self.shingles & other.shingles)
        return common >= at * (small + large - common)

    def repeats(self, other: "_Shingled") -> float:
        """Give the part of this text that stands in the other, or 0 where it is less than half."""
        common = len(self.shingles & other.shingles)
        return common / len(self.shingles) if 2 * common > len(self.shingles) else 0.0


def _without_duplicates(shingled: Iterable[_Shingled], at: float) -> tuple[list[_Shingled], dict[int, int]]:
    kept: list[_Shingled] = []
    duplicates: dict[int, int] = {}
    for each in shingled:
        twin = next((other for other in kept if each.same(other, at)), None)
        if twin is None:
            kept.append(each)
        else:
            duplicates[each.candidate.key] = twin.candidate.key
    return kept, duplicates


def _demote_repetition(kept: Sequence[_Shingled], cost: float) -> list[Candidate]:
    """Lower each score by what better texts say already, then rank again."""
    said = [max((each.repeats(other) for other in kept[:n]), default=0.0) for n, each in enumerate(kept)]
    scores = [each.candidate.score * (1 - cost * part) for each, part in zip(kept, said, strict=True)]
    order = sorted(range(len(kept)), key=lambda n: -scores[n])
    return [kept[n].candidate for n in order]


def _cap_sources(ranked: Iterable[Candidate], most: int | None) -> list[int]:
    within: list[int] = []
    beyond: list[int] = []
    seen: dict[str, int] = {}
    for candidate in ranked:
        seen[candidate.source] = seen.get(candidate.source, 0) + 1
        fits = most is None or seen[candidate.source] <= most
        (within if fits else beyond).append(candidate.key)
    return within + beyond
