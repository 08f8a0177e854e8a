"""Secrets in text: found by their shape, replaced by what kind they were.

`core.secret_shapes` knows what the keys of services look like, and `core.secret_search` looks for them;
`core.secret_places` knows where passwords stand. Every pattern is bounded or possessive, so that no text makes it slow,
and tried only where a literal it needs occurs.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from treering.core.secret_places import BY_PLACE, MARK, may_hold_placed, placed_secrets
from treering.core.secret_search import may_hold_shaped, shaped_secrets


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret that was found: its kind and the line (1-based) it starts on; never the secret."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and what was taken out, by line."""

    text: str
    findings: tuple[SecretFinding, ...] = ()


def redact(text: str) -> Redacted:
    """Replace each secret in `text` by `[redacted:kind]`; lines keep their number.

    Redacting the result again changes nothing.
    """
    if not (may_hold_placed(text) or may_hold_shaped(text)):
        return Redacted(text)
    findings: list[SecretFinding] = []
    # What one secret hid from the patterns (its end was not a word boundary) may show once it is gone.
    while spans := _merged(sorted(_spans(text))):
        findings.extend(_findings(text, spans))
        text = _without(text, spans)
    return Redacted(text, tuple(sorted(findings, key=lambda finding: (finding.line, finding.kind))))


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    start: int
    end: int
    kind: str


def _spans(text: str) -> Iterator[_Span]:
    for start, end, kind in chain(shaped_secrets(text), placed_secrets(text)):
        yield _Span(start, end, kind)


def _merged(spans: list[_Span]) -> list[_Span]:
    """Join overlapping spans under the kind of the first, or the first told by its own shape."""
    joined: list[_Span] = []
    for span in spans:
        if joined and span.start < joined[-1].end:
            last = joined[-1]
            kind = span.kind if last.kind in BY_PLACE else last.kind
            joined[-1] = _Span(last.start, max(last.end, span.end), kind)
        else:
            joined.append(span)
    return joined


def _findings(text: str, spans: list[_Span]) -> Iterator[SecretFinding]:
    ends = [match.start() for match in re.finditer("\n", text)]
    for span in spans:
        yield SecretFinding(span.kind, bisect_left(ends, span.start) + 1)


def _without(text: str, spans: list[_Span]) -> str:
    parts = []
    at = 0
    for span in spans:
        kept_lines = "\n" * text.count("\n", span.start, span.end)
        parts += [text[at : span.start], f"{MARK}{span.kind}]", kept_lines]
        at = span.end
    return "".join([*parts, text[at:]])
