"""What one passage ties together in the entity graph: what it mentions, states, belongs to and links."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from zlib import crc32

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.core.evidence import Triple
from treering.ports.models import Entity, Excerpt, Extraction, Form
from treering.ports.passages import Passage, PassageHead
from treering.ports.search import EdgeType
from treering.retrieval.extraction.names import bare_title, entity_key, plain_form
from treering.retrieval.text.analysis import terms_by_token

DIALOGUE_KINDS = frozenset({"conversation", "meeting_record"})
MAX_TIES = 400
"""Entities and statements kept of one passage: a passage of nothing but names is a list, and says little of each."""

_FORMS: dict[str, Form] = {"symbol": "code", "code": "code", "data": "data"}
_WORDS = 24
_TITLE_WORDS = 8


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entities or objects tied by a passage. `words` are codes of what the statement says, for facts."""

    one: str
    other: str
    tie: EdgeType
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ties:
    """The part of the graph that one passage vouches for, by entity key or object id; nothing twice.

    Nodes are sorted; facts stand in the order of the text, which says first what it is most about.

    `nodes` holds what the passage itself is tied to. Ends of pairs need not be among them.
    """

    nodes: tuple[tuple[str, EdgeType], ...]
    pairs: tuple[Pair, ...]


def excerpt_of(passage: Passage) -> Excerpt:
    """Return a passage as an extractor reads it."""
    if is_turn(passage):
        speaker, _, _ = passage.heading.partition(" (")
        return Excerpt(passage.text, speaker=speaker, form="dialogue")
    return Excerpt(passage.text, _called(passage), passage.heading, _FORMS.get(passage.role, "prose"))


def ties_of(passage: Passage, extraction: Extraction, links: Iterable[str] = ()) -> Ties:
    """Write down what a passage ties together. `links` are the objects that its own object refers to.

    Triples that the passage carries come before those that were read from its text: together they find more than
    either (MuSiQue, `docs/decisions`).
    """
    title = entity_key(bare_title(_called(passage))) if passage.kind not in DIALOGUE_KINDS else ""
    given = _stated(passage.triples)
    facts = _facts(given, _stated(extraction.triples))
    mentioned = sorted(_mentioned(given, extraction.entities) - {title, ""})[:MAX_TIES]
    nodes = [*((key, EdgeType.MENTION) for key in mentioned), *([(title, EdgeType.TITLE)] if title else [])]
    named = sorted({key for key, _ in nodes} | {end for fact in facts for end in (fact.one, fact.other)})
    forms = (Pair(key, form, EdgeType.FORM) for key in named if (form := plain_form(key)) not in {key, ""})
    own = passage.object_id
    linked = (Pair(own, other, EdgeType.LINK) for other in sorted(set(links)) if other != own)
    return Ties(
        (*nodes, (own, EdgeType.PART)),
        (*facts[:MAX_TIES], *list(forms)[:MAX_TIES], *linked),
    )


def is_turn(passage: Passage | PassageHead) -> bool:
    """Tell whether a passage is a turn of a conversation."""
    return bool(passage.part) and passage.kind in DIALOGUE_KINDS


def word_code(word: str) -> int:
    """Return the code of a (stemmed) word: 16 bits of CRC-32. Words may share one; it costs a little sharpness."""
    return crc32(word.encode(errors="surrogatepass")) & 0xFFFF


def _called(passage: Passage) -> str:
    """Return a passage's title, unless it is only how its text begins: a sentence is not a name."""
    title = passage.title.removesuffix("…").strip()
    begins = passage.text.lstrip("# \t\n").startswith(title)
    is_sentence = title != passage.title or len(title.split()) > _TITLE_WORDS or title[-1:] in ".!?"
    return "" if begins and is_sentence else title


_Ends = tuple[str, str]


def _stated(triples: Iterable[Triple]) -> dict[_Ends, set[int]]:
    """Return the codes of what is said of each two entities, in the order of the triples."""
    stated: dict[_Ends, set[int]] = {}
    known: dict[str, tuple[int, ...]] = {}  # a passage states most of what it says of one thing
    for triple in triples:
        ends = (entity_key(triple.subject), entity_key(triple.object))
        if all(ends) and ends[0] != ends[1]:  # a name of spaces alone has no key
            said = stated.setdefault(ends, set())
            for part in (triple.subject, triple.relation, triple.object):
                if part not in known:
                    known[part] = _codes_of(part)
                said.update(known[part])
    return stated


def _mentioned(given: Iterable[_Ends], entities: Iterable[Entity]) -> set[str]:
    return {*(end for ends in given for end in ends), *(entity_key(entity.name) for entity in entities)}


def _facts(*statements: Mapping[_Ends, set[int]]) -> list[Pair]:
    words: dict[_Ends, set[int]] = {}
    for stated in statements:
        for ends, codes in stated.items():
            words[ends] = words[ends] | codes if ends in words else codes
    return [Pair(one, other, EdgeType.FACT, tuple(sorted(codes)[:_WORDS])) for (one, other), codes in words.items()]


def _codes_of(part: str) -> tuple[int, ...]:
    """Return the codes of the words of one part."""
    return tuple(chain.from_iterable(map(_CODES.__getitem__, terms_by_token(part))))


class _Codes(dict[str, tuple[int, ...]]):
    """The codes of the terms of tokens seen before: parts differ, their words repeat."""

    def __missing__(self, terms: str) -> tuple[int, ...]:
        codes = tuple(map(word_code, terms.split()))
        if len(self) >= _REMEMBERED:
            self.clear()
        self[terms] = codes
        return codes


_CODES = _Codes()
_REMEMBERED = 1 << 16  # tokens


# How the part of the graph that one passage vouches for is kept: its ties by number, in a few bytes.


HEADER = 3
TIE_BITS = 3
TIE_MASK = (1 << TIE_BITS) - 1

Words32 = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedTies:
    """`retrieval.index.ties.Ties` with numbers for names. `facts` are subject, object and word codes."""

    nodes: tuple[tuple[int, EdgeType], ...]
    facts: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    pairs: tuple[tuple[int, int, EdgeType], ...] = ()

    def numbers(self) -> frozenset[int]:
        """Return all numbers that occur."""
        ends = (end for one, other, _ in (*self.facts, *self.pairs) for end in (one, other))
        return frozenset((*(number for number, _ in self.nodes), *ends))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of some records lie in a buffer: `int64[n]` each, counted in 4 bytes."""

    starts: Places
    nodes: Places
    facts: Places
    pairs: Places

    @property
    def node_places(self) -> Places:
        """Tell where references to nodes begin."""
        return self.starts + HEADER

    @property
    def fact_places(self) -> Places:
        """Tell where facts begin."""
        return self.node_places + self.nodes

    @property
    def pair_places(self) -> Places:
        """Tell where other pairs begin."""
        return self.fact_places + 2 * self.facts

    @property
    def word_places(self) -> Places:
        """Tell where the numbers of words begin, with the words behind them."""
        return self.pair_places + 2 * self.pairs


def reference(number: int, tie: EdgeType) -> int:
    """Write a node and why it is tied as one number."""
    return number << TIE_BITS | tie


def pack_ties(ties: NumberedTies) -> bytes:
    """Write ties as a record."""
    nodes = sorted(ties.nodes, key=lambda node: (node[1] is not EdgeType.PART, node))
    long = [len(nodes), len(ties.facts), len(ties.pairs), *(reference(number, tie) for number, tie in nodes)]
    for subject, end, _ in ties.facts:
        long += (subject, end)
    for one, other, tie in ties.pairs:
        long += (one, reference(other, tie))
    short = [len(words) for _, _, words in ties.facts] + [word for _, _, words in ties.facts for word in words]
    short += [0] * (len(short) % 2)
    return struct.pack(f"<{len(long)}I{len(short)}H", *long, *short)


def unpack_ties(record: bytes) -> NumberedTies:
    """Read a record. Raises `Corrupt` where it cannot be read."""
    buffer = buffer_of([record])
    layout = checked_layout(buffer, np.array([len(record)], np.int64))
    nodes, facts, pairs, words, end = (
        int(places[0])
        for places in (
            *(layout.node_places, layout.fact_places, layout.pair_places, layout.word_places),
            np.array([len(buffer)]),
        )
    )
    subjects, objects = buffer[facts:pairs:2].tolist(), buffer[facts + 1 : pairs : 2].tolist()
    said = _divided(buffer[words:end].view("<u2").tolist(), len(subjects))
    ones, others = buffer[pairs:words:2].tolist(), buffer[pairs + 1 : words : 2].tolist()
    return NumberedTies(
        tuple((ref >> TIE_BITS, EdgeType(ref & TIE_MASK)) for ref in buffer[nodes:facts].tolist()),
        tuple(zip(subjects, objects, said, strict=True)),
        tuple((one, ref >> TIE_BITS, EdgeType(ref & TIE_MASK)) for one, ref in zip(ones, others, strict=True)),
    )


def buffer_of(records: Sequence[bytes]) -> Words32:
    """Put records one after the other. Raises `Corrupt` for one whose length is odd."""
    if np.any(lengths_of(records) % 4):
        raise _damaged()
    return np.frombuffer(b"".join(records), "<u4").astype(np.uint32, copy=False)


def lengths_of(records: Sequence[bytes]) -> Places:
    """Return how many bytes each record has."""
    return np.fromiter(map(len, records), np.int64, len(records))


def checked_layout(buffer: Words32, lengths: Places) -> Layout:
    """Find the parts of records that fill a buffer, of these lengths in bytes. Raises `Corrupt` for no records."""
    sizes = lengths // 4
    starts = np.cumsum(sizes) - sizes
    if np.any(sizes < HEADER):
        raise _damaged()
    layout = layout_of(buffer, starts)
    left = 2 * (starts + sizes - layout.word_places) - layout.facts  # room for words, in words
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
    """Find the parts of the records that start at some places."""
    nodes, facts, pairs = (buffer[starts + place].astype(np.int64) for place in range(HEADER))
    return Layout(starts, nodes, facts, pairs)


def word_totals(buffer: Words32, layout: Layout) -> Places:
    """Count the words of each record."""
    which, at = spans(2 * layout.word_places, layout.facts)
    counts = buffer.view("<u2")[at]
    return np.bincount(which, counts, len(layout.starts)).astype(np.int64)


def spans(starts: Places, counts: Places, step: int = 1) -> tuple[Places, Places]:
    """Write out stretches of `counts` places from `starts`: which stretch each place is of, and the place."""
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
    return Corrupt("A record of the graph is damaged.", hint="Make the index anew: `treering lint reindex --apply`.")
