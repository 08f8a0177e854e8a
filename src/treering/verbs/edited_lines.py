"""What became of cited lines that a file does not have any more."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from treering.core.characters import code_label
from treering.core.evidence import changed_stretches

_MAX_LINE_CHARS = 80
_MIN_SIMILARITY = 0.5
"""Similarity of two lines (`difflib`) from which one is an edit of the other."""


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
