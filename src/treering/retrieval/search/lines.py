"""The lines of a passage that answer a query, for people and models who see only a few of them."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import fsum
from typing import NamedTuple

from treering.core.evidence import Definition
from treering.ports.models import Embedder, Vector
from treering.retrieval import limits
from treering.retrieval.text.analysis import index_text, telling_terms, terms_held
from treering.retrieval.text.languages import language_of
from treering.retrieval.tuning import TUNING

_MAX_LINES = 400
"""Lines of a passage that are compared with a query; the rest of a longer one is not."""


@dataclass(frozen=True, slots=True)
class AnsweringLines:
    """Indexes of lines of a text, in order: those to show, and those among them that have words of the query.

    `columns`: for each line to show, where in it the answer begins: 0, or the start of a sentence of a long line.
    """

    shown: tuple[int, ...] = ()
    matched: frozenset[int] = frozenset()
    columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class LineQuery:
    """A query to compare lines with: its terms, and its vector if there is an `embedder`.

    The lines of every shown text are embedded, so `embedder` should be quick.
    """

    query: str
    embedder: Embedder | None = None

    @cached_property
    def terms(self) -> frozenset[str]:
        """The index terms of the query."""
        return frozenset(telling_terms(self.query))

    @cached_property
    def _vector(self) -> Vector | None:
        return self.embedder.embed_query(self.query) if self.embedder else None

    def lines_of(
        self, text: str, *, most: int = TUNING.lines.max_shown, nested: bool = False, by_meaning: bool = True
    ) -> AnsweringLines:
        """Choose the lines of a text that answer, at most `most`; without `by_meaning` by words alone.

        Lines with words of the query come first; of too many the cosine decides. If no line has all of the words, and
        few have any, the nearest lines by cosine follow. The lines next to these fill up. `nested`: the text is code or
        data, of which the line that the best one belongs to is shown too: a signature or a key.
        """
        lines = text.split("\n")[:_MAX_LINES]
        pieces: list[_Piece] = []
        for place, line in enumerate(lines):
            if len(line) > limits.MAX_LINE_CHARS:
                pieces += _sentences(place, line)
            elif line.strip():
                pieces.append(_Piece(place, 0, line))
        if not pieces or most < 1:
            return AnsweringLines()
        language = language_of(text)
        terms = [terms_held(piece.text, self.terms, language) for piece in pieces]
        ranked = self._ranked(pieces, terms, most, by_meaning=by_meaning)
        starts: dict[int, int] = {}
        for piece in ranked:
            starts.setdefault(pieces[piece].line, pieces[piece].start)
        around = _enclosing(lines, next(iter(starts))) if nested else None
        chosen = list(starts)[:most]
        if around is not None and around not in chosen:
            chosen = [*chosen[: max(most - 1, 1)], around][:most]
        shown = tuple(sorted([*chosen, *islice(_beside(chosen, lines), most - len(chosen))]))
        matched = frozenset(piece.line for piece, held in zip(pieces, terms, strict=True) if held)
        return AnsweringLines(shown, matched.intersection(shown), tuple(starts.get(line, 0) for line in shown))

    def _ranked(
        self, pieces: Sequence["_Piece"], terms: Sequence[frozenset[str]], most: int, *, by_meaning: bool
    ) -> list[int]:
        """Return pieces that answer, best first: those with words, then the nearest if words do not decide."""
        with_all = [place for place, held in enumerate(terms) if held == self.terms]
        is_decided = bool(with_all and self.terms)
        with_words = with_all if is_decided else [place for place, held in enumerate(terms) if held]
        first = {pieces[place].text.strip(): place for place in reversed(with_words)}
        distinct = sorted(first.values())
        is_near_asked = by_meaning and not is_decided and len(distinct) > most
        cosines = self._cosines(pieces, distinct) if is_near_asked else {}
        ranked = _covering({place: terms[place] for place in distinct}, cosines, len(self.terms), most)
        if is_decided or len(ranked) * 2 >= most:
            return ranked
        rest = [place for place, piece in enumerate(pieces) if not terms[place] and _has_words(piece.text)]
        cosines = self._cosines(pieces, rest) if by_meaning else {}
        nearest = sorted(cosines, key=lambda place: (-cosines[place], place))
        return [*ranked, *nearest] if ranked or nearest else [0]

    def _cosines(self, pieces: Sequence["_Piece"], places: Sequence[int]) -> dict[int, float]:
        if self.embedder is None or self._vector is None or not places:
            return {}
        cosines = self.embedder.embed_documents([pieces[place].text for place in places]) @ self._vector
        return dict(zip(places, cosines.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line as it is shown, with the stretches of it that are words of the query, as first and end column.

    `number`: its number in the file; 0 if it is of no file. `after_gap`: lines that say something are left out above.
    """

    number: int
    text: str
    words: tuple[tuple[int, int], ...]
    after_gap: bool


def shown_lines(
    text: str,
    lines: Sequence[int],
    terms: frozenset[str],
    *,
    columns: Sequence[int] = (),
    first_line: int = 0,
    max_chars: int,
) -> Iterator[ShownLine]:
    """Write the lines of a text that were chosen: long ones are cut around the answer, words of the query are marked.

    `terms`: the index terms of the query. `first_line`: the number of the first line of the text in its file, or 0.
    """
    every = text.split("\n")
    before = lines[0] if lines else 0
    for place, column in zip(lines, columns or [0] * len(lines), strict=True):
        line = _cut(every[place], column, max_chars)
        yield ShownLine(
            first_line + place if first_line else 0,
            line,
            tuple(words_in(line, terms)),
            after_gap=any(left_out.strip() for left_out in every[before + 1 : place]),
        )
        before = place


def lines_as_text(lines: Iterable[ShownLine]) -> str:
    """Write lines as a search in files does: `:` after the number of a line with words of the query, else `-`.

    Lines outside of files have no number. `…` marks omitted lines.
    """
    rows: list[str] = []
    for line in lines:
        number = f"{line.number}{':' if line.words else '-'} " if line.number else ""
        rows += [*(["…"] if line.after_gap else []), f"{number}{line.text}"]
    return "\n".join(rows)


def symbol_of(
    heading: str,
    terms: frozenset[str],
    path: str,
    *,
    lines: Collection[int] = (),
    definitions: Iterable[Definition] = (),
) -> str:
    """Return the symbol of a passage around most of its `lines`, or its whole heading if it is no code.

    For lines outside any definition: the symbol with the most terms of the query. Empty for a heading that only repeats
    the name of its file.
    """
    heading = _PART.sub("", heading)
    if heading == path.rpartition("/")[2]:
        return ""
    symbols = heading.removesuffix(", …").split(", ")
    if heading == symbols[0] or any(" " in symbol for symbol in symbols):
        return heading
    inside = {one.name: sum(one.first <= line + 1 <= one.last for line in lines) for one in definitions}
    if name := max(filter(inside.get, inside), key=lambda name: inside[name], default=""):
        return next((symbol for symbol in symbols if _MEMBER.sub("", name, 1) == symbol), name)
    return max(symbols, key=lambda symbol: len(terms.intersection(index_text(symbol).split())))


def words_in(text: str, terms: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the words of a text with a term of a query, as first and end column, also names made of such words."""
    for word in _WORD.finditer(text):
        if not terms.isdisjoint(index_text(word[0]).split()):
            yield word.span()


_WORD = re.compile(r"\w+")
_PART = re.compile(r" \(part \d+\)")
"""The end of the heading of a part of a long definition."""
_MEMBER = re.compile(r"(?:\.|::|#)\w+$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_PIECE = re.compile(rf".{{1,{limits.MAX_LINE_CHARS}}}(?!\w)|.{{1,{limits.MAX_LINE_CHARS}}}")
_STEERS = "if elif else for while try except finally with switch case catch match do loop return raise throw await"
_DEFINES = re.compile(rf"(?!(?:{_STEERS.replace(' ', '|')})\b)[\w\"'@*-]")
"""The start of a line that other lines may belong to: a name or an item, and no word that only steers a program."""
_CALLS = re.compile(r"(?:[^=]*=\s*)?[\w.]*[(\[]\s*$")
"""A call or a value whose parts follow on the next lines."""
_TABLE = re.compile(r"\[[^\],\"]+\]+\s*$")
"""The head of a table of TOML or of a section of an INI file."""


class _Piece(NamedTuple):
    line: int
    start: int
    text: str


def _sentences(place: int, line: str) -> Iterator[_Piece]:
    """Yield the sentences of a long line with their start; a sentence that is too long is cut between words."""
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(line)), len(line)):
        if start < end <= start + limits.MAX_LINE_CHARS:
            yield _Piece(place, start, line[start:end])
        else:
            yield from (_Piece(place, piece.start(), piece[0]) for piece in _PIECE.finditer(line, start, end))
        start = end


def _covering(left: dict[int, frozenset[str]], cosines: dict[int, float], count: int, most: int) -> list[int]:
    """Return the pieces that together have most of the words: greedily, each with the most new words.

    A word counts less if more pieces have it. All words of a piece break ties. `fsum`, because sets have no order.
    """
    counts = Counter(word for words in left.values() for word in words)
    value = {place: fsum(1 / counts[word] for word in words) for place, words in left.items()}
    nearness = {place: count * cosines.get(place, 0.0) for place in left}
    chosen: list[int] = []
    unseen = set(counts)
    while unseen and len(chosen) < most:
        added = {place: fsum(1 / counts[word] for word in words & unseen) for place, words in left.items()}
        best = max(left, key=lambda place: (added[place] + nearness[place], value[place], -place))
        chosen.append(best)
        unseen -= left.pop(best)
    rest = sorted(left, key=lambda place: (-nearness[place], -value[place], place))
    return [*chosen, *rest][:most]


def _has_words(text: str) -> bool:
    return len(_WORD.findall(text)) > 1


def _beside(chosen: Sequence[int], lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines with words below and above the chosen ones, the nearest to the best one first."""
    seen = set(chosen)
    for distance in range(1, TUNING.lines.max_shown):
        for place in chosen:
            for near in (place + distance, place - distance):
                if 0 <= near < len(lines) and near not in seen and lines[near].strip():
                    seen.add(near)
                    yield near


def _enclosing(lines: Sequence[str], place: int) -> int | None:
    """Return the nearest line above that a line belongs to: a signature, a key, or the head of a table."""
    depth = _indent(lines[place])
    for above in range(place - 1, -1, -1):
        line = lines[above].lstrip()
        if _TABLE.match(lines[above]):
            return above
        if line and _indent(lines[above]) < depth:
            if _DEFINES.match(line) and not _CALLS.match(line):
                return above
            depth = _indent(lines[above])
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _cut(line: str, column: int, max_chars: int) -> str:
    """Cut a long line to `max_chars` from the beginning of the answer, or from earlier near the end of the line."""
    if len(line) <= max_chars:
        return line
    start = max(0, min(column, len(line) - max_chars))
    end = start + max_chars
    return f"{'… ' if start else ''}{line[start:end].strip()}{' …' if end < len(line) else ''}"
