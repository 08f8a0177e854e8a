"""What became of cited lines that a file does not have any more."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from treering.core.evidence import changed_stretches, find_lines
from treering.core.fencing import code_label

_MAX_LINE_CHARS = 80
_MIN_SIMILARITY = 0.5
"""Similarity of two lines (`difflib`) from which one is an edit of the other."""


def is_edit_of(quote: str, *, fork: str, theirs: str, ours: str) -> bool:
    """Return whether `ours` edits the lines which `theirs` has as `quote`; both are edits of `fork`.

    `theirs` may have written the lines since: then a merge finds a conflict in them.
    """
    place = find_lines(quote, theirs)
    if place is None or find_lines(quote, ours):
        return False
    before, after = fork.splitlines(), theirs.splitlines()
    start, end = _place_before(before, after, place[0] - 1, place[1])
    return any(
        (first < end and start < last) or (start <= first <= end and (first == last or start == end))
        for first, last, _, _ in changed_stretches(before, ours.splitlines())
    )


def _place_before(before: Sequence[str], after: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """Return the lines of a text which lines of its edit come from."""
    first, last = start, end
    for old_start, old_end, new_start, new_end in changed_stretches(before, after):
        shift = old_end - new_end
        if new_end <= start:
            first = start + shift
        elif new_start <= start:
            first = old_start
        if new_end <= end:
            last = end + shift
        elif new_start < end:
            last = old_end
    return first, last


def fate_of_lines(path: str, old: str, quote: str, new: str) -> str:
    """Return what became of cited lines that are not in a file any more: the new line if one was edited.

    `old`: the passage that `quote` is from. `new`: the text of the file, empty if unknown.
    """
    lines = new.splitlines()
    cited = [line for line in quote.splitlines() if line.strip()]
    missing = [line for line in cited if line not in lines]
    if edited := next(_edited(old.splitlines(), lines, missing), None):
        line, number = edited
        return f"{path}:{number} is now {code_label(line.strip(), most=_MAX_LINE_CHARS)}"
    if not missing:
        return f"there are other lines between these lines of {path}"
    return f"{'some of ' if len(missing) < len(cited) else ''}these lines of {path} are gone"


def _edited(old: Sequence[str], new: Sequence[str], missing: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the similar lines in place of missing lines of a passage, each with its number in the file."""
    for start, end, first, last in changed_stretches(old, new):
        for line in (line for line in old[start:end] if line in missing):
            if similar := get_close_matches(line, new[first:last], n=1, cutoff=_MIN_SIMILARITY):
                yield similar[0], new.index(similar[0], first, last) + 1
