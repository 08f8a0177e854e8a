"""Which lines of a file belong together: cut at definitions, joined where tiny, divided where long."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treering.edges.sources.code.outline import Symbol

_TINY = 250
"""Characters below which a stretch joins its neighbour."""
_JOINED = 1_200
"""Characters up to which neighbours are joined."""
_WHOLE = 1_000
"""Characters up to which a class stays in one piece with its methods."""
_CRUMB = 120
"""Characters below which code between definitions (a closing brace) joins whatever stands beside it."""
_CLOSERS = (")", "]", "}", "else", "elif", "elsif", "except", "finally", "catch", "rescue", "end", "fi", "done")


@dataclass(frozen=True, slots=True)
class FileLines:
    """A file's lines without their ends. `offsets`: characters before each line, one entry more than lines."""

    lines: Sequence[str]
    offsets: Sequence[int]

    def chars(self, start: int, end: int) -> int:
        """Count the characters of lines `start..end` (1-based, inclusive), a line end each included."""
        return self.offsets[end] - self.offsets[start - 1]

    def text(self, start: int, end: int) -> str:
        """Return lines `start..end` (1-based, inclusive) joined by a line feed."""
        return "\n".join(self.lines[start - 1 : end])


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines `start..end` (1-based, inclusive) that belong together.

    `symbols` are the definitions it is about; `owner` is the qualified name of the class around it; `loose`
    is code outside functions: a class's attributes, a script's steps, and the `header` a file begins with.
    A `head` is the beginning of a class whose methods follow in stretches of their own.
    """

    start: int
    end: int
    symbols: tuple[Symbol, ...] = ()
    owner: str | None = None
    loose: bool = True
    header: bool = False
    head: bool = False


def stretches(page: FileLines, symbols: Sequence[Symbol]) -> Iterator[LineRange]:
    """Divide the lines of a file at the starts and ends of its `symbols` (outer first), blank edges left out."""
    last = len(page.lines)
    marks = _marks(page, symbols)
    constants = [symbol for symbol in symbols if symbol.kind == "constant"]
    starts = sorted(start for start in marks if start <= last)
    for begin, bound in zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True):
        start = _first_full(page, begin, bound)
        if page.lines[start - 1].strip():
            stretch = replace(marks[begin], start=start, end=_last_full(page, start, bound))
            yield stretch if stretch.symbols or stretch.header else _named_by_constants(stretch, constants)


def joined(page: FileLines, found: Iterator[LineRange], max_chars: int) -> Iterator[LineRange]:
    """Join neighbours too small to stand alone, within `max_chars` and only where they belong together."""
    held: LineRange | None = None
    for stretch in found:
        if held is None or not _belong_together(page, held, stretch, max_chars):
            if held is not None:
                yield held
            held = stretch
        else:
            held = replace(
                held,
                end=stretch.end,
                symbols=held.symbols + stretch.symbols,
                owner=stretch.owner if stretch.symbols else held.owner,
                loose=held.loose and stretch.loose,
            )
    if held is not None:
        yield held


def parts(page: FileLines, start: int, end: int, max_chars: int) -> list[tuple[int, int]]:
    """Divide lines `start..end` into parts of at most `max_chars`, each cut before a line little indented.

    A line that is longer alone stays whole. Blank lines at the edges of a part are left out.
    """
    total = page.chars(start, end) - 1
    if total <= max_chars:
        return [(start, end)]
    budget = min(max_chars, int(total / -(-total // max_chars) * 1.2))
    pieces = []
    while start < end and page.chars(start, end) - 1 > budget:
        cut = _cut(page, start, end, budget)
        pieces.append((start, _last_full(page, start, cut - 1)))
        start = _first_full(page, cut, end)
    return [*pieces, (start, end)]


def _marks(page: FileLines, symbols: Sequence[Symbol]) -> dict[int, LineRange]:
    """Say for each line where a stretch begins what the stretch is about."""
    marks = {1: LineRange(1, 1, header=True)}
    opened: list[Symbol] = []
    covered = 0
    for position, symbol in enumerate(symbols):
        while opened and symbol.start > opened[-1].end:
            opened.pop()
        opens = _opens(page, symbols, position)
        if symbol.end <= covered or not (opens or _stands_alone(page, symbol, opened)):
            continue
        owner = opened[-1].qualified if opened else None
        is_loose = symbol.kind == "constant"
        _begin(marks, LineRange(symbol.start, symbol.end, (symbol,), owner, loose=is_loose, head=opens))
        marks.setdefault(symbol.end + 1, LineRange(symbol.end + 1, symbol.end + 1, owner=owner))
        if opens:
            opened.append(symbol)
        else:
            covered = symbol.end
    return marks


def _opens(page: FileLines, symbols: Sequence[Symbol], position: int) -> bool:
    """Tell whether a symbol is cut into its head and its members."""
    symbol = symbols[position]
    if page.chars(symbol.start, symbol.end) <= _WHOLE:
        return False
    for member in symbols[position + 1 :]:
        if member.start > symbol.end:
            return False
        if member.kind != "constant":
            return True
    return False


def _stands_alone(page: FileLines, symbol: Symbol, opened: Sequence[Symbol]) -> bool:
    return symbol.kind != "constant" or (not opened and page.chars(symbol.start, symbol.end) >= _TINY)


def _begin(marks: dict[int, LineRange], stretch: LineRange) -> None:
    there = marks.get(stretch.start)
    if there is not None and there.symbols:
        stretch = replace(there, symbols=there.symbols + stretch.symbols)
    marks[stretch.start] = stretch


def _first_full(page: FileLines, start: int, end: int) -> int:
    while start < end and not page.lines[start - 1].strip():
        start += 1
    return start


def _last_full(page: FileLines, start: int, end: int) -> int:
    while end > start and not page.lines[end - 1].strip():
        end -= 1
    return end


def _named_by_constants(stretch: LineRange, constants: Sequence[Symbol]) -> LineRange:
    first = bisect_right(constants, stretch.start - 1, key=lambda symbol: symbol.start)
    last = bisect_right(constants, stretch.end, key=lambda symbol: symbol.start)
    return replace(stretch, symbols=tuple(constants[first:last])) if first < last else stretch


def _belong_together(page: FileLines, before: LineRange, after: LineRange, max_chars: int) -> bool:
    size = page.chars(before.start, after.end)
    sizes = page.chars(before.start, before.end), page.chars(after.start, after.end)
    if after.loose and not after.symbols and sizes[1] < _CRUMB:
        return size <= max_chars
    if size > min(_JOINED, max_chars) or (after.head and before.symbols):
        return False
    if before.loose and not before.symbols and sizes[0] < _CRUMB:
        return True
    if before.head and before.symbols[-1].qualified == after.owner:
        # A documented class is worth a segment of its own, unless what follows is as small.
        return sizes[0] < _TINY and (sizes[1] < _TINY or not before.symbols[-1].doc)
    return before.owner == after.owner and before.loose == after.loose and min(sizes) < _TINY


def _cut(page: FileLines, start: int, end: int, budget: int) -> int:
    """Choose the line that begins the next part: little indented, after a blank line, late; never a closer."""
    furthest = bisect_right(page.offsets, page.offsets[start - 1] + budget + 1)
    latest = min(max(furthest, start + 1), end)
    earliest = bisect_right(page.offsets, page.offsets[start - 1] + budget // 3) + 1
    candidates = [line for line in range(max(earliest, start + 1), latest + 1) if page.lines[line - 1].strip()]
    return min(candidates, key=lambda line: _cut_cost(page, line), default=latest)


def _cut_cost(page: FileLines, line: int) -> tuple[bool, int, bool, int]:
    text = page.lines[line - 1]
    bare = text.lstrip()
    return bare.startswith(_CLOSERS), len(text) - len(bare), bool(page.lines[line - 2].strip()), -line
