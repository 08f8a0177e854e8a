"""Secrets in text: found by their shape, replaced by what kind they were.

`core.secrets.shapes` knows what the keys of services look like, `core.secrets.places` where passwords stand. Every
pattern is bounded or possessive, so that no text makes it slow, and tried only where a literal it needs occurs.
"""

import re
import string
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from re import ASCII

from treering.core.secrets.places import BY_PLACE, MARK, may_hold_placed, placed_secrets
from treering.core.secrets.shapes import ESCAPE, SHAPES, Inner, Shape


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


# Looking for secrets told by their own shape: first where one may begin, which costs little, then for all of it.


def may_hold_shaped(text: str) -> bool:
    """Tell whether a text has a run of characters that is long and dense enough for a secret of any shape."""
    return _SHORTEST in _encoded(text).translate(_MARKS)


def shaped_secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Return start, end and kind of the secrets told by their own shape."""
    # Most of a text is short words, which hold no secret. The rest holds each secret whole, and what stands around a
    # run is as little part of a word as the ends of a line are: so a shape that is not found there is not in the text.
    dense = _dense(text)
    for shape in _candidates(dense) if dense else ():
        if next(shape.found_in(dense), None):
            for start, end in shape.found_in(text):
                yield start, end, shape.kind


def _dense(text: str) -> str:
    """Return the different runs that a secret may be part of, each on a line below the first, which is empty."""
    data = _encoded(text)
    runs = {data[run.start() : run.end()] for run in _RUN.finditer(data.translate(_MARKS))}
    return b"\n".join([b"", *runs]).decode("ascii")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _candidates(dense: str) -> Iterator[Shape | Inner]:
    """Return the shapes that something in dense runs begins like, and those that are not told by their beginning."""
    begins = {
        *_beginnings(_NO_WORD).findall(dense),
        *(_beginnings(_ESCAPED).findall(dense) if _may_escape(dense) else ()),
    }
    yield from dict.fromkeys(shape for begin in begins for shape in _SHAPES_BY_BEGINNING[begin])
    yield from _INNER


def _may_escape(dense: str) -> bool:
    return "\\" in dense or "%" in dense


@cache
def _beginnings(before: str) -> re.Pattern[str]:
    """Return the pattern of the places right behind `before` where a shape may begin."""
    # By their first letter, so that most of them are not tried at a place.
    by_letter = groupby(_SHAPES_BY_BEGINNING, key=lambda beginning: beginning[0])
    rests = {letter: "|".join(re.escape(word[1:]) for word in words) for letter, words in by_letter}
    return re.compile(f"{before}(?=({'|'.join(f'{letter}(?:{rest})' for letter, rest in rests.items())}))", ASCII)


def _by_beginning() -> Mapping[str, Sequence[Shape]]:
    """Return the shapes by what their secrets begin with, in order; a beginning stands for the longer ones, too."""
    starts = [(start, shape) for shape in SHAPES if isinstance(shape, Shape) for start in shape.starts]
    shapes: dict[str, list[Shape]] = {}
    beginning = None
    for start, shape in sorted(starts, key=lambda one: one[0]):
        if beginning is None or not start.startswith(beginning):
            beginning = start
        shapes.setdefault(beginning, []).append(shape)
    return shapes


_SHAPES_BY_BEGINNING = _by_beginning()

_INNER = tuple(shape for shape in SHAPES if isinstance(shape, Inner))

_NO_WORD = r"[^\w\-]"
_ESCAPED = f"(?:{ESCAPE})"

_TAKEN = frozenset((string.ascii_letters + string.digits + "_-./+=:~%$|@?&;\\").encode())
"""What any secret of a shape is part of a run of: no shape takes another character."""

_MARKS = bytes(ord("a") if byte in _TAKEN else ord(" ") for byte in range(256))
_SHORTEST = b"a" * 16
"""No shape takes fewer characters."""

_RUN = re.compile(_SHORTEST + b"a*+")
