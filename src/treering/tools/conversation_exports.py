"""Two exports of one conversation: which of them is kept, and where they differ."""

from collections.abc import Collection, Sequence

from treering.core.evidence import Segment
from treering.core.locator import Turn
from treering.core.objects import Source
from treering.ports.adapter import SegmentDraft, SourceDraft

AS_OF = "as_of"
"""Metadata of an exported conversation: the time until which the export reaches, as `core.times` writes it."""

SINCE = "since"
"""Metadata of a conversation of which a stretch of time was exported: when that begins, written the same way."""


def is_dated(draft: SourceDraft) -> bool:
    """Tell whether a draft is a conversation with the time until which its export reaches."""
    return draft.kind in _KINDS and bool(_time(draft, AS_OF))


def why_kept(held: Source, draft: SourceDraft) -> str:
    """Say why the conversation that is kept stays as it is; empty where the new export takes its place.

    Neither an older export nor one of a shorter time does: turns would be lost that nobody took back.
    """
    if "" < _time(draft, AS_OF) < _time(held, AS_OF):
        return "it is an older export than the one that is kept"
    if _time(draft, SINCE) > _time(held, SINCE) > "":
        return "it begins later than what is kept: export all of it, or bring it into a scope of its own"
    return ""


def divergence(held: Sequence[Segment], arrived: Sequence[SegmentDraft], *, gone: Collection[str]) -> str:
    """Say at which turn a new export differs from what is kept; empty where it only goes on.

    `gone` are the ids of segments that are nowhere in the new one.
    """
    chains = {place.turn: place.chain for draft in arrived if isinstance(place := draft.locator, Turn)}
    before = {place.turn: place.chain for segment in held if isinstance(place := segment.locator, Turn)}
    parted = [turn for turn, chain in before.items() if chain and chains.get(turn) != chain]
    if not parted:
        return ""
    turns = {
        place.turn for segment in held if segment.segment_id in gone and isinstance(place := segment.locator, Turn)
    }
    return f"diverges at turn {min(parted)}: {len(turns)} turns replaced"


_KINDS = frozenset({"conversation", "meeting_record"})


def _time(item: SourceDraft | Source, name: str) -> str:
    value = item.metadata.get(name)
    return value if isinstance(value, str) else ""
