"""Marks around recalled text: a model reads it as data, and it is never ingested again as new memory.

The closing marker carries a hash of what stands between the markers. Text inside cannot close the fence early:
marker-like text in it is broken up, and its own hash is nothing a text can contain.
"""

import re
from collections.abc import Sequence

from treering.core.canonical import digest, normalise_text

_START = "<<treering:"
_FORGED = re.compile(r"<\s{0,9}<(?=[\s/]{0,9}treering\s{0,9}:)", re.IGNORECASE)
_OPENING = re.compile(r'<<treering:recalled origin="([^"\n]{0,300})" ([0-9a-f]{16})>>')
_UNFIT = re.compile(r'[\s"<>]+')
_ORIGIN_CHARS = 200


def fence(text: str, *, origin: str) -> str:
    """Wrap recalled text as data for a model, naming where it comes from.

    A reader may change the white space inside without breaking the fence. Marker-like text inside is kept
    readable but broken up, so fencing a fenced text again leaves one complete fence: the outer one.
    """
    inner = _FORGED.sub("< <", text)
    key = _key(inner)
    name = _UNFIT.sub(" ", origin).strip()[:_ORIGIN_CHARS]
    return f'{_START}recalled origin="{name}" {key}>>\n{inner}\n{_closing(key)}'


def is_fenced(text: str) -> bool:
    """Tell whether `text` may hold a fence at all; cheap."""
    return _START in text


def without_recalled(text: str) -> tuple[str, int]:
    """Give `text` without its complete fences, and how many were taken out.

    A fence whose content was changed, or whose end is missing, is left alone: it holds something new.
    """
    spans = recalled_spans(text)
    return cut(text, spans), len(spans)


def recalled_spans(text: str) -> list[tuple[int, int]]:
    """Give start and end of each complete fence in `text`, in order."""
    spans: list[tuple[int, int]] = []
    opening = _OPENING.search(text)
    while opening:
        end = _end(text, opening)
        if end:
            spans.append((opening.start(), end))
        opening = _OPENING.search(text, end or opening.end())
    return spans


def cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Give `text` without the stretches `spans`, which are in order and do not overlap."""
    parts, at = [], 0
    for start, end in spans:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])


def _end(text: str, opening: re.Match[str]) -> int | None:
    """Find where the fence that starts here ends; `None` where it is not complete."""
    closing = _closing(opening[2])
    at = text.find(closing, opening.end())
    if at < 0 or _key(text[opening.end() : at]) != opening[2]:
        return None
    return at + len(closing)


def _closing(key: str) -> str:
    return f"{_START}end {key}>>"


def _key(inner: str) -> str:
    return digest(normalise_text(inner))[:16]
