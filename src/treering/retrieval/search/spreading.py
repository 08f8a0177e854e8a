"""Spread the passages of a ranking over their sources."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from treering.core.evidence import Turn
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.tuning import TUNING


def spread_over_sources(hits: Sequence[Hit]) -> list[Hit]:
    """Rank again, with a lower score for every further passage of a source.

    Turns are separate statements, so their scores do not change.
    """
    before: Counter[str] = Counter()
    spread = []
    for hit in hits:
        further = before[hit.head.object_id]
        spread.append(replace(hit, score=hit.score * TUNING.candidates.further_weight**further) if further else hit)
        before[hit.head.object_id] += not isinstance(hit.locator, Turn)
    return sorted(spread, key=lambda hit: -hit.score)
