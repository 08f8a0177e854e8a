"""Reading the best of what was found again, question and text together, and weighing that beside the ranking so far.

What a cross-encoder says does not replace the ranking: half of the new score is the old one. It was trained on
passages that answer by themselves, and ranks down the first hops of a chain, which share no word with the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treering.ports.clock import Clock
from treering.ports.reranker import Reranker, Scores

MOST_PAIRS = 50
"""Hits that one search may read again: what this costs has to stay bounded."""

SHARE = 0.5
"""What the reranker counts for against the ranking so far."""


@dataclass(frozen=True, slots=True)
class Rereading:
    """How a search reads its best hits again: with what, how many of them, and by which clock it is timed."""

    reranker: Reranker
    pairs: int
    clock: Clock

    def of(self, question: str, hits: Sequence["Reread"]) -> "Rescored":
        """Read the best of `hits` again; return the new scores of those, in the order given."""
        best = hits[: self.pairs]
        began = self.clock.elapsed()
        read = self.reranker.score(question, [hit.text for hit in best])
        seconds = self.clock.elapsed() - began
        placed = _placed(read)
        return Rescored(
            scores=blended(best, placed), read=placed, cost=RereadingCost(self.reranker.model_id, len(best), seconds)
        )

    def not_done(self) -> "RereadingCost":
        """Return the cost of reading nothing again."""
        return RereadingCost(self.reranker.model_id, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Reread:
    """A hit as it is read again. `factor` is what trust takes from it, 1 for nothing; `score` is weighed by it."""

    text: str
    score: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RereadingCost:
    """What reading again cost: pairs of a question and a text; none where it was not done."""

    model_id: str
    pairs: int
    seconds: float

    def told(self) -> dict[str, Any]:
        """Return it as a trace shows it."""
        return {"model": self.model_id, "pairs": self.pairs, "milliseconds": round(1000 * self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class Rescored:
    """The new scores of the hits that were read again, what the reranker said of each (0 to 1), and what it cost."""

    scores: tuple[float, ...]
    read: tuple[float, ...]
    cost: RereadingCost


def blended(hits: Sequence[Reread], read: Sequence[float]) -> tuple[float, ...]:
    """Weigh what the reranker says of each hit (0 to 1) beside its score so far.

    The new scores lie between the lowest and the highest of the old ones, so that these hits stay before the rest.
    What the reranker says counts as far as the hit is trusted: else a text written to please it would come first.
    """
    if not hits:
        return ()
    low, high = min(hit.score for hit in hits), max(hit.score for hit in hits)
    return tuple(
        (1 - SHARE) * hit.score + SHARE * (low + (high - low) * said * hit.factor)
        for hit, said in zip(hits, read, strict=True)
    )


def _placed(scores: Scores) -> tuple[float, ...]:
    """Bring scores to 0..1 between the lowest and the highest; 1 where they are all alike."""
    if not len(scores):
        return ()
    low, high = float(scores.min()), float(scores.max())
    return tuple((float(score) - low) / (high - low) if high > low else 1.0 for score in scores)
