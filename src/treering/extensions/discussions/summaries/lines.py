"""Line-based operations on texts: three-way merge, and preserving the lines that a person wrote."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from treering.core.evidence import changed_stretches


def merge_lines(base: str, mine: str, theirs: str) -> str:
    """Return `base` with the changes of both.

    If both changed the same lines differently, both versions are included: first the lines of `mine`, then the lines
    that only `theirs` has.
    """
    lines = base.splitlines()
    changes = [*_changes(lines, mine.splitlines(), 0), *_changes(lines, theirs.splitlines(), 1)]
    merged: list[str] = []
    at = 0
    for start, end, group in _groups(sorted(changes)):
        merged += lines[at:start]
        merged += _merged_group(lines, start, end, group)
        at = end
    return "\n".join([*merged, *lines[at:]])


def added_lines(base: str, text: str) -> list[str]:
    """Return the distinct lines of `text` that are not in `base`, without surrounding white space."""
    known = set(nonblank_lines(base))
    return [line for line in dict.fromkeys(nonblank_lines(text)) if line not in known]


def nonblank_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without surrounding white space."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def with_manual_lines(text: str, earlier: str, *, written: Iterable[str], struck: Iterable[str]) -> str:
    """Return a text with the lines that a person added, and without the lines that a person deleted.

    A missing line returns below its heading in the `earlier` text, or at the end if there is no such heading.
    """
    manual = list(written)
    gone = set(struck) - set(manual)
    lines = [line for line in text.splitlines() if line.strip() not in gone]
    bare = [line.strip() for line in lines]
    known = set(bare)
    places = _headings(earlier)
    for line in sorted((line for line in manual if line not in known), key=_place_in(earlier)):
        place = _end_of_section(bare, places.get(line, ""))
        lines.insert(place, line)
        bare.insert(place, line.strip())
    return "\n".join(lines).strip()


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    """The lines `start` to `end` of the base are replaced; `side` is 0 for mine, 1 for theirs."""

    start: int
    end: int
    side: int
    lines: tuple[str, ...]


def _changes(base: Sequence[str], text: Sequence[str], side: int) -> Iterator[_Change]:
    for start, end, first, last in changed_stretches(base, text):
        yield _Change(start, end, side, tuple(text[first:last]))


def _groups(changes: Sequence[_Change]) -> Iterator[tuple[int, int, list[_Change]]]:
    """Group changes that affect the same lines, or insert at the same position."""
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


def _merged_group(base: Sequence[str], start: int, end: int, group: Sequence[_Change]) -> list[str]:
    mine, theirs = (_version(base, start, end, [change for change in group if change.side == side]) for side in (0, 1))
    if all(change.side == 0 for change in group):
        return mine
    if all(change.side == 1 for change in group):
        return theirs
    known = {*mine, *base[start:end]}
    return [*mine, *(line for line in theirs if line not in known)]


def _version(base: Sequence[str], start: int, end: int, changes: Sequence[_Change]) -> list[str]:
    """Return the lines `start` to `end` of the base with the changes of one side."""
    lines: list[str] = []
    for change in changes:
        lines += [*base[start : change.start], *change.lines]
        start = change.end
    return [*lines, *base[start:end]]


def _headings(text: str) -> dict[str, str]:
    """Return the heading above each line of a document; the first occurrence of a line counts."""
    headings: dict[str, str] = {}
    heading = ""
    for line in nonblank_lines(text):
        headings.setdefault(line, heading)
        heading = line if line.startswith("#") else heading
    return headings


def _place_in(text: str) -> Callable[[str], int]:
    """Return a sort key for the order of lines in a text; unknown lines come last."""
    places = {line: at for at, line in reversed(list(enumerate(nonblank_lines(text))))}
    return lambda line: places.get(line, len(places))


def _end_of_section(bare: Sequence[str], heading: str) -> int:
    """Return the index after the last line below a heading; the end if there is no such heading."""
    start = bare.index(heading) + 1 if heading in bare else len(bare) if heading else 0
    end = next((at for at in range(start, len(bare)) if bare[at].startswith("#")), len(bare)) if heading else len(bare)
    while end > start and not bare[end - 1]:
        end -= 1
    return end
