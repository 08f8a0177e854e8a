"""Marks around recalled text: a model reads it as data, and it is never ingested again as new memory.

The closing marker carries a hash of what stands between the markers. Text inside cannot close the fence early:
whatever could be read as a marker in it is rewritten (`core.markers`), and its own hash is nothing a text can contain.
"""

import re
from collections.abc import Sequence

from treering.core.canonical import digest, normalise_text
from treering.core.characters import unmarked, visible
from treering.core.markers import without_markers

_START = "<<treering:"
_OPENING = re.compile(r'<<treering:recalled origin="([^"\n]{0,600})" ([0-9a-f]{16})>>')
_MARK = re.compile(rf"{_OPENING.pattern}|<<treering:(?:end ([0-9a-f]{{16}})>>)?")
_ORIGIN_CHARS = 200
_NESTED = 4


def fence(text: str, *, origin: str) -> str:
    """Wrap recalled text as data for a model, naming where it comes from.

    A reader may change the white space inside without breaking the fence, and a terminal shows it as it is: controls
    inside are written out. Marker-like text inside is kept readable but rewritten, so fencing a fenced text again
    leaves one complete fence: the outer one.
    """
    inner = visible(without_markers(text))
    key = _key(inner)
    name = unmarked(origin, most=_ORIGIN_CHARS)
    return f'{_START}recalled origin="{name}" {key}>>\n{inner}\n{_START}end {key}>>'


def is_fenced(text: str) -> bool:
    """Tell whether `text` may hold a fence at all; cheap."""
    return _START in text


def without_recalled(text: str) -> tuple[str, int]:
    """Return `text` without its complete fences, and how many were taken out.

    A fence whose content was changed, or whose end is missing, is left alone: it holds something new. What is left
    holds no complete fence, not even one that the parts around another one would make. `fence` nests no fence in
    another: where somebody did, many times over, the markers that are left are rewritten instead of taking the square
    of the length.
    """
    taken = 0
    for _ in range(_NESTED):
        spans = recalled_spans(text)
        if not spans:
            return text, taken
        text = cut(text, spans)
        taken += len(spans)
    return (without_markers(text) if recalled_spans(text) else text), taken


def recalled_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each complete fence in `text`, in order.

    No fence holds a marker: the next one after an opening is its end, or the fence is not complete. So each stretch
    of a text is hashed once, whatever markers somebody has written into it.
    """
    spans: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if opening and mark[3] == opening[2] and _key(text[opening.end() : mark.start()]) == opening[2]:
            spans.append((opening.start(), mark.end()))
        opening = mark if mark[2] else None
    return spans


def cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return `text` without the stretches `spans`, which are in order and do not overlap."""
    parts, at = [], 0
    for start, end in spans:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])


def _key(inner: str) -> str:
    return digest(normalise_text(inner))[:16]
