"""The similarity of a memory to a query, calibrated from 0 to 1 for every embedder."""

from treering.retrieval.search.hit_signals import relevance_of
from treering.retrieval.tuning import TUNING

_CLIENT = TUNING.client
_RELEVANCE = TUNING.relevance


def of_cosine(cosine: float, *, unrelated_below: float) -> float:
    """Calibrate a cosine: `unrelated_below`, a property of the embedder, becomes `related`."""
    room = max(1.0 - unrelated_below, 1e-6)
    above = (cosine - unrelated_below) / room
    if above >= 0:
        return _CLIENT.related + (1 - _CLIENT.related) * min(1.0, above / _CLIENT.same_above)
    return _CLIENT.related * max(0.0, 1 + above / _CLIENT.none_below)


def of_relevance(near: float | None, coverage: float) -> float:
    """Calibrate a relevance (`relevance_of`): the minimum for answers in a small space becomes `related`.

    `near`: `None` for a text without a vector, which is only similar through common words.
    """
    above = relevance_of(_RELEVANCE.nearness_unknown if near is None else near, coverage) - _RELEVANCE.min_relevance
    if above >= 0:
        room = _CLIENT.same_above - _RELEVANCE.min_relevance
        return _CLIENT.related + (1 - _CLIENT.related) * min(1.0, above / room)
    return _CLIENT.related * max(0.0, 1 + above / (_RELEVANCE.min_relevance - _RELEVANCE.nearness_unknown))
