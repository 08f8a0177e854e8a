"""What the toy store keeps: rows of passages, their ties and vectors, folded from a ledger's changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from treering.core.filters import EVERYTHING, matches
from treering.ports.index import Change
from treering.ports.passages import Passage, PassageHead, Reach
from treering.ports.search import Vector
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.passages import gist_hash, record_of
from treering.retrieval.index.projection import (
    Began,
    Ended,
    Entry,
    Forgotten,
    Step,
    Touched,
    steps_of,
    terms_of,
    ties_in,
)
from treering.retrieval.index.ties import Ties
from treering.testing.index_contract.graph import MemoryGraph

_FIRST_KEY, _STEP = 900_001, 7
_EXTRACTOR = BuiltInExtractor()


@dataclass(slots=True)
class Row:
    """A passage as it stood from the event `since` until before `until`. `number` counts rows as they begin."""

    number: int
    entry: Entry
    since: int
    until: int | None = None
    fields: tuple[list[str], ...] = ()
    counts: tuple[Counter[str], ...] = ()
    names: str = ""
    text_hash: str = ""

    def __post_init__(self) -> None:
        words = terms_of(self.passage)
        self.fields = tuple(each.split() for each in (words.title, words.heading, words.body))
        self.counts = tuple(map(Counter, self.fields))
        self.names = words.names
        self.text_hash = gist_hash(self.passage)

    @property
    def key(self) -> int:
        """Keys fall, with gaps, so that whoever takes them for places or for ages is found out."""
        return _FIRST_KEY - _STEP * self.number

    @property
    def passage(self) -> Passage:
        return self.entry.passage

    @property
    def is_current(self) -> bool:
        return self.until is None and self.passage.live

    def stands(self, reach: Reach) -> bool:
        """Tell whether a read sees it by its state."""
        if reach.at is not None:
            return self.since <= reach.at and (self.until is None or self.until > reach.at)
        return self.until is None if reach.withdrawn else self.is_current

    def is_seen(self, reach: Reach) -> bool:
        """Tell whether a read sees it by state, scope and filter."""
        near = self.stands(reach) and reach.sees(self.passage.scope)
        return near and (reach.where == EVERYTHING or matches(reach.where, record_of(self.passage)))

    def head(self) -> PassageHead:
        told = self.passage
        place = (told.object_id, told.part, told.type, told.kind, told.scope, told.role)
        return PassageHead(self.key, *place, told.title, told.heading, told.origin, told.place_role)


@dataclass(slots=True)
class ToyTables:
    """`ports.index.Projection` over dictionaries."""

    cursor: int = 0
    begun: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    open: dict[tuple[str, str], int] = field(default_factory=dict)
    """By object id and part, the key of the passage that stands now."""
    graph: MemoryGraph = field(default_factory=lambda: _graph())
    vectors: dict[str, Vector] = field(default_factory=dict)
    """By content hash."""

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        steps = [step for change in changes if change.seq > self.cursor for step in steps_of(change)]
        told = [step.entry for step in steps if isinstance(step, Began | Touched) and step.entry.passage.live]
        ties = {id(entry): each for entry, each in zip(told, ties_in(told, _EXTRACTOR), strict=True)}
        for step in steps:
            self._take(step, ties)
        if any(isinstance(step, Forgotten) for step in steps):
            self.keep_vectors()
        self.cursor = max(self.cursor, upto)

    def clear(self) -> None:
        self.cursor, self.graph = 0, _graph()
        for table in (self.rows, self.open, self.vectors):
            table.clear()

    def keep_vectors(self) -> None:
        """Keep the vectors of texts that passages have, and no others."""
        texts = {row.text_hash for row in self.rows.values()}
        self.vectors = {text: vector for text, vector in self.vectors.items() if text in texts}

    def seen(self, reach: Reach) -> list[Row]:
        return [row for row in self.rows.values() if row.is_seen(reach)]

    def current(self) -> list[Row]:
        return [row for row in self.rows.values() if row.is_current]

    def contents(self) -> dict[tuple[object, ...], object]:
        """Return all that was made of changes, by object, part and time; keys are left out."""
        rows = {(*_place(row), row.since): (row.until, row.entry, row.fields, row.names) for row in self.rows.values()}
        tied = {(*_place(self.rows[key]), "ties"): ties for key, ties in self.graph.ties.items() if key in self.rows}
        return {**rows, **tied, ("names",): sorted(self.graph.names.values())}

    def _take(self, step: Step, ties: dict[int, Ties]) -> None:
        match step:
            case Forgotten(object_id):
                self._forget([row for row in self.rows.values() if row.passage.object_id == object_id])
            case Ended(entry, seq):
                if key := self.open.pop(_place(entry), None):
                    self.rows[key].until = seq
                    self.graph.discard(key)
            case Touched(entry, _, retied) if key := self.open.get(_place(entry)):
                self.rows[key].entry = entry
                if retied:
                    self._tie(key, ties.get(id(entry)))
            case Began(entry, seq) | Touched(entry, seq):
                row = Row(self.begun, entry, seq)
                self.begun += 1
                self.rows[row.key], self.open[_place(entry)] = row, row.key
                self._tie(row.key, ties.get(id(entry)))

    def _tie(self, key: int, ties: Ties | None) -> None:
        if key in self.graph.ties:
            self.graph.discard(key)
        if ties:
            self.graph.put(key, ties, self.rows[key].passage.scope)

    def _forget(self, rows: list[Row]) -> None:
        for row in rows:
            del self.rows[row.key]
            self.graph.discard(row.key)
            self.open.pop(_place(row), None)


def differing(one: ToyTables, other: ToyTables) -> Iterator[str]:
    """Name what two tables do not both hold alike."""
    left, right = one.contents(), other.contents()
    for place in sorted(left.keys() | right.keys(), key=repr):
        if left.get(place) != right.get(place):
            yield f"{place} does not match the ledger"


def _graph() -> MemoryGraph:
    return MemoryGraph(width=3)  # so that whoever counts on the nodes of SQLite, 2k for passage k, is found out


def _place(of: Row | Entry) -> tuple[str, str]:
    return of.passage.object_id, of.passage.part
