"""Cutting texts so that the pieces, put together, are the text again."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from treering.core.locator import Section
from treering.ports.adapter import SegmentDraft
from treering.ports.segmenter import Segmenter


def lossless(segmenter: Segmenter) -> Segmenter:
    """Let a segmenter cut so that its pieces, put together, are the text again, with the gaps between them."""

    def cut(text: str, *, max_chars: int) -> list[SegmentDraft]:
        pieces = list(segmenter(text, max_chars=max_chars))
        starts = _starts(text, pieces)
        if starts is None:
            return [SegmentDraft(_WHOLE, text[at : at + max_chars]) for at in range(0, len(text), max_chars)]
        ends = [*starts[1:], len(text)]
        return [replace(piece, text=text[start:end]) for piece, start, end in zip(pieces, starts, ends, strict=True)]

    return cut


def _starts(text: str, pieces: Sequence[SegmentDraft]) -> list[int] | None:
    """Find where each piece begins, the first one at 0; `None` where one is not the text's own words."""
    starts, at = [0], 0
    for before, piece in pairwise(pieces):
        at = text.find(piece.text, at + len(before.text))
        if at < 0:
            return None
        starts.append(at)
    return starts if pieces else None


_WHOLE = Section()
