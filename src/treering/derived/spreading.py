"""Spreading what is found over its sources: of one page the first passages say most of what it has to say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from treering.core.locator import Turn
from treering.derived.retrieval import Hit

FURTHER_WEIGHT = 0.8
"""What a passage counts for beside one of the same source above it; beside two this much again."""


def spread_over_sources(hits: Sequence[Hit]) -> list[Hit]:
    """Rank again, every further passage of a source behind what it would count for as the first one.

    Turns stay where they are: a conversation is one source, and its turns are as many things.
    """
    before: Counter[str] = Counter()
    spread = []
    for hit in hits:
        spread.append(replace(hit, score=hit.score * FURTHER_WEIGHT ** before[hit.head.object_id]))
        before[hit.head.object_id] += not isinstance(hit.locator, Turn)
    return sorted(spread, key=lambda hit: -hit.score)
