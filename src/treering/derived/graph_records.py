"""How the part of the graph that one passage vouches for is kept: its ties by number, in a few bytes.

A record is little-endian and a multiple of 4 bytes long:

- `uint32[3]`: how many nodes n, facts f and other pairs p it has;
- `uint32[n]`: a reference to each node the passage is tied to, that of its own object first;
- `uint32[2 f]`: subject and object of each fact, by number;
- `uint32[2 p]`: for each other pair the number of the one and a reference to the other;
- `uint16[f]`: how many words each fact has, then the words of all facts, then padding.

A reference is `8 * number + tie`, so numbers are below 2**29.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.ports.graph import EdgeType

HEADER = 3
TIE_BITS = 3
TIE_MASK = (1 << TIE_BITS) - 1

Words32 = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NumberedTies:
    """`derived.ties.Ties` with numbers for names. `facts` are subject, object and word codes."""

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
    """Read a record. Raises `Corrupt` where it is none."""
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
