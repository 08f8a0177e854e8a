"""How like a memory is to a query, on one scale from 0 to 1 for every embedder.

0.7 means: as near as the embedder can tell from chance (`Embedder.unrelated_below`), or half of the query's words
stand in it. What both say counts by the better of the two.
"""

from collections.abc import Collection
from math import sqrt

from treering.derived.analysis import index_text
from treering.derived.fusion import VECTORS, Fused

RELATED = 0.7
_SURE = 0.6
"""So far on the way from chance to identity, a text is as like as can be."""
_FAR = 0.5
"""So far below chance, relative to the way above it, a text has nothing in common."""


def of_cosine(cosine: float, *, unrelated_below: float) -> float:
    """Bring a cosine to the scale: `unrelated_below`, which belongs to the embedder, is 0.7."""
    room = max(1.0 - unrelated_below, 1e-6)
    above = (cosine - unrelated_below) / room
    if above >= 0:
        return RELATED + (1 - RELATED) * min(1.0, above / _SURE)
    return RELATED * max(0.0, 1 + above / _FAR)


def of_words(sought: Collection[str], text: str) -> float:
    """Bring the part of a query's words that stand in a text to the scale: half of them are 0.7."""
    if not sought:
        return 0.0
    return sqrt(len(frozenset(sought).intersection(index_text(text).split())) / len(sought))


def similarity(sought: Collection[str], text: str, fused: Fused, *, unrelated_below: float) -> float:
    """Tell how like a text is to a query that found it. `sought`: the words of the query that tell."""
    near = fused.parts.get(VECTORS)
    by_meaning = of_cosine(near.raw, unrelated_below=unrelated_below) if near else 0.0
    return by_meaning if by_meaning == 1 else max(by_meaning, of_words(sought, text))
