"""How rare the terms of a question are, here (idf) and in texts of any kind, and how much of it a text covers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2, sqrt

from treering.ports.search import MOST_COUNTED, TextFound
from treering.retrieval.search.question import Meaning
from treering.retrieval.tuning import TUNING

_LETTERS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{1,2}")


_LEAST_UNKNOWN = 1 / log2(3)
"""The least idf of a term that no passage has: that of a term that one passage has."""


_EQUALLY_RARE: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class IdfWeights:
    """The weight of each term of a question, from 0 to 1, in a space of so many passages."""

    weights: Mapping[str, float] = field(default_factory=dict)
    largeness: float = 0.0
    """From 0 for an empty space to 1 for one of `MOST_COUNTED` passages or more."""
    unknown: frozenset[str] = frozenset()
    """The terms that no passage has."""
    dates: frozenset[str] = frozenset()
    """The terms of the dates that the question names."""

    @classmethod
    def of(
        cls,
        terms: Sequence[str],
        found: TextFound,
        dates: frozenset[str] = frozenset(),
        rarity: Mapping[str, float] = _EQUALLY_RARE,
    ) -> "IdfWeights":
        """Weigh the terms by how many passages have them, and in a small space by `rarity`, too: the rarer, the more.

        One that no passage has weighs more in a larger space: a small one is not expected to know many words.
        """
        largeness = log2(2 + found.passages) / log2(2 + MOST_COUNTED)
        unknown = max(largeness, _LEAST_UNKNOWN)
        weights = {term: 1 / log2(2 + found.counts[term]) if term in found.counts else unknown for term in terms}
        if largeness < TUNING.idf.min_large:
            power = TUNING.idf.rarity_power
            weights = {term: weight * rarity.get(term, 1.0) ** power for term, weight in weights.items()}
        return cls(weights, largeness, frozenset(terms) - found.counts.keys(), dates)

    @property
    def is_small(self) -> bool:
        """Whether the space is so small that every passage of it is a candidate."""
        return 0 < self.largeness < TUNING.idf.min_large

    def coverage(self, terms: Iterable[str]) -> float:
        """Return how much of a question a text with these terms covers: the share of the weights that it has.

        Times the square root of how many words there are: the longer a question, the smaller a part of it any answer
        repeats.
        """
        return sqrt(self._words) * self.share(terms)

    def share(self, terms: Iterable[str]) -> float:
        """Return what part of the weights some terms have."""
        total = sum(self.weights.values())
        return sum(self.weights[term] for term in self.weights.keys() & set(terms)) / total if total else 0.0

    @property
    def _words(self) -> float:
        """About how many words the terms are: pairs of letters of a script without spaces are parts of words."""
        pairs = sum(_LETTERS.fullmatch(term) is not None for term in self.weights)
        words = max(1.0, pairs / TUNING.idf.letters_in_a_word) if pairs else 0
        return len(self.weights) - pairs + words

    def undated(self) -> "IdfWeights":
        """Return the weights without the words of dates: when a turn was said it seldom says itself."""
        left = {term: weight for term, weight in self.weights.items() if term not in self.dates}
        return replace(self, weights=left, unknown=self.unknown - self.dates) if left else self

    def near_from(self, meaning: Meaning) -> float:
        """Return the cosine from which a text is near to the question, and not only the nearest of many."""
        return meaning.unrelated_below + TUNING.idf.near_share * self.largeness * (1 - meaning.unrelated_below)
