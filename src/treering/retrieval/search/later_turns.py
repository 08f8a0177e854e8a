"""Raise turns of conversations that come back to what better turns said before them.

People seldom repeat the words of a question when something changes: `I get the 49 to the yard`, later `Goodbye 49, Alex
picks me up`. So the turns found lend a part of their scores to later turns about the same.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from treering.ports.models import Embedder
from treering.retrieval.tuning import TUNING


class SaidTurn(NamedTuple):
    """A turn, when it was said, its place in its conversation, and its score."""

    text: str
    at: datetime
    turn: int
    score: float


def raised_scores(turns: Sequence[SaidTurn], embedder: Embedder) -> list[float]:
    """Return the scores of turns, with what each gains from the earlier ones that it resembles most.

    Vectors are compared with the mean of all removed: turns that answer one question are all alike.
    """
    vectors = embedder.embed_documents([one.text for one in turns])
    apart = vectors - vectors.mean(axis=0)
    apart /= np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    likeness = np.maximum(apart @ apart.T - TUNING.later_turns.unlike, 0)
    order = np.argsort(np.lexsort(([one.turn for one in turns], [one.at.timestamp() for one in turns])))
    scores = np.array([one.score for one in turns])
    lent = likeness * (scores - scores.min())[:, np.newaxis] * (order[:, np.newaxis] < order)
    raised: list[float] = (scores + TUNING.later_turns.share * lent.max(axis=0)).tolist()
    return raised
