"""A source file cut into segments: every line that is not blank in exactly one, in the order of the file.

Cuts follow the outline: a header, then one segment per function or method and one for the head of each
class. Very small neighbours share a segment, and what is longer than the limit is cut where it is least nested.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

from treering.core.evidence import Definition
from treering.core.locator import Lines
from treering.edges.sources.code.gist import gist_of, gist_of_part
from treering.edges.sources.code.outline import LONGEST_LINE, CodeOutline
from treering.edges.sources.code.stretches import FileLines, LineRange, joined, parts, stretches
from treering.edges.sources.code.uses import uses_between
from treering.ports.adapter import Role, SegmentDraft

_MOST_NAMES = 6
_MOST_DEFINITIONS = 64
_MOST_USES = 200
"""Things used that are kept of one segment."""


def segment_code(
    path: str, text: str, found: CodeOutline | None, *, commit: str | None, max_chars: int
) -> list[SegmentDraft]:
    """Cut a file, whose outline is `found`, into segments of at most `max_chars` characters.

    A single line longer than `max_chars` stays whole. A file without an outline is cut as plain lines.
    A segment's text is its lines joined by a line feed: a carriage return at the end of a line is left out.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    page = FileLines(lines, [0, *accumulate(len(line) + 1 for line in lines)])
    file = _File(path, commit, page, found, frozenset(found.public if found else ()), _members(found))
    drafts: list[SegmentDraft] = []
    for stretch in joined(page, stretches(page, found.symbols if found else ()), max_chars):
        drafts += _drafts(file, stretch, max_chars)
    return drafts


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    commit: str | None
    page: FileLines
    found: CodeOutline | None
    public: frozenset[str]
    members: Mapping[str, Sequence[str]]


def _members(found: CodeOutline | None) -> dict[str, list[str]]:
    members: dict[str, list[str]] = {}
    for symbol in found.symbols if found else ():
        if symbol.parent:
            members.setdefault(symbol.parent, []).append(symbol.name)
    return members


def _drafts(file: _File, stretch: LineRange, max_chars: int) -> Iterator[SegmentDraft]:
    pieces = parts(file.page, stretch.start, stretch.end, max_chars)
    name = _heading(file, stretch)
    for number, (start, end) in enumerate(pieces, 1):
        heading = f"{name} (part {number})" if len(pieces) > 1 else name
        text = file.page.text(start, end)
        yield SegmentDraft(
            locator=Lines(path=file.path, start=start, end=end, commit=file.commit, heading=heading),
            text=text,
            heading=heading,
            role=_role(file, stretch, text) if number == 1 else _plain_role(text),
            gist=_gist(file, stretch, text) if number == 1 else gist_of_part(file.path, heading, text),
            definitions=_definitions(file, start, end),
            uses=uses_between(file.found.uses if file.found else (), start, end, _MOST_USES),
        )


def _definitions(file: _File, start: int, end: int) -> tuple[Definition, ...]:
    """Return the definitions that lie within some lines and hold no other there, unless one of them fills all."""
    inside = [one for one in (file.found.symbols if file.found else ()) if start <= one.start and one.end <= end]
    holders = {one.parent for one in inside}
    found = [one for one in inside if one.qualified not in holders][:_MOST_DEFINITIONS]
    named = (Definition(name=one.qualified, first=one.start - start + 1, last=one.end - start + 1) for one in found)
    return () if any((one.start, one.end) == (start, end) for one in found) else tuple(named)


def _heading(file: _File, stretch: LineRange) -> str:
    names = list(dict.fromkeys(symbol.qualified for symbol in stretch.symbols))
    if not names:
        return stretch.owner or PurePosixPath(file.path).name
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _gist(file: _File, stretch: LineRange, text: str) -> str:
    if len(text) > LONGEST_LINE and _plain_role(text) == "data":
        return gist_of_part(file.path, _heading(file, stretch), "")
    return gist_of(file.path, stretch.symbols, file.members, doc=_module_doc(file, stretch), text=text)


def _role(file: _File, stretch: LineRange, text: str) -> Role:
    """Tell whether names and docs here are worth embedding early. Tests are found by their words."""
    told = any(
        symbol.doc or (symbol.qualified in file.public and not symbol.name.lower().startswith("test"))
        for symbol in stretch.symbols
    )
    return "symbol" if told or _module_doc(file, stretch) else _plain_role(text)


def _plain_role(text: str) -> Role:
    return "data" if len(text) > LONGEST_LINE and max(map(len, text.split("\n"))) > LONGEST_LINE else "code"


def _module_doc(file: _File, stretch: LineRange) -> str:
    return file.found.module_doc if file.found and stretch.header else ""
