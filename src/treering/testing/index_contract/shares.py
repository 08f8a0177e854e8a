"""The scores of passages by place and by day, which every index computes in its own way."""

from collections.abc import Sequence
from datetime import timedelta

from treering.ports.passages import AskedDays, Passage
from treering.retrieval.index.passages import days_of
from treering.retrieval.index.projection import places_of
from treering.retrieval.search.fusion import name_share

_DAY = timedelta(days=1)


def place_share(passage: Passage, text: str) -> float:
    """Return the share of an id, or of the end of an origin, title or heading, that `text` is; 1 for all of it.

    A text that begins inside a word counts half.
    """
    if text and text in {passage.object_id, passage.part}:
        return 1.0
    return name_share(places_of(passage), text)


def day_share(passage: Passage, asked: Sequence[AskedDays]) -> float:
    """Return the share of a period in a turn that a question asks for, times its weight; the best of several."""
    shares = (
        days.weight * (min(last, days.last) - max(first, days.first) + _DAY) / (last - first + _DAY)
        for first, last in (days_of(passage) if asked else ())
        for days in asked
    )
    return max((share for share in shares if share > 0), default=0.0)
