"""Merging two changes of one text by lines. Nothing that either of them added is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


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
    known = set(bare_lines(base))
    return [line for line in dict.fromkeys(bare_lines(text)) if line not in known]


def bare_lines(text: str) -> list[str]:
    """Return the lines of a text that say something, without white space around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    """The lines `start` to `end` of the base give way to others; `side` is 0 for mine, 1 for theirs."""

    start: int
    end: int
    side: int
    lines: tuple[str, ...]


def _changes(base: Sequence[str], text: Sequence[str], side: int) -> Iterator[_Change]:
    for tag, start, end, first, last in SequenceMatcher(None, base, text, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Change(start, end, side, tuple(text[first:last]))


def _groups(changes: Sequence[_Change]) -> Iterator[tuple[int, int, list[_Change]]]:
    """Put together changes that touch the same lines, or add at the same place."""
    group: list[_Change] = []
    for change in changes:
        end = max((known.end for known in group), default=-1)
        same_place = bool(group) and change.start == change.end == end == group[0].start
        if group and change.start >= end and not same_place:
            yield group[0].start, end, group
            group = []
        group.append(change)
    if group:
        yield group[0].start, max(change.end for change in group), group


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
