"""How similar a memory is to a query, on one scale from 0 to 1 for every embedder: by meaning, and by words."""

from treering.retrieval.search.relevance import relevance_of
from treering.retrieval.tuning import TUNING

_RELEVANCE = TUNING.relevance

RELATED = 0.7
"""The similarity from which on a text is related to a query, and not only the nearest there is."""
_SURE = 0.6
"""So far on the way from chance to identity, a text is as like as can be."""
_FAR = 0.5
"""So far below chance, relative to the way above it, a text has nothing in common."""


def of_cosine(cosine: float, *, unrelated_below: float) -> float:
    """Bring a cosine to the scale: `unrelated_below`, which belongs to the embedder, is `RELATED`."""
    room = max(1.0 - unrelated_below, 1e-6)
    above = (cosine - unrelated_below) / room
    if above >= 0:
        return RELATED + (1 - RELATED) * min(1.0, above / _SURE)
    return RELATED * max(0.0, 1 + above / _FAR)


def of_relevance(near: float | None, coverage: float) -> float:
    """Bring a relevance (`relevance_of`) to the scale: the least that answers in a small space is `RELATED`.

    `near`: `None` for a text that has no vector; without a word of the query it has nothing in common with it.
    """
    above = relevance_of(_RELEVANCE.nearness_unknown if near is None else near, coverage) - _RELEVANCE.min_relevance
    if above >= 0:
        return RELATED + (1 - RELATED) * min(1.0, above / (_SURE - _RELEVANCE.min_relevance))
    return RELATED * max(0.0, 1 + above / (_RELEVANCE.min_relevance - _RELEVANCE.nearness_unknown))
