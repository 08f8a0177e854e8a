"""Segments of a source file: every line that is not blank is in exactly one, in the order of the file.

Segments follow the outline: a header, one segment per function or method, and one for the head of each class. Very
small neighbors share a segment, and segments over the limit are cut where the nesting is least.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from treering.core.evidence import Definition, Lines
from treering.extensions.code.parsing.outline import LONGEST_LINE, MEMBERED, ROOMS, CodeOutline, Symbol
from treering.extensions.code.parsing.uses import uses_between
from treering.ports.adapter import Role, SegmentDraft
from treering.ports.format import posix_path

_TINY = 250
"""Characters below which a stretch is joined with its neighbor."""
_JOINED = 1_200
"""Maximum characters of joined neighbors."""
_WHOLE = 1_000
"""Maximum characters of a class that is not split from its methods."""
_CRUMB = 120
"""Characters below which code between definitions (a closing brace) is joined with either neighbor."""
_SIGNATURE_CHARS = 300
"""Maximum characters of a signature in a text to embed."""
_CLOSERS = (")", "]", "}", "else", "elif", "elsif", "except", "finally", "catch", "rescue", "end", "fi", "done")


@dataclass(frozen=True, slots=True)
class FileLines:
    """A file's lines without their ends. `offsets`: characters before each line, with one more entry than lines."""

    lines: Sequence[str]
    offsets: Sequence[int]

    def chars(self, start: int, end: int) -> int:
        """Count the characters of lines `start..end` (1-based, inclusive), including one line feed each."""
        return self.offsets[end] - self.offsets[start - 1]

    def text(self, start: int, end: int) -> str:
        """Return lines `start..end` (1-based, inclusive), joined by line feeds."""
        return "\n".join(self.lines[start - 1 : end])


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines `start..end` (1-based, inclusive) that belong together.

    `symbols` are its definitions; `owner` is the qualified name of the class around it; `loose` is code outside
    functions: a class's attributes, a script's steps, and the `header` of a file. A `head` is the beginning of a class
    whose methods have stretches of their own.
    """

    start: int
    end: int
    symbols: tuple[Symbol, ...] = ()
    owner: str | None = None
    loose: bool = True
    header: bool = False
    head: bool = False


def stretches(page: FileLines, symbols: Sequence[Symbol]) -> Iterator[LineRange]:
    """Split the lines of a file at the starts and ends of its `symbols` (outer first), without blank edges."""
    last = len(page.lines)
    marks = _marks(page, symbols)
    constants = [symbol for symbol in symbols if symbol.kind == "constant"]
    starts = sorted(start for start in marks if start <= last)
    for begin, bound in zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True):
        start = _first_full(page, begin, bound)
        if page.lines[start - 1].strip():
            mark, end = marks[begin], _last_full(page, start, bound)
            stretch = LineRange(start, end, mark.symbols, mark.owner, mark.loose, mark.header, mark.head)
            yield stretch if stretch.symbols or stretch.header else _named_by_constants(stretch, constants)


def joined(page: FileLines, found: Iterator[LineRange], max_chars: int) -> Iterator[LineRange]:
    """Join small neighbors that belong together, up to `max_chars`."""
    last: LineRange | None = None
    for stretch in found:
        if last is None or not _belong_together(page, last, stretch, max_chars):
            if last is not None:
                yield last
            last = stretch
        else:
            last = replace(
                last,
                end=stretch.end,
                symbols=last.symbols + stretch.symbols,
                owner=stretch.owner if stretch.symbols else last.owner,
                loose=last.loose and stretch.loose,
            )
    if last is not None:
        yield last


def parts(page: FileLines, start: int, end: int, max_chars: int) -> list[tuple[int, int]]:
    """Split lines `start..end` into parts of at most `max_chars`, preferably before lines with little indentation.

    A longer single line is not split. Blank lines at the edges of a part are left out.
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
    """Return, by the line at which a stretch begins, its description."""
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
    """Return whether a symbol is split into its head and its members."""
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
    if _same_name(before, after):
        return size <= max_chars
    sizes = page.chars(before.start, before.end), page.chars(after.start, after.end)
    if after.loose and not after.symbols and sizes[1] < _CRUMB:
        return size <= max_chars
    if size > min(_JOINED, max_chars) or (after.head and before.symbols):
        return False
    if before.loose and not before.symbols and sizes[0] < _CRUMB:
        return True
    if before.head and before.symbols[-1].qualified == after.owner:
        # A documented class gets a segment of its own, unless the following one is as small.
        return sizes[0] < _TINY and (sizes[1] < _TINY or not before.symbols[-1].doc)
    return before.owner == after.owner and before.loose == after.loose and min(sizes) < _TINY


def _same_name(before: LineRange, after: LineRange) -> bool:
    """Return whether overloads of a function follow each other, or its declaration and its body."""
    return bool(before.symbols and after.symbols) and before.symbols[-1].qualified == after.symbols[0].qualified


def _cut(page: FileLines, start: int, end: int, budget: int) -> int:
    """Choose the first line of the next part: little indented, after a blank line, late; never a closing line."""
    furthest = bisect_right(page.offsets, page.offsets[start - 1] + budget + 1)
    latest = min(max(furthest, start + 1), end)
    earliest = bisect_right(page.offsets, page.offsets[start - 1] + budget // 3) + 1
    candidates = [line for line in range(max(earliest, start + 1), latest + 1) if page.lines[line - 1].strip()]
    return min(candidates, key=lambda line: _cut_cost(page, line), default=latest)


def _cut_cost(page: FileLines, line: int) -> tuple[bool, int, bool, int]:
    text = page.lines[line - 1]
    bare = text.lstrip()
    return bare.startswith(_CLOSERS), len(text) - len(bare), bool(page.lines[line - 2].strip()), -line


_MAX_NAMES = 6
_MAX_DEFINITIONS = 64
_MAX_USES = 200
"""Uses stored per segment."""
_DOC_CHARS = 600
_MIN_DOC_CHARS = 120
_WORDS_CHARS = 200
_MEMBERS_CHARS = 200
_SCANNED_CHARS = 900
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]{2,}|[A-Z]{3,}(?![a-z])")
"""A word of an identifier: `ServerError` and `server_error` have two each, `HTTPServer` has `HTTP` and `Server`."""
_KEYWORDS = frozenset(
    "and args assert async await bool break case catch char class const continue def default delete elif else elsif "
    "end enum except export extends final finally float for foreach from func function global if impl implements "
    "import include int interface let local long match module mut namespace new nil none not null object package pass "
    "private protected public raise require return self static str string struct super switch this throw true false "
    "try type typedef undefined unless use using var void when where while with yield".split()
)


def segment_code(
    path: str, text: str, found: CodeOutline | None, *, commit: str | None, max_chars: int
) -> list[SegmentDraft]:
    """Split a file, whose outline is `found`, into segments of at most `max_chars` characters.

    A longer single line is not split. A file without an outline is split as plain lines. The text of a segment is its
    lines joined by line feeds, without carriage returns.
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
            uses=uses_between(file.found.uses if file.found else (), start, end, _MAX_USES),
        )


def _definitions(file: _File, start: int, end: int) -> tuple[Definition, ...]:
    """Return the innermost definitions within some lines; none if one of them fills all the lines."""
    inside = [one for one in (file.found.symbols if file.found else ()) if start <= one.start and one.end <= end]
    holders = {one.parent for one in inside}
    inner = [one for one in inside if one.qualified not in holders][:_MAX_DEFINITIONS]
    named = (Definition(name=one.qualified, first=one.start - start + 1, last=one.end - start + 1) for one in inner)
    return () if any((one.start, one.end) == (start, end) for one in inner) else tuple(named)


def _heading(file: _File, stretch: LineRange) -> str:
    names = list(dict.fromkeys(symbol.qualified for symbol in stretch.symbols))
    if not names:
        return stretch.owner or posix_path(file.path).name
    return ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")


def _gist(file: _File, stretch: LineRange, text: str) -> str:
    if len(text) > LONGEST_LINE and _plain_role(text) == "data":
        return gist_of_part(file.path, _heading(file, stretch), "")
    return gist_of(file.path, stretch.symbols, file.members, doc=_module_doc(file, stretch), text=text)


def _role(file: _File, stretch: LineRange, text: str) -> Role:
    """Return `symbol` if names or docs here are worth embedding early. Tests are found by their words."""
    is_described = any(
        symbol.doc or (symbol.qualified in file.public and not symbol.name.lower().startswith("test"))
        for symbol in stretch.symbols
    )
    return "symbol" if is_described or _module_doc(file, stretch) else _plain_role(text)


def _plain_role(text: str) -> Role:
    return "data" if len(text) > LONGEST_LINE and max(map(len, text.split("\n"))) > LONGEST_LINE else "code"


def _module_doc(file: _File, stretch: LineRange) -> str:
    return file.found.module_doc if file.found and stretch.header else ""


def gist_of(path: str, symbols: Sequence[Symbol], members: Mapping[str, Sequence[str]], *, doc: str, text: str) -> str:
    """Return the text to embed for `text`: signatures and docs of `symbols`, or `doc`; if there are none, its words.

    `members` are the names inside each class by its qualified name. Short, because tokens cost.
    """
    chars = max(_DOC_CHARS // max(len(symbols), 1), _MIN_DOC_CHARS)
    is_documented = bool(doc) or any(symbol.doc for symbol in symbols)
    end = doc[:_DOC_CHARS] if is_documented else words(text, _WORDS_CHARS)
    return "\n".join(filter(None, [path, *(_line(symbol, members, chars) for symbol in symbols), end]))


def gist_of_part(path: str, heading: str, text: str) -> str:
    """Return the text to embed for a later part of something long: its name and its words."""
    return "\n".join(filter(None, (path, heading, words(text, _WORDS_CHARS))))


def words(text: str, limit: int) -> str:
    """List the words of the identifiers in `text`, each once, up to `limit` characters."""
    distinct = dict.fromkeys(map(str.lower, _WORD.findall(text, 0, _SCANNED_CHARS)))
    listed = " ".join([word for word in distinct if len(word) > 2 and word not in _KEYWORDS])
    return listed if len(listed) <= limit else listed[: listed.rfind(" ", 0, limit + 1)]


def _line(symbol: Symbol, members: Mapping[str, Sequence[str]], chars: int) -> str:
    lines = [symbol.qualified if symbol.parent else "", symbol.signature[:_SIGNATURE_CHARS], symbol.doc[:chars]]
    if symbol.kind in MEMBERED | ROOMS:
        lines.append(", ".join(members.get(symbol.qualified, ()))[:_MEMBERS_CHARS])
    return "\n".join(filter(None, lines))
