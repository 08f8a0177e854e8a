"""The graph of a space in memory, which follows the records in a database."""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.ports.search import Edges, EdgeType, Nodes, Statements
from treering.retrieval.graph.graph_table import GraphTable, Keys
from treering.retrieval.index.tables import PackedTable
from treering.retrieval.index.ties import NumberedTies, Pair, Ties, statements_in, unpack_ties
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.followed_table import FollowedTable, SavedTable
from treering.stores.rows.passage_log import PassageLog

_BATCH = 4_096


class GraphRows(PassageLog, Protocol):
    """The records of the graph in the snapshot of one transaction."""

    def shown_passages(self) -> tuple[Keys, Keys, Keys]:
        """Return the keys of all current passages, with the numbers of their scopes and texts."""
        ...

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        ...

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of passages. Passages without a record are left out."""
        ...


K = TypeVar("K", bound=Hashable)
Rows = TypeVar("Rows", bound=GraphRows)
T = TypeVar("T")


class GraphReads(Generic[T]):
    """The names of nodes and the records of passages, read from the database on demand.

    A search needs about a hundred names and twenty records. Loading all names would take longer than everything else
    that a search loads, and the words of statements would take half of the memory of the graph.
    """

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[T]],
        numbers_of: Callable[[T, Sequence[str]], Mapping[str, int]],
        names_of: Callable[[T, Sequence[int]], Mapping[int, str]],
        rows: Callable[[T], GraphRows],
    ) -> None:
        self._read = read
        self._numbers_of = numbers_of
        self._names_of = names_of
        self._rows = rows

    def numbers_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the numbers of entity keys. Unknown keys are left out."""
        with rows_of("the graph", hint=REINDEX), self._read() as transaction:
            return self._numbers_of(transaction, keys)

    def names_of(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities and the ids of objects."""
        with rows_of("the graph", hint=REINDEX), self._read() as transaction:
            return self._names_of(transaction, numbers)

    def statements_of(self, keys: Sequence[int]) -> Statements:
        """Return the statements of passages. Passages without a record are ignored."""
        with rows_of("the graph", hint=REINDEX), self._read() as transaction:
            records = {key: record for key, _, record in self._rows(transaction).records_of(keys)}
            known = [at for at, key in enumerate(keys) if key in records]
            statements = statements_in([records[keys[at]] for at in known])
        return replace(statements, passage=np.array(known, np.int64)[statements.passage])


class FollowedGraph(FollowedTable[Rows]):
    """A table of the graph that follows the passage log. Thread-safe."""

    def __init__(self, reads: GraphReads[Any], saved: SavedTable[Rows] | None = None) -> None:
        super().__init__(saved)
        self.table: GraphTable = GraphTable()
        self._reads = reads
        self._lock = threading.Lock()

    def view(self, rows: Rows, scopes: frozenset[int] | None) -> "FollowedGraphView":
        """Return the graph at the moment of the rows, for a read of some scopes (`None`: all)."""
        with self._lock:
            self._follow(rows)
            return FollowedGraphView(self.table, self._lock, scopes, self._reads)

    def _size(self) -> int:
        return len(self.table)

    def _packed(self, _: Rows) -> PackedTable:
        return self.table.packed()

    def _unpack(self, packed: PackedTable) -> None:
        # A new table, because views may still use the earlier one.
        table = GraphTable()
        table.unpack(packed)
        self.table = table

    def _load(self, rows: Rows) -> None:
        """Fill the table from two scans that are joined here. A join in SQL would look up every passage."""
        self.table = GraphTable()
        shown, scopes_of, _ = rows.shown_passages()
        scopes = np.zeros(int(shown.max(initial=-1)) + 1, np.int32)
        scopes[shown] = scopes_of
        stored = rows.records()
        while batch := list(islice(stored, _BATCH)):
            keys = np.array([key for key, _ in batch], np.int64)
            known = np.zeros(len(keys), np.bool_)
            inside = (keys >= 0) & (keys < len(scopes))
            known[inside] = scopes[keys[inside]] > 0
            records = [body for (_, body), is_known in zip(batch, known, strict=True) if is_known]
            self.table.put(keys[known], scopes[keys[known]], records, of=len(shown))

    def _reread(self, rows: Rows, changed: Sequence[int]) -> None:
        records = rows.records_of(changed)
        self.table.discard(np.array(changed, np.int64))
        places = np.array([row[:2] for row in records], np.int64).reshape(-1, 2)
        self.table.put(places[:, 0], places[:, 1].astype(np.int32), [body for _, _, body in records])


class FollowedGraphView:
    """`ports.search.GraphView`. A passage with key k is node 2k; entities and objects have odd numbers.

    All views share one table and its lock. Later writes may become visible while a view is used.
    """

    def __init__(
        self, table: GraphTable, lock: threading.Lock, scopes: frozenset[int] | None, reads: GraphReads[Any]
    ) -> None:
        self._table = table
        self._lock = lock
        self._scopes = scopes
        self._reads = reads

    def of_passages(self, keys: Keys) -> Nodes:
        """Return the nodes of passages, by key."""
        return 2 * keys

    def passages_of(self, nodes: Nodes) -> Keys:
        """Return the keys of the passages of nodes, or -1 for other nodes."""
        return np.where(nodes & 1, -1, nodes >> 1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of entity keys. Unknown keys are left out."""
        return {key: 2 * number + 1 for key, number in self._reads.numbers_of(keys).items()}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities and the ids of objects."""
        names = self._reads.names_of([int(node) >> 1 for node in nodes if node & 1])
        return {2 * number + 1: name for number, name in names.items()}

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges from nodes that passages in the visible scopes contain. Filters are ignored."""
        with self._lock:
            return self._table.edges(nodes, self._scopes)

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the number of edges of each node."""
        with self._lock:
            return self._table.degrees(nodes, self._scopes)

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return the statements in passages, by passage key."""
        return self._reads.statements_of(passages)


Records = Iterable[tuple[int, bytes]]
"""Records by passage key."""


def content_hashes(records: Records, names: Mapping[int, bytes]) -> dict[int, int]:
    """Return a hash of the ties of each passage by name. The hash of a damaged record equals no other one."""
    return {key: hash(record and named_content(record, names)) for key, record in _unpacked(records)}


def content_hash(ties: Ties) -> int:
    """Return the hash that `content_hashes` computes for these ties."""
    numbers = {name: number for number, name in enumerate(sorted(names_in(ties)), start=1)}
    names = {number: stored_name(name) for name, number in numbers.items()}
    return hash(named_content(numbered(ties, numbers), names))


def graph_faults(records: Records, counted: Mapping[int, int]) -> Iterator[str]:
    """Yield the damage in records and in the numbers of passages per name. `counted`: the stored numbers."""
    held: Counter[int] = Counter()
    damaged = 0
    for _, record in _unpacked(records):
        damaged += record is None
        held.update(record.numbers() if record else ())
    if damaged:
        yield f"{damaged} records of the graph are damaged"
    if wrong := sum(counted.get(number) != held.get(number) for number in counted.keys() | held.keys()):
        yield f"{wrong} names of the graph are missing, left over or incorrectly counted"


def _unpacked(records: Records) -> Iterator[tuple[int, NumberedTies | None]]:
    for key, body in records:
        try:
            yield key, unpack_ties(body)
        except Corrupt:
            yield key, None


_ENTITY, _OBJECT = "e", "o"
# The first letter of the names in a tie distinguishes ids of objects from entities of the same name.
_KINDS = tuple(_OBJECT if tie in {EdgeType.PART, EdgeType.LINK} else _ENTITY for tie in EdgeType)


def entity_name(key: str) -> str:
    """Return the name of an entity."""
    return _ENTITY + key


def object_name(identity: str) -> str:
    """Return the name of an object."""
    return _OBJECT + identity


def name_digest(stored: bytes) -> bytes:
    """Return a digest of a name of any length, for an index."""
    return blake2b(stored, digest_size=16).digest()


def stored_name(name: str) -> bytes:
    """Return the stored form of a name."""
    # A name from damaged text may contain half of a surrogate pair.
    return name.encode(errors="surrogatepass")


def plain_name(stored: bytes) -> str:
    """Return the key of an entity or the id of an object."""
    return stored[1:].decode(errors="surrogatepass")


def names_in(ties: Ties) -> set[str]:
    """Return all names in ties."""
    names = {_KINDS[tie] + name for name, tie in ties.nodes}
    for one, other, tie, _ in ties.pairs:
        names.update((_KINDS[tie] + one, _KINDS[tie] + other))
    return names


def numbered(ties: Ties, numbers: Mapping[str, int]) -> NumberedTies:
    """Replace the names in ties by numbers."""
    facts, pairs = [], []
    for one, other, tie, words in ties.pairs:
        ends = numbers[_KINDS[tie] + one], numbers[_KINDS[tie] + other]
        if tie is EdgeType.FACT:
            facts.append((*ends, words))
        else:
            pairs.append((*ends, tie))
    return NumberedTies(
        tuple([(numbers[_KINDS[tie] + name], tie) for name, tie in ties.nodes]), tuple(facts), tuple(pairs)
    )


def ties_kept(records: Mapping[K, bytes], names_of: Callable[[Sequence[int]], Mapping[int, bytes]]) -> dict[K, Ties]:
    """Parse records, and replace numbers by names. Damaged records, and those with unknown numbers, are left out."""
    read: dict[K, NumberedTies] = {}
    for key, body in records.items():
        with suppress(Corrupt):
            read[key] = unpack_ties(body)
    numbers = {number for record in read.values() for number in record.numbers()}
    names = {number: plain_name(name) for number, name in names_of(sorted(numbers)).items()}
    return {key: _with_names(record, names) for key, record in read.items() if record.numbers() <= names.keys()}


def _with_names(record: NumberedTies, called: Mapping[int, str]) -> Ties:
    facts = [Pair(called[one], called[other], EdgeType.FACT, words) for one, other, words in record.facts]
    pairs = [Pair(called[one], called[other], tie) for one, other, tie in record.pairs]
    return Ties(tuple([(called[number], tie) for number, tie in record.nodes]), (*facts, *pairs))


def named_content(record: NumberedTies, names: Mapping[int, bytes]) -> tuple[object, ...]:
    """Return the content of a record by name, in a form that can be compared."""
    return (
        frozenset((names.get(number), tie) for number, tie in record.nodes),
        frozenset((names.get(one), names.get(other), words) for one, other, words in record.facts),
        frozenset((names.get(one), names.get(other), tie) for one, other, tie in record.pairs),
        len(record.nodes) + len(record.facts) + len(record.pairs),
    )
