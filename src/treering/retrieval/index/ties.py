"""The edges of the entity graph that a passage contributes, and their serialized form."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.ports.models import Excerpt, Extraction, Form, PlainExtraction, Statement
from treering.ports.passages import Passage, PassageHead
from treering.ports.search import EdgeType, Statements
from treering.retrieval.extraction.names import bare_title, entity_key, plain_form
from treering.retrieval.index.code_names import code_file_of
from treering.retrieval.text.analysis import terms_by_token

DIALOGUE_KINDS = frozenset({"conversation", "meeting_record"})
MAX_TIES = 400
"""Entities and statements stored per passage; a passage with more is a list and contains little about each."""

_FORMS: dict[str, Form] = {"symbol": "code", "code": "code", "data": "data"}
_WORDS = 24
_TITLE_WORDS = 8


class Pair(NamedTuple):
    """Two entities or objects tied by a passage. `words` are the codes of the words of a fact."""

    one: str
    other: str
    tie: EdgeType
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ties:
    """The part of the graph from one passage, by entity key or object id, without repetitions.

    `nodes` are the nodes that the passage itself is tied to, sorted. Ends of pairs need not be among them. Facts are in
    the order of the text, because the main topic usually comes first.
    """

    nodes: tuple[tuple[str, EdgeType], ...]
    pairs: tuple[Pair, ...]


def excerpt_of(passage: Passage) -> Excerpt:
    """Return the input of an extractor for a passage."""
    if is_turn(passage):
        speaker, _, _ = passage.heading.partition(" (")
        return Excerpt(passage.text, speaker=speaker, form="dialogue")
    return Excerpt(passage.text, _called(passage), passage.heading, _FORMS.get(passage.role, "prose"))


def is_linked_code(passage: Passage) -> bool:
    """Return whether a passage is code in a file of a language with links (`retrieval.index.code_names`)."""
    return _FORMS.get(passage.role) == "code" and code_file_of(passage) is not None


def names_of_linked_code(passage: Passage) -> PlainExtraction | None:
    """Return the names in the heading of code in a file, its only entities; `None` for other passages.

    Definitions, imports and uses have their own index (`retrieval.index.code_names`).
    """
    if not is_linked_code(passage):
        return None
    return PlainExtraction([part for part in map(str.strip, passage.heading.split(" > ")) if part], ())


def ties_of(passage: Passage, extraction: Extraction | PlainExtraction, links: Iterable[str] = ()) -> Ties:
    """Return the ties of a passage. `links` are the objects that its object refers to.

    Triples stored with the passage come before those extracted from its text; together they find more than either
    (MuSiQue, `docs/decisions`).
    """
    title = _TITLE_KEYS[_called(passage)] if passage.kind not in DIALOGUE_KINDS else ""
    read = PlainExtraction.of(extraction) if isinstance(extraction, Extraction) else extraction
    given = _stated((one.subject, one.relation, one.object) for one in passage.triples) if passage.triples else {}
    stated = _joined(given, _stated(read.statements)) if given else _stated(read.statements)
    mentioned = {_KEYS[name] for name in read.names}.union(*given) - {title, ""}
    mentions = sorted(mentioned)[:MAX_TIES]
    nodes = [(key, _MENTION) for key in mentions]
    if title:
        nodes.append((title, EdgeType.TITLE))
    named = sorted({*mentions, *([title] if title else []), *chain.from_iterable(stated)})
    own = passage.object_id
    facts = [Pair(*ends, _FACT, tuple(sorted(codes)[:_WORDS])) for ends, codes in islice(stated.items(), MAX_TIES)]
    forms = (Pair(key, form, _FORM) for key in named if (form := _PLAIN_FORMS[key]))
    linked = (Pair(own, other, EdgeType.LINK) for other in sorted(set(links)) if other != own)
    return Ties((*nodes, (own, EdgeType.PART)), (*facts, *islice(forms, MAX_TIES), *linked))


def is_turn(passage: Passage | PassageHead) -> bool:
    """Return whether a passage is a turn of a conversation."""
    return bool(passage.part) and passage.kind in DIALOGUE_KINDS


def word_code(word: str) -> int:
    """Return the code of a stemmed word: 16 bits of CRC-32. Collisions cost a little precision."""
    return crc32(word.encode(errors="surrogatepass")) & 0xFFFF


def _called(passage: Passage) -> str:
    """Return the title of a passage; empty if it is only the first sentence of the text."""
    title = passage.title.removesuffix("…").strip()
    is_sentence = title != passage.title or len(title.split()) > _TITLE_WORDS or title[-1:] in ".!?"
    return "" if is_sentence and passage.text.lstrip("# \t\n").startswith(title) else title


_Ends = tuple[str, str]


def _stated(statements: Iterable[Statement]) -> dict[_Ends, set[int]]:
    """Return the word codes of the statements about each pair of entities, in order."""
    stated: dict[_Ends, set[int]] = {}
    for subject, relation, end in statements:
        one, other = _KEYS[subject], _KEYS[end]
        if one and other and one != other:  # a blank name has no key
            codes = stated.get((one, other))
            if codes is None:
                stated[one, other] = codes = set()
            codes.update(_CODES[subject], _CODES[relation], _CODES[end])
    return stated


def _joined(given: dict[_Ends, set[int]], read: dict[_Ends, set[int]]) -> dict[_Ends, set[int]]:
    return given | {ends: given[ends] | codes if ends in given else codes for ends, codes in read.items()}


_Known = TypeVar("_Known")


class _Memo(dict[str, _Known]):
    """A cache of values computed from texts."""

    def __init__(self, make: Callable[[str], _Known]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> _Known:
        made = self._make(text)
        if len(text) <= _LONGEST_REMEMBERED:  # unusual input must not fill the cache
            if len(self) >= _REMEMBERED:
                self.clear()
            self[text] = made
        return made


def _codes_of(part: str) -> tuple[int, ...]:
    """Return the codes of the words of one part of a statement."""
    return tuple(chain.from_iterable(map(_TERM_CODES.__getitem__, terms_by_token(part))))


_REMEMBERED = 1 << 16  # texts
_LONGEST_REMEMBERED = 200  # characters
_KEYS = _Memo(entity_key)
_TITLE_KEYS = _Memo(lambda title: entity_key(bare_title(title)))
_PLAIN_FORMS = _Memo(lambda key: "" if (form := plain_form(key)) == key else form)
_CODES = _Memo(_codes_of)
_TERM_CODES = _Memo(lambda terms: tuple(map(word_code, terms.split())))
_MENTION, _FACT, _FORM = EdgeType.MENTION, EdgeType.FACT, EdgeType.FORM


HEADER = 3
TIE_BITS = 3
TIE_MASK = (1 << TIE_BITS) - 1
_TIES = tuple(EdgeType)

Words32 = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedTies:
    """`Ties` with numbers instead of names. `facts` are subject, object and word codes."""

    nodes: tuple[tuple[int, EdgeType], ...]
    facts: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    pairs: tuple[tuple[int, int, EdgeType], ...] = ()

    def numbers(self) -> frozenset[int]:
        """Return all numbers that occur."""
        ends = (end for one, other, _ in (*self.facts, *self.pairs) for end in (one, other))
        return frozenset((*(number for number, _ in self.nodes), *ends))


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the parts of records in a buffer: `int64[n]` each, in units of 4 bytes."""

    starts: Places
    nodes: Places
    facts: Places
    pairs: Places

    @property
    def node_places(self) -> Places:
        """The positions of the references to nodes."""
        return self.starts + HEADER

    @property
    def fact_places(self) -> Places:
        """The positions of the facts."""
        return self.node_places + self.nodes

    @property
    def pair_places(self) -> Places:
        """The positions of the other pairs."""
        return self.fact_places + 2 * self.facts

    @property
    def word_places(self) -> Places:
        """The positions of the word counts, which are followed by the words."""
        return self.pair_places + 2 * self.pairs


def reference(number: int, tie: EdgeType) -> int:
    """Combine a node and the type of its tie in one number."""
    return number << TIE_BITS | tie


def pack_ties(ties: NumberedTies) -> bytes:
    """Pack ties into a record."""
    nodes = sorted([number << TIE_BITS | tie for number, tie in ties.nodes])
    nodes.sort(key=_is_not_part)
    long = [len(nodes), len(ties.facts), len(ties.pairs), *nodes]
    for subject, end, _ in ties.facts:
        long += (subject, end)
    for one, other, tie in ties.pairs:
        long += (one, reference(other, tie))
    short = [len(words) for _, _, words in ties.facts] + [word for _, _, words in ties.facts for word in words]
    short += [0] * (len(short) % 2)
    return struct.pack(f"<{len(long)}I{len(short)}H", *long, *short)


def _is_not_part(node: int) -> bool:
    return node & TIE_MASK != EdgeType.PART


def unpack_ties(record: bytes) -> NumberedTies:
    """Unpack a record. Raises `Corrupt` if it is damaged."""
    size = len(record) // 4
    if len(record) % 4 or size < HEADER:
        raise _damaged()
    long = struct.unpack(f"<{size}I", record)
    facts = HEADER + long[0]
    pairs = facts + 2 * long[1]
    words = pairs + 2 * long[2]
    short = struct.unpack_from(f"<{2 * (size - words)}H", record, 4 * words) if words <= size else ()
    if words > size or long[1] > len(short) or not 0 <= len(short) - long[1] - sum(short[: long[1]]) <= 1:
        raise _damaged()
    ends = zip(long[facts:pairs:2], long[facts + 1 : pairs : 2], _divided(short, long[1]), strict=True)
    others = zip(long[pairs:words:2], long[pairs + 1 : words : 2], strict=True)
    try:
        return NumberedTies(
            tuple([(ref >> TIE_BITS, _TIES[ref & TIE_MASK]) for ref in long[HEADER:facts]]),
            tuple(ends),
            tuple([(one, ref >> TIE_BITS, _TIES[ref & TIE_MASK]) for one, ref in others]),
        )
    except IndexError:
        raise _damaged() from None


def buffer_of(records: Sequence[bytes]) -> Words32:
    """Join records. Raises `Corrupt` for a length that is not a multiple of 4."""
    if np.any(lengths_of(records) % 4):
        raise _damaged()
    return np.frombuffer(b"".join(records), "<u4").astype(np.uint32, copy=False)


def lengths_of(records: Sequence[bytes]) -> Places:
    """Return the length of each record in bytes."""
    return np.fromiter(map(len, records), np.int64, len(records))


def checked_layout(buffer: Words32, lengths: Places) -> Layout:
    """Find the parts of the records in a buffer by their lengths in bytes. Raises `Corrupt` if they are damaged."""
    sizes = lengths // 4
    starts = np.cumsum(sizes) - sizes
    if np.any(sizes < HEADER):
        raise _damaged()
    layout = layout_of(buffer, starts)
    left = 2 * (starts + sizes - layout.word_places) - layout.facts  # space for words, in words
    if np.any(left < 0):
        raise _damaged()
    spare = left - word_totals(buffer, layout)
    if np.any((spare < 0) | (spare > 1)):
        raise _damaged()
    for places, counts, step in ((layout.node_places, layout.nodes, 1), (layout.pair_places + 1, layout.pairs, 2)):
        _, at = spans(places, counts, step)
        if np.any((buffer[at] & TIE_MASK) > max(EdgeType)):
            raise _damaged()
    return layout


def layout_of(buffer: Words32, starts: Places) -> Layout:
    """Find the parts of the records at some positions."""
    nodes, facts, pairs = (buffer[starts + place].astype(np.int64) for place in range(HEADER))
    return Layout(starts, nodes, facts, pairs)


def word_totals(buffer: Words32, layout: Layout) -> Places:
    """Count the words of each record."""
    which, at = spans(2 * layout.word_places, layout.facts)
    counts = buffer.view("<u2")[at]
    return np.bincount(which, counts, len(layout.starts)).astype(np.int64)


def statements_in(records: Sequence[bytes]) -> Statements:
    """Return the statements in records, by position in the sequence. Raises `Corrupt` for a damaged record."""
    buffer, lengths = buffer_of(records), lengths_of(records)
    layout = checked_layout(buffer, lengths)
    which, at = spans(layout.fact_places, layout.facts, 2)
    short = buffer.view(np.uint16)
    _, counted = spans(2 * layout.word_places, layout.facts)
    _, words = spans(2 * layout.word_places + layout.facts, word_totals(buffer, layout))
    return Statements(
        passage=which,
        subject=buffer[at].astype(np.int64) << 1 | 1,
        object=buffer[at + 1].astype(np.int64) << 1 | 1,
        bounds=np.concatenate([[0], np.cumsum(short[counted], dtype=np.int64)]),
        words=short[words],
    )


def spans(starts: Places, counts: Places, step: int = 1) -> tuple[Places, Places]:
    """List the positions in stretches of `counts` from `starts`; return the stretch of each, and the position."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    which = np.repeat(np.arange(len(counts)), counts)
    at = np.arange(total)
    at -= (ends - counts)[which]
    at *= step
    at += starts[which]
    return which, at


def _divided(short: Sequence[int], facts: int) -> Iterator[tuple[int, ...]]:
    place = facts
    for count in short[:facts]:
        yield tuple(short[place : place + count])
        place += count


def _damaged() -> Corrupt:
    return Corrupt("A record of the graph is damaged.", hint="Rebuild the index: `treering lint reindex --apply`.")
