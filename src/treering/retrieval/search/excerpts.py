"""The part of a passage that a context pack shows if it has no room for all of it: the lines that answer."""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise

from treering.retrieval import limits
from treering.retrieval.search.lines import LineQuery
from treering.retrieval.text.analysis import estimate_tokens
from treering.retrieval.tuning import TUNING

_DOCSTRING_MARKS = ('"""', "'''", 'r"""', "/**", "///")

MAX_FILLED_GAP = 3
"""Lines of a gap that are shown instead of its mark, if they fit: a reader would open the file for them."""
_CLOSING = frozenset(")]}")
"""Characters that begin the last line of a signature of several lines."""


@dataclass(frozen=True)
class PassageLines:
    """A passage, and the query that some of its lines answer."""

    text: str
    query: str
    first_line: int = 0
    """The number of its first line in its file; 0 if it is not a range of lines."""

    def within(self, tokens: int) -> str:
        """Return the lines that answer, with their signatures and as many lines around them as fit; "" if none fits."""
        lines = self.text.split("\n")
        chosen: set[int] = set()
        used, gap = 0, limits.GAP_TOKENS
        for line in self._by_importance:
            cost = estimate_tokens(f"{lines[line]}\n") + (0 if chosen & {line - 1, line + 1} else gap)
            if used + cost > tokens - gap:
                break
            chosen.add(line)
            used += cost
        for between in sorted(_small_gaps(chosen, len(lines)), key=len):
            cost = sum(estimate_tokens(f"{lines[line]}\n") for line in between) - gap
            if used + cost <= tokens - gap:
                chosen.update(between)
                used += cost
        return "\n".join(self._written(lines, sorted(chosen))) if chosen else ""

    @cached_property
    def _by_importance(self) -> Sequence[int]:
        """The lines that may be shown, cached for repeated attempts to fill a budget."""
        lines = self.text.split("\n")
        answering = sorted(LineQuery(self.query).lines_of(self.text).matched)
        signatures = (line for one in answering for line in _signature(lines, one))
        near = (
            beside
            for distance in range(1, TUNING.packing.lines_around + 1)
            for line in answering
            for beside in (line + distance, line - distance)
            if 0 <= beside < len(lines)
        )
        return [*dict.fromkeys(chain(signatures, answering, near))]

    def _written(self, lines: Sequence[str], chosen: Sequence[int]) -> Iterator[str]:
        before = -1
        for line in (*chosen, len(lines)):
            if line > before + 1:
                yield self._gap(before + 1, line)
            if line < len(lines):
                yield lines[line]
            before = line

    def _gap(self, start: int, end: int) -> str:
        """State which lines are left out, `start` up to before `end`."""
        if not self.first_line:
            return "…"
        first, last = self.first_line + start, self.first_line + end - 1
        return f"… line {first}" if first == last else f"… lines {first}-{last}"


_OVERLOAD = re.compile(r"\s*@(?:\w+\.)*overload\b")
_FUNCTION = re.compile(r"^[ \t]*(?:async )?def ", re.MULTILINE)
_NO_BODY = re.compile(r"(?:^|:)[ \t]*\.\.\.[ \t]*(?:#.*)?$", re.MULTILINE)


def is_stub(code: str) -> bool:
    """Return whether code only declares functions of Python: an overload, or each with `...` in place of a body."""
    functions = len(_FUNCTION.findall(code))
    is_class = code.lstrip().startswith("class ")
    return bool(_OVERLOAD.match(code)) or (not is_class and 0 < functions <= len(_NO_BODY.findall(code)))


def lines_of_body(excerpt: str) -> int:
    """Count the lines of an excerpt of code below its signature, without docstrings, comments and gaps."""
    depth, in_signature, docstring, count = 0, False, "", 0
    for line in map(str.strip, excerpt.split("\n")):
        if docstring:
            docstring = "" if docstring in line or line.startswith("…") else docstring
        elif line.startswith(('"""', "'''")):
            docstring = "" if line.count(line[:3]) > 1 else line[:3]
        elif in_signature or _SIGNATURE.match(line):
            depth += sum(map(line.count, "([")) - sum(map(line.count, ")]"))
            in_signature = depth > 0
        elif line and not line.startswith(_NOT_OF_BODY):
            count += 1
    return count


_SIGNATURE = re.compile(
    r"(?:(?:async|export|default|pub(?:\(\w+\))?|public|private|protected|static|abstract|final) )*"
    r"(?:def|class|function|func|fn|interface|struct|impl|trait|enum)\b"
)
_NOT_OF_BODY = ("…", "@", "#", "//", "/*", "*", "}", ")", "]")


def _small_gaps(chosen: Set[int], count: int) -> list[range]:
    """Return the gaps between chosen lines, and before and after them, that are hardly longer than their mark."""
    ends = (-1, *sorted(chosen), count) if chosen else ()
    gaps = (range(before + 1, after) for before, after in pairwise(ends))
    return [gap for gap in gaps if 0 < len(gap) <= MAX_FILLED_GAP]


def _signature(lines: Sequence[str], line: int) -> Iterator[int]:
    """Yield the first line of the outermost block around a line, and the first line of its docstring."""
    first, indent = line, _indent(lines[line])
    for above in range(line - 1, -1, -1):
        text = lines[above].strip()
        if text and text[0] not in _CLOSING and _indent(lines[above]) < indent:
            first, indent = above, _indent(lines[above])
    if first < line:
        yield first
        below = range(first + 1, min(first + TUNING.packing.signature_lines, line))
        docstrings = (near for near in below if lines[near].lstrip().startswith(_DOCSTRING_MARKS))
        yield from islice(docstrings, 1)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
