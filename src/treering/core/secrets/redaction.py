"""Redaction of secrets in text: each is replaced by a mark with its kind.

`core.secrets.shapes` knows the formats of keys of services, `core.secrets.places` the places of passwords. Every
pattern is bounded or possessive, so that no text makes it slow, and only tried at a literal it requires.
"""

import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from re import ASCII
from types import MappingProxyType

from treering.core.secrets.places import BY_PLACE, MARK, may_hold_placed, placed_secrets
from treering.core.secrets.shapes import ESCAPE, SHAPES, Inner, Shape

NO_VALUES: Mapping[str, str] = MappingProxyType({})
_MIN_REPEATED = 8


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret: its kind and the line (1-based) it starts on; never the secret itself."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the secrets by line."""

    text: str
    findings: tuple[SecretFinding, ...] = ()


def redact(text: str, repeated: Mapping[str, str] = NO_VALUES) -> Redacted:
    """Replace each secret in `text` by `[redacted:kind]`, without changing line numbers.

    `repeated`: secrets of other texts (`repeatable_secrets`), which are replaced wherever they occur. Redacting the
    result again changes nothing.
    """
    if not (may_hold_placed(text) or may_hold_shaped(text) or any(value in text for value in repeated)):
        return Redacted(text)
    findings: list[SecretFinding] = []
    # Removing a secret can create a word boundary at which another pattern matches.
    while spans := _merged(sorted(_spans(text, repeated))):
        findings.extend(_findings(text, spans))
        text = _without(text, spans)
    return Redacted(text, tuple(sorted(findings, key=lambda finding: (finding.line, finding.kind))))


def repeatable_secrets(texts: Iterable[str]) -> dict[str, str]:
    """Return the kinds of the secrets that only their place shows, by value: elsewhere no pattern recognizes them.

    Short ones and words without a digit are left out, because a text may contain them for other reasons.
    """
    return {
        value: kind
        for text in texts
        if may_hold_placed(text)
        for start, end, kind in placed_secrets(text)
        if kind in BY_PLACE and len(value := text[start:end]) >= _MIN_REPEATED and not value.isalpha()
    }


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    start: int
    end: int
    kind: str


def _spans(text: str, repeated: Mapping[str, str]) -> Iterator[_Span]:
    for value, kind in repeated.items():
        for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text) if value in text else ():
            yield _Span(*match.span(), kind)
    for start, end, kind in chain(shaped_secrets(text), placed_secrets(text)):
        yield _Span(start, end, kind)


def _merged(spans: list[_Span]) -> list[_Span]:
    """Join overlapping spans under the kind of the first one that is recognized by its shape, or of the first."""
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
        line_feeds = "\n" * text.count("\n", span.start, span.end)
        parts += [text[at : span.start], f"{MARK}{span.kind}]", line_feeds]
        at = span.end
    return "".join([*parts, text[at:]])


def may_hold_shaped(text: str) -> bool:
    """Return whether a text contains a run of characters long and dense enough for a secret of any shape."""
    return _SHORTEST in _encoded(text).translate(_MARKS)


def shaped_secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of the secrets recognized by their shape."""
    # Most of a text is short words, which contain no secrets. The dense runs contain every secret completely, and the
    # characters around a run are no part of a word, like line ends. So a shape not found there is not in the text.
    dense = _dense(text)
    for shape in _candidates(dense) if dense else ():
        if next(shape.found_in(dense), None):
            for start, end in shape.found_in(text):
                yield start, end, shape.kind


def _dense(text: str) -> str:
    """Return the distinct runs that a secret may be part of, one per line, after an empty first line."""
    data = _encoded(text)
    runs = {data[run.start() : run.end()] for run in _RUN.finditer(data.translate(_MARKS))}
    return b"\n".join([b"", *runs]).decode("ascii")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _candidates(dense: str) -> Iterator[Shape | Inner]:
    """Yield the shapes that a beginning in dense runs matches, and all shapes without a fixed beginning."""
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
    """Return the pattern of places after `before` at which a shape may begin."""
    # Grouped by first letter, so that few alternatives are tried at each place.
    by_letter = groupby(_SHAPES_BY_BEGINNING, key=lambda beginning: beginning[0])
    rests = {letter: "|".join(re.escape(word[1:]) for word in words) for letter, words in by_letter}
    return re.compile(f"{before}(?=({'|'.join(f'{letter}(?:{rest})' for letter, rest in rests.items())}))", ASCII)


def _by_beginning() -> Mapping[str, Sequence[Shape]]:
    """Return the shapes by their beginnings, in order; a beginning also includes the longer ones it is a prefix of."""
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
"""The characters of the runs that secrets are part of: no shape matches another character."""

_MARKS = bytes(ord("a") if byte in _TAKEN else ord(" ") for byte in range(256))
_SHORTEST = b"a" * 16
"""No shape matches fewer characters."""

_RUN = re.compile(_SHORTEST + b"a*+")
