"""Texts by their lines: merging two changes of one text so that nothing is lost, and keeping what a person wrote."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from treering.core.evidence import changed_stretches


def merge_lines(base: str, mine: str, theirs: str) -> str:
    """Return `base` with the changes of both.

    Where both changed the same lines in different ways, both stay: those of `mine` first, then those that only
    `theirs` brought.
    """
    lines = base.splitlines()
    changes = [*_changes(lines, mine.splitlines(), 0), *_changes(lines, theirs.splitlines(), 1)]
    merged: list[str] = []
    at = 0
    for start, end, group in _groups(sorted(changes)):
        merged += lines[at:start]
        merged += _settled(lines, start, end, group)
        at = end
    return "\n".join([*merged, *lines[at:]])


def added_lines(base: str, text: str) -> list[str]:
    """Return the lines of `text` that `base` has not, without white space around them, each once."""
    known = set(nonblank_lines(base))
    return [line for line in dict.fromkeys(nonblank_lines(text)) if line not in known]


def nonblank_lines(text: str) -> list[str]:
    """Return the lines of a text that say something, without white space around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def with_manual_lines(text: str, earlier: str, *, written: Iterable[str], struck: Iterable[str]) -> str:
    """Return a text with the lines that a person added, and without the lines that a person deleted.

    A missing line returns below its heading in the `earlier` text, or at the end if there is no such heading.
    """
    wanted = list(written)
    gone = set(struck) - set(wanted)
    lines = [line for line in text.splitlines() if line.strip() not in gone]
    bare = [line.strip() for line in lines]
    known = set(bare)
    places = _headings(earlier)
    for line in sorted((line for line in wanted if line not in known), key=_place_in(earlier)):
        place = _end_of_section(bare, places.get(line, ""))
        lines.insert(place, line)
        bare.insert(place, line.strip())
    return "\n".join(lines).strip()


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    """The lines `start` to `end` of the base give way to others; `side` is 0 for mine, 1 for theirs."""

    start: int
    end: int
    side: int
    lines: tuple[str, ...]


def _changes(base: Sequence[str], text: Sequence[str], side: int) -> Iterator[_Change]:
    for start, end, first, last in changed_stretches(base, text):
        yield _Change(start, end, side, tuple(text[first:last]))


def _groups(changes: Sequence[_Change]) -> Iterator[tuple[int, int, list[_Change]]]:
    """Put together changes that touch the same lines, or add at the same place."""
    group: list[_Change] = []
    end = -1
    for change in changes:
        same_place = bool(group) and change.start == change.end == end == group[0].start
        if group and change.start >= end and not same_place:
            yield group[0].start, end, group
            group, end = [], -1
        group.append(change)
        end = max(end, change.end)
    if group:
        yield group[0].start, end, group


def _settled(base: Sequence[str], start: int, end: int, group: Sequence[_Change]) -> list[str]:
    told = [_told(base, start, end, [change for change in group if change.side == side]) for side in (0, 1)]
    mine, theirs = told
    if all(change.side == 0 for change in group):
        return mine
    if all(change.side == 1 for change in group):
        return theirs
    known = {*mine, *base[start:end]}
    return [*mine, *(line for line in theirs if line not in known)]


def _told(base: Sequence[str], start: int, end: int, changes: Sequence[_Change]) -> list[str]:
    """Return the lines `start` to `end` of the base as one side has them."""
    told: list[str] = []
    for change in changes:
        told += [*base[start : change.start], *change.lines]
        start = change.end
    return [*told, *base[start:end]]


def _headings(text: str) -> dict[str, str]:
    """Return for each line of a document the heading it stands under; the first place counts."""
    found: dict[str, str] = {}
    heading = ""
    for line in nonblank_lines(text):
        found.setdefault(line, heading)
        heading = line if line.startswith("#") else heading
    return found


def _place_in(text: str) -> Callable[[str], int]:
    """Return what sorts lines as they stand in a text; others come last."""
    places = {line: at for at, line in reversed(list(enumerate(nonblank_lines(text))))}
    return lambda line: places.get(line, len(places))


def _end_of_section(bare: Sequence[str], heading: str) -> int:
    """Return the place after the last line under a heading; where there is none, the end."""
    start = bare.index(heading) + 1 if heading in bare else len(bare) if heading else 0
    end = next((at for at in range(start, len(bare)) if bare[at].startswith("#")), len(bare)) if heading else len(bare)
    while end > start and not bare[end - 1]:
        end -= 1
    return end
