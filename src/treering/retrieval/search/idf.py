"""Weight the terms of a question by rarity in the space (idf) and in general texts, and measure coverage."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2, sqrt

from treering.ports.search import MOST_COUNTED, TextFound
from treering.retrieval.search.question import Meaning
from treering.retrieval.tuning import TUNING

_LETTERS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{1,2}")


_LEAST_UNKNOWN = 1 / log2(3)
"""The minimal idf of a term in no passage, equal to the idf of a term in one passage."""


_EQUALLY_RARE: Mapping[str, float] = {}


@dataclass(frozen=True)
class IdfWeights:
    """The weight of each term of a question, from 0 to 1, in a space."""

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
        """Weight terms by the number of passages that have them, and in a small space also by `rarity`.

        A term that no passage has weighs more in a larger space, because a small one contains few words.
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

    def coverage(self, terms: Set[str]) -> float:
        """Return the coverage of a question: the share of its weight in these terms, times the root of its word count.

        The longer a question, the smaller the share that any answer repeats.
        """
        return self._root_of_words * self.share(terms)

    def share(self, terms: Set[str]) -> float:
        """Return the share of the weight in some terms."""
        weight = sum(self.weights[term] for term in self.weights.keys() & terms)
        return weight / self._total if self._total else 0.0

    @cached_property
    def _total(self) -> float:
        return sum(self.weights.values())

    @cached_property
    def _root_of_words(self) -> float:
        """The root of about the number of words: terms of scripts without spaces are pairs of letters."""
        pairs = sum(_LETTERS.fullmatch(term) is not None for term in self.weights)
        words = max(1.0, pairs / TUNING.idf.letters_in_a_word) if pairs else 0
        return sqrt(len(self.weights) - pairs + words)

    def undated(self) -> "IdfWeights":
        """Return the weights without the words of dates, because turns seldom contain their own date."""
        left = {term: weight for term, weight in self.weights.items() if term not in self.dates}
        return replace(self, weights=left, unknown=self.unknown - self.dates) if left else self

    def near_from(self, meaning: Meaning) -> float:
        """Return the cosine from which a text is near, and not only the nearest of many by chance."""
        return meaning.unrelated_below + TUNING.idf.near_share * self.largeness * (1 - meaning.unrelated_below)
