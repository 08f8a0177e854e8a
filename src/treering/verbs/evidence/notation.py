"""The ways to write down a place as evidence: `src/retry.py:10-14`, a symbol, a citation, a quoted sentence."""

import re
from dataclasses import dataclass

from treering.core.errors import InvalidInput

NOTATIONS = 'path:10-14 or "a quoted sentence" (all forms: treering decide --help)'
"""The most common ways, for error messages."""
MAX_CHARS = 4_000
"""Characters of one piece of evidence: as long as a path may be, and longer than a sentence."""
_PASSAGE = re.compile(r"(src:[^\s#]+)[\s#]+(seg_\S+)")
_LINES = re.compile(
    r"(?P<path>.+?)(?:#L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?|:(?P<from>\d{1,9})(?:-(?P<to>\d{1,9}))?)"
    r"(?:\s*@\s*(?P<commit>[0-9a-f]{7,40}))?"
)
_SYMBOL = re.compile(r"(?P<path>[^\s:]+)::(?P<symbol>\S+)")
_TURN = re.compile(r"(?P<name>\S+)#(?P<turn>\d{1,9})")
_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "`": "`"}
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PassageOf:
    """One segment, by ids."""

    source_id: str
    segment_id: str


@dataclass(frozen=True, slots=True)
class LinesOf:
    """Lines `first` to `last` of a file, counted from 1; as they were at `commit` if the notation names one."""

    path: str
    first: int
    last: int
    commit: str = ""


@dataclass(frozen=True, slots=True)
class SymbolOf:
    """A definition in a file, by its name or the end of its qualified name."""

    path: str
    symbol: str


@dataclass(frozen=True, slots=True)
class SourceCalled:
    """A whole source: a path, an address, an origin such as `ticket:123`, or an id; or one turn of a conversation."""

    name: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """Words that only one place contains."""

    words: str


Notation = PassageOf | LinesOf | SymbolOf | SourceCalled | Quote


def read_notation(text: str) -> Notation:
    """Read what a caller wrote as evidence.

    Raises `InvalidInput` for an empty text, for one of more than `MAX_CHARS` and for lines that cannot exist.
    """
    given = text.strip()
    if len(given) > MAX_CHARS:
        raise InvalidInput(
            f"The evidence {given[:40]!r}… has {len(given):,} characters; {MAX_CHARS:,} are allowed.",
            hint="Quote one sentence that no other place contains.",
        )
    if not given:
        raise InvalidInput("The evidence is an empty text.", hint=f"Give {NOTATIONS}.")
    if match := _PASSAGE.fullmatch(given):
        return PassageOf(match[1], match[2])
    if len(given) > 1 and _QUOTES.get(given[0]) == given[-1]:
        return Quote(given[1:-1].strip())
    if match := _LINES.fullmatch(given):
        return _lines(match, given)
    if match := _SYMBOL.fullmatch(given):
        return SymbolOf(match["path"], match["symbol"].replace("::", "."))
    if match := _TURN.fullmatch(given):
        return SourceCalled(match["name"], int(match["turn"]))
    return SourceCalled(given)


def _lines(match: re.Match[str], given: str) -> Notation:
    first = int(match["first"] or match["from"])
    last = int(match["last"] or match["to"] or first)
    if _ADDRESS.match(match["path"]) and not match["first"]:
        return SourceCalled(given)  # the number behind the colon is a port
    if not 1 <= first <= last and match["from"] and not {".", "/"} & {*match["path"]}:
        return SourceCalled(given)  # an origin such as `ticket:0` or `minutes:2026-11`
    if not 1 <= first <= last:
        raise InvalidInput(
            f"{given} has no lines: they are counted from 1, and the last one may not be before the first.",
            hint=f"For example: {match['path']}:{max(1, min(first, last))}-{max(1, first, last)}",
        )
    return LinesOf(match["path"], first, last, match["commit"] or "")
