"""A text's heading sections as segments: how paths, small sections and long sections are treated."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from treering.edges.sources.lines import Place, is_blank, pack
from treering.ports.adapter import SegmentDraft


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of depth `level` (1 is the top) on the lines `start` up to `body`, where its text begins."""

    level: int
    name: str
    start: int
    body: int


@dataclass(frozen=True, slots=True)
class MarkupOutline:
    """What a markup's parser found: the headings, the lines where blocks start, the lines before all (`matter`)."""

    lines: Sequence[str]
    headings: Sequence[Heading] = ()
    cuts: Sequence[int] = ()
    matter: int = 0
    """How many lines of front matter the text begins with."""


def section_segments(outline: MarkupOutline, place: Place, *, target: int, most: int) -> list[SegmentDraft]:
    """Return one segment per section, in order.

    A section longer than `target` characters is cut between blocks. Tiny neighbours of one parent share a
    segment. A heading right above its first sub-heading lives on in the heading path alone; every other line
    that is not blank stands in exactly one segment.
    """
    return [
        SegmentDraft(place(piece, name), piece.text, name)
        for section in _grouped(list(_sections(outline)), outline.lines, target)
        for name in [section.title()]
        for piece in pack(outline.lines, outline.cuts, start=section.start, end=section.end, target=target, most=most)
    ]


_TINY = 120
_NAMES_SHOWN = 3
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class _Section:
    parents: tuple[str, ...]
    names: tuple[str, ...]
    start: int
    end: int
    level: int = field(default=0)

    def title(self) -> str:
        more = ("…",) if len(self.names) > _NAMES_SHOWN else ()
        own = " / ".join((*self.names[:_NAMES_SHOWN], *more))
        return " > ".join(part for part in (*self.parents, own) if part)

    def joined(self, other: "_Section") -> "_Section":
        return _Section(self.parents, self.names + other.names, self.start, other.end, self.level)


def _sections(outline: MarkupOutline) -> Iterator[_Section]:
    """Yield the stretch before the first heading, then each heading's own, without those that only hold others."""
    lines, headings = outline.lines, outline.headings
    ends = [*(heading.start for heading in headings), len(lines)]
    if ends[0] > outline.matter:
        yield _Section((), (), outline.matter, ends[0])
    above: list[Heading] = []
    for heading, end, following in zip(headings, ends[1:], [*headings[1:], None], strict=False):
        while above and above[-1].level >= heading.level:
            above.pop()
        holds_others = following is not None and following.level > heading.level
        if not (holds_others and all(map(is_blank, lines[heading.body : end]))):
            parents = tuple(parent.name[:_LONGEST_NAME] for parent in above)
            yield _Section(parents, (heading.name[:_LONGEST_NAME],), heading.start, end, heading.level)
        above.append(heading)


def _grouped(sections: Iterable[_Section], lines: Sequence[str], target: int) -> Iterator[_Section]:
    """Join a tiny section with the next one of the same parent and level."""
    held: _Section | None = None
    for section in sections:
        if held and _may_join(held, section, lines, target):
            held = held.joined(section)
            continue
        if held:
            yield held
        held = section
    if held:
        yield held


def _may_join(first: _Section, then: _Section, lines: Sequence[str], target: int) -> bool:
    siblings = first.level == then.level > 0 and first.parents == then.parents and first.end == then.start
    size = _size(first, lines)
    return siblings and size < _TINY and size + _size(then, lines) <= target


def _size(section: _Section, lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines[section.start : section.end])
