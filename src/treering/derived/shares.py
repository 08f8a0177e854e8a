"""How much of what a passage is called, or tells of, is asked for: what a place and days score, in every store."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from treering.derived.passages import days_of
from treering.derived.projection import places_of
from treering.ports.passages import AskedDays, Passage

SHORTEST = 2
"""Characters of the end of a name that say anything."""

_DAY = timedelta(days=1)


def place_share(passage: Passage, text: str) -> float:
    """Return how much of an id, or at the end of an origin, title or heading, `text` is: 1 for the whole of it.

    A piece that begins inside a word counts half.
    """
    if text and text in {passage.object_id, passage.part}:
        return 1.0
    return name_share(places_of(passage), text)


def name_share(names: Iterable[str], text: str) -> float:
    """Return how much of a name, at its end, `text` is; of several names the best counts."""
    wanted = text.casefold()
    if len(wanted) < SHORTEST:
        return 0.0
    return max((_share(wanted, name.casefold()) for name in names), default=0.0)


def day_share(passage: Passage, asked: Sequence[AskedDays]) -> float:
    """Return how much of a period that a turn tells of is asked for, times its weight; the best counts."""
    shares = (
        days.weight * (min(last, days.last) - max(first, days.first) + _DAY) / (last - first + _DAY)
        for first, last in (days_of(passage) if asked else ())
        for days in asked
    )
    return max((share for share in shares if share > 0), default=0.0)


def _share(wanted: str, name: str) -> float:
    if not name.endswith(wanted):
        return 0.0
    before = name[: -len(wanted)]
    is_inside = bool(before) and before[-1].isalnum() and wanted[0].isalnum()
    return len(wanted) / len(name) / (2 if is_inside else 1)
