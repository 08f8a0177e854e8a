"""How similar a memory is to a query, on one scale from 0 to 1 for every embedder: by meaning, and by words."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2, sqrt

from treering.ports.search import MOST_COUNTED
from treering.retrieval.search.relevance import TUNING
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.text.typed_words import names_written

RELATED = 0.7
"""The similarity from which on a text is related to a query, and not only the nearest there is."""
_SURE = 0.6
"""So far on the way from chance to identity, a text is as like as can be."""
_FAR = 0.5
"""So far below chance, relative to the way above it, a text has nothing in common."""
_UNKNOWN = 1 / log2(3)
"""The least weight of a word that no text has: that of a word that one text has."""
_NAME = 2.0
"""What a name in a question weighs more than another word that is as rare."""
_COMMON = 1 / log2(2 + 50)
"""The weight of a word that is common in notes of any kind, of which a small collection cannot show that."""
_COMMON_TERMS = frozenset(telling_terms("use need want make know say mention happen thing way time work discuss note"))


def of_cosine(cosine: float, *, unrelated_below: float) -> float:
    """Bring a cosine to the scale: `unrelated_below`, which belongs to the embedder, is `RELATED`."""
    room = max(1.0 - unrelated_below, 1e-6)
    above = (cosine - unrelated_below) / room
    if above >= 0:
        return RELATED + (1 - RELATED) * min(1.0, above / _SURE)
    return RELATED * max(0.0, 1 + above / _FAR)


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The words of a query, each with its weight: the rarer, the more."""

    weights: Mapping[str, float]

    @classmethod
    def of(cls, query: str, counts: Mapping[str, int] | None = None, passages: int = 0) -> "QueryWords":
        """Weigh the words of a query by how many of some passages have them, as search does (`IdfWeights`)."""
        names = frozenset(names_written(query))
        return cls({term: _weight(term, counts or {}, passages, names) for term in telling_terms(query)})

    def similarity(self, text: str) -> float:
        """Bring the share of the weights that a text has to the scale.

        What search takes for relevant is `RELATED`: the longer a query, the smaller the share of it that an answer
        repeats.
        """
        total = sum(self.weights.values())
        if not total:
            return 0.0
        terms = frozenset(index_text(text).split())
        share = sum(weight for term, weight in self.weights.items() if term in terms) / total
        related = TUNING.min_coverage / sqrt(len(self.weights.keys() - _COMMON_TERMS) or len(self.weights))
        if share < related:
            return RELATED * share / related
        return RELATED + (1 - RELATED) * (share - related) / (1 - related)


def _weight(term: str, counts: Mapping[str, int], passages: int, names: frozenset[str]) -> float:
    unknown = max(_UNKNOWN, log2(2 + passages) / log2(2 + MOST_COUNTED))
    weight = 1 / log2(2 + counts[term]) if term in counts else unknown
    if term in names:
        return _NAME * weight
    return min(weight, _COMMON) if term in _COMMON_TERMS else weight


def similarity(words: QueryWords, text: str, cosine: float | None, *, unrelated_below: float) -> float:
    """Return how similar a text is to a query: by meaning, if its cosine is known, or by words."""
    by_meaning = 0.0 if cosine is None else of_cosine(cosine, unrelated_below=unrelated_below)
    return by_meaning if by_meaning == 1 else max(by_meaning, words.similarity(text))
