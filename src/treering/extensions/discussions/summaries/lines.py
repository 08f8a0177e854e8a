"""Line-based operations on texts: merging edits, and preserving the lines that a person wrote."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from treering.extensions.statements.document import without_notes


def merge_lines(base: str, mine: str, theirs: str) -> str:
    """Return `base` with the changes of both.

    If both changed the same lines differently, both versions are included: first the lines of `mine`.
    """
    if theirs == base:
        return mine
    added, removed = added_lines(base, mine), added_lines(mine, base)
    return with_manual_lines(theirs, mine, written=added, struck=removed, appends=False)


def added_lines(base: str, text: str) -> list[str]:
    """Return the distinct lines of `text` that are not in `base`, without surrounding white space."""
    known = set(_nonblank_lines(base))
    return [line for line in dict.fromkeys(_nonblank_lines(text)) if line not in known]


def with_manual_lines(
    text: str, earlier: str, *, written: Iterable[str], struck: Iterable[str], appends: bool = True
) -> str:
    """Return a text with the lines that a person added, and without the lines that a person deleted.

    A deleted line stays deleted if its notes or some of its statements have changed since. A missing line returns to
    its place in the `earlier` text: next to the same lines, else at the end of its section, with the heading if it is
    missing too. `appends`: the last line of a section returns behind newer lines.
    """
    manual = list(written)
    is_struck = _struck_test(set(struck) - set(manual))
    lines = [line for line in text.splitlines() if line.strip() in manual or not is_struck(line.strip())]
    bare = [line.strip() for line in lines]
    places = _places(earlier)
    missing = set(manual).difference(bare)
    unplaced = (line for line in manual if line not in places)
    for line in dict.fromkeys([*places, *unplaced]):
        if line in missing:
            place = places.get(line, _LinePlace())
            at = _index_of(bare, place, appends=appends)
            has_heading = at is not None or not place.heading or _is_heading(line) or is_struck(place.heading)
            new = [line] if has_heading else ["", place.heading, line]
            at = len(bare) if at is None else at
            lines[at:at] = new
            bare[at:at] = new
    return "\n".join(lines).strip()


def _struck_test(struck: Collection[str]) -> Callable[[str], bool]:
    """Return a function that decides whether a line, or a longer line of the same message, was deleted."""
    by_place: dict[str, list[str]] = {}
    for one in struck:
        text, place = without_notes(one)
        by_place.setdefault(place, []).append(text)

    def is_struck(line: str) -> bool:
        text, place = without_notes(line)
        statements = text.partition(": ")[2]
        return line in struck or bool(
            place and statements and any(statements in longer for longer in by_place.get(place, ()))
        )

    return is_struck


def _nonblank_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class _LinePlace:
    """The place of a line in a document: the lines next to it below the same heading, if any, and the heading."""

    before: str = ""
    after: str = ""
    heading: str = ""


def _places(text: str) -> Mapping[str, _LinePlace]:
    """Return the place of each line of a document, in order; the first occurrence of a line counts."""
    places: dict[str, _LinePlace] = {}
    lines = _nonblank_lines(text)
    before = heading = ""
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        places.setdefault(line, _LinePlace(before, "" if _is_heading(after) else after, heading))
        before, heading = ("", line) if _is_heading(line) else (line, heading)
    return places


def _is_heading(line: str) -> bool:
    return line.startswith("#")


def _index_of(bare: Sequence[str], place: _LinePlace, *, appends: bool) -> int | None:
    """Return the index at which a line belongs in a document; None if neither its neighbors nor its heading exist."""
    known = {*bare} - {""}
    if place.before in known and (place.after or not appends):
        return bare.index(place.before) + 1
    if place.after in known:
        return bare.index(place.after)
    if place.heading not in known:
        return None
    start = bare.index(place.heading) + 1
    end = next((at for at in range(start, len(bare)) if _is_heading(bare[at])), len(bare))
    while end > start and not bare[end - 1]:
        end -= 1
    return end
