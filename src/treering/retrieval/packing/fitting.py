"""Fit items and notes into the token budget of a context pack."""

from collections.abc import Sequence

from treering.retrieval import limits
from treering.retrieval.packing.notes import PackNotes
from treering.retrieval.search.pack_budget import Packed, UnnumberedItem, pack
from treering.retrieval.search.packing import ContextPack, render, shortened
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.retrieval.tuning import TUNING


def fit(
    empty: ContextPack, packed: Packed, items: Sequence[UnnumberedItem], notes: PackNotes, *, max_tokens: int
) -> tuple[ContextPack, str, tuple[str, ...]]:
    """Fill an `empty` pack with items and notes; return it, its text, and the omitted places.

    `packed` contains the items that fit without notes. Notes depend on the items and take part of the budget, so the
    items are packed again into the room that the notes leave.
    """
    if notes.results.answers:
        sections = len({item.section for item in packed.unnumbered})
        frame = _frame_tokens(_filled(empty, packed, notes), max_tokens)
        packed = pack(items, max_tokens=max_tokens, around=frame + sections * limits.FRAME_TOKENS)
    filled, text, dropped = shortened(_filled(empty, packed, notes), max_tokens)
    left_out = (*dropped, *(f"{one.item.object_id} {one.item.segment_id}".strip() for one in packed.left_out))
    text = cut_to_tokens(text, max_tokens)
    budget = {"max_tokens": max_tokens, "used_tokens": estimate_tokens(text), "left_out": len(left_out)}
    return filled.model_copy(update={"budget": budget}), text, left_out


def _filled(empty: ContextPack, packed: Packed, notes: PackNotes) -> ContextPack:
    items = {"items": packed.items, "citations": packed.citations}
    return empty.model_copy(update={**items, **notes.of(packed)})


def _frame_tokens(filled: ContextPack, max_tokens: int) -> int:
    """Return the tokens of a pack without its items; optional notes count only up to their share of the budget."""
    frame = filled.model_copy(update={"items": ()})
    needed = estimate_tokens(render(frame.model_copy(update={"may_break": (), "recommended_next_reads": ()})))
    return min(estimate_tokens(render(frame)), needed + int(max_tokens * TUNING.packing.helpful_share))
