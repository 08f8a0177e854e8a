"""A ledger with an index, and the fixtures that the parts of the contract share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from treering.core.evidence import Turn
from treering.core.filters import parse_filter
from treering.core.objects import Object, Source
from treering.core.patch import Erase, MoveScope, Operation, Receipt, Transition, Update
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.passages import AskedDays, PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.runtime import Clock
from treering.ports.search import (
    EdgeType,
    GraphView,
    NamePart,
    NearRequest,
    Scored,
    TextFound,
    TextQuery,
    TextRequest,
    Vector,
)
from treering.retrieval.text.analysis import query_terms
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

EVERYWHERE = Reach("/", descend=True)

Edge = tuple[object, object, str]
"""Both ends by name, of passages by key, and the name of the tie."""


def seen(
    scope: str = "/",
    *,
    descend: bool = True,
    where: Mapping[str, Any] | None = None,
    withdrawn: bool = False,
    at: int | None = None,
) -> Reach:
    """Return a reach, by default of everything."""
    return Reach(scope, descend=descend, where=parse_filter(where), withdrawn=withdrawn, at=at)


def search_text(index: Index, reach: Reach, limit: int, **wanted: Any) -> TextFound:
    """Search by text; return the results of each arm."""
    (found,) = index.text.search([TextRequest(reach, limit, **wanted)])
    return found


def by_words(index: Index, query: TextQuery, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by the words and phrases of a query."""
    return list(search_text(index, reach, limit, words=(*query.words, *query.phrases)).words)


def by_names(index: Index, query: TextQuery, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by parts of names."""
    return list(search_text(index, reach, limit, names=tuple(map(NamePart, query.identifiers))).names)


def by_place(index: Index, text: str, *, reach: Reach, limit: int) -> list[Scored]:
    """Rank by an id, path, title or the end of one."""
    return list(search_text(index, reach, limit, place=text).places)


def by_days(index: Index, asked: Iterable[AskedDays], *, reach: Reach, limit: int) -> list[Scored]:
    """Rank turns by the requested days."""
    return list(search_text(index, reach, 1, days=tuple(asked), days_limit=limit).days)


def counts(index: Index, words: Iterable[str], *, reach: Reach) -> dict[str, int]:
    """Count the current passages that have each of the terms; leave out terms that none has."""
    return dict(search_text(index, reach, 1, counted=tuple(words)).counts)


def near(index: Index, vector: Vector, *, reach: Reach, limit: int) -> dict[int, float]:
    """Return the cosines of the nearest passages, best first, by key."""
    (found,) = index.vectors.search([NearRequest(reach, (vector,), (limit,))])
    return dict(sorted(found.cosines[0].items(), key=lambda pair: (-pair[1], pair[0])))


def cosines(index: Index, vector: Vector, keys: Iterable[int]) -> dict[int, float]:
    """Return the cosines of the keys with a vector."""
    (found,) = index.vectors.search([NearRequest(EVERYWHERE, (vector,), (0,), tuple(keys))])
    return dict(found.cosines[0])


def read(index: Index, keys: Iterable[int], reach: Reach | None = None, **wanted: Any) -> PassagesFound:
    """Read passages by key."""
    (found,) = index.passages.read([PassageRequest(tuple(keys), reach, **wanted)])
    return found


def heads(index: Index, keys: Iterable[int]) -> Mapping[int, PassageHead]:
    """Return the heads of passages."""
    return read(index, keys).heads


def visible(index: Index, keys: Iterable[int], *, reach: Reach) -> frozenset[int]:
    """Return the keys that are visible in a reach."""
    return read(index, keys, reach).visible


def beside(index: Index, keys: Iterable[int]) -> Mapping[int, Sequence[int]]:
    """Return the turns before and after turns."""
    return read(index, keys, beside=True).beside


def on_days(index: Index, asked: Iterable[AskedDays], keys: Iterable[int]) -> Mapping[int, float]:
    """Return the scores of passages for days."""
    return read(index, keys, days=tuple(asked)).dated


def days(first: str, last: str = "", weight: float = 1.0) -> AskedDays:
    """Return a range of days, written as `2023-05-08`; by default a single day."""
    return AskedDays(date.fromisoformat(first), date.fromisoformat(last or first), weight)


def names_in(view: GraphView, keys: Sequence[int]) -> set[str]:
    """Return the entities and objects that passages are tied to, by name."""
    edges = view.edges(view.of_passages(np.array(keys, np.int64)))
    return set(view.names(edges.target.tolist()).values())


def edges_between(view: GraphView, nodes: Sequence[int]) -> list[Edge]:
    """Return the edges out of nodes, sorted, with names for entities and objects and keys for passages."""
    asked = np.array(nodes, np.int64)
    found = view.edges(asked)
    sources, targets = asked[found.source].tolist(), found.target.tolist()
    called = _called(view, [*sources, *targets])
    ends = zip(sources, targets, found.tie.tolist(), strict=True)
    return sorted(((called[one], called[other], EdgeType(tie).name) for one, other, tie in ends), key=repr)


def edges_around(view: GraphView, keys: Iterable[int]) -> list[Edge]:
    """Return all edges that can be walked to from passages, as `edges_between` does."""
    reached = frontier = set(view.of_passages(np.array(sorted(keys), np.int64)).tolist())
    while frontier:
        frontier = set(view.edges(np.array(sorted(frontier), np.int64)).target.tolist()) - reached
        reached = reached | frontier
    return edges_between(view, sorted(reached))


def statements_of(view: GraphView, keys: Sequence[int]) -> list[tuple[int, str, str, tuple[int, ...]]]:
    """Return the statements of passages, sorted: the key of the passage, both ends by name, the codes of the words."""
    found = view.statements(keys)
    names = view.names([*found.subject.tolist(), *found.object.tolist()])
    rows = zip(found.passage.tolist(), found.subject.tolist(), found.object.tolist(), strict=True)
    said = [tuple(words.tolist()) for words in np.split(found.words, found.bounds[1:-1])] if len(found.passage) else []
    return sorted((keys[at], names[one], names[end], said[row]) for row, (at, one, end) in enumerate(rows))


def _called(view: GraphView, nodes: Sequence[int]) -> dict[int, object]:
    keys = view.passages_of(np.array(nodes, np.int64)).tolist()
    named = view.names([node for node, key in zip(nodes, keys, strict=True) if key < 0])
    return {node: named.get(node) if key < 0 else key for node, key in zip(nodes, keys, strict=True)}


EMBEDDER = HashingEmbedder()
"""The embedder of the contract: an index is opened for its model and dimension."""

NO_KEY = 10**9
"""A key that no passage has."""

_MANY = 1_000


def _nothing_to_do() -> None:
    """Catch up an index that is always up to date."""


@dataclass(frozen=True, slots=True)
class LedgerWithIndex:
    """A new, empty ledger and an index of it."""

    ledger: Ledger
    index: Index
    catch_up: Callable[[], object] = _nothing_to_do
    """Applies new writes of the ledger to the index; does nothing if writing applies them."""


OpenIndex = Callable[[], LedgerWithIndex]
"""Opens a new ledger with the clock of the test, and its index. Its fixture closes them."""


class LedgerWriter:
    """A ledger with short ways to write to it. After every write it is caught up with."""

    def __init__(self, ledger: Ledger, clock: Clock, catch_up: Callable[[], object] = _nothing_to_do) -> None:
        self.ledger = ledger
        self.clock = clock
        self.catch_up = catch_up

    @cached_property
    def make(self) -> Builder:
        """Make objects by the clock of the test."""
        return Builder(self.clock)

    def commit(self, *parts: Object | Operation) -> Receipt:
        """Commit objects and operations as one patch."""
        receipt = self.ledger.commit(self.make.patch(*parts))
        self.catch_up()
        return receipt

    def update(self, item: Object, **changes: Any) -> Receipt:
        """Change fields of an object."""
        return self.commit(Update(id=item.id, expected_revision=self.revision(item), changes=changes))

    def move(self, item: Object, to: str) -> Receipt:
        """Change the status of an object."""
        return self.commit(Transition(id=item.id, expected_revision=self.revision(item), to=to))

    def move_scope(self, item: Object, to: str) -> Receipt:
        """Move an object to another scope."""
        return self.commit(MoveScope(id=item.id, expected_revision=self.revision(item), to=to))

    def erase(self, item: Object) -> Receipt:
        """Erase an object."""
        return self.commit(Erase(id=item.id, expected_revision=self.revision(item)))

    def reread(self, item: Object, *texts: str) -> Receipt:
        """Give a source other texts."""
        source = self.ledger.get(item.id)
        assert isinstance(source, Source)
        return self.update(item, segments=self.make.segments(source, *texts))

    def revision(self, item: Object) -> int:
        """Return the current revision of an object."""
        return self.ledger.get(item.id).revision

    def talk(self, *turns: tuple[str, datetime | None], origin: str = "talk", **fields: Any) -> Source:
        """Make a conversation of texts with their times."""
        source = self.make.source(*(text for text, _ in turns), kind="conversation", origin=origin, **fields)
        placed = [
            part.model_copy(update={"locator": Turn(turn=part.position, at=at)})
            for part, (_, at) in zip(source.segments, turns, strict=True)
        ]
        return source.model_copy(update={"segments": tuple(placed)})


class IndexedSpace(LedgerWriter):
    """An indexed ledger, with shortcuts for queries."""

    def __init__(self, indexed: LedgerWithIndex, clock: Clock) -> None:
        super().__init__(indexed.ledger, clock, indexed.catch_up)
        self.index: Index = indexed.index

    def embed(self, limit: int = _MANY) -> None:
        """Make the vectors of texts that wait."""
        waiting = self.index.vectors.pending(limit)
        vectors = EMBEDDER.embed_documents([item.text for item in waiting])
        self.index.vectors.add({item.text_hash: vector for item, vector in zip(waiting, vectors, strict=True)})

    def find(self, text: str, *, limit: int = 50, **reach: Any) -> list[str]:
        """Return the ids of the objects found by words."""
        return self.objects(by_words(self.index, query_terms(text), reach=seen(**reach), limit=limit))

    def named(self, text: str, **reach: Any) -> list[str]:
        """Return the ids of the objects found by a part of a name."""
        query = TextQuery(identifiers=(text,))
        return self.objects(by_names(self.index, query, reach=seen(**reach), limit=50))

    def placed(self, text: str, **reach: Any) -> list[str]:
        """Return the ids of the objects found by an id, path or title."""
        return self.objects(by_place(self.index, text, reach=seen(**reach), limit=50))

    def near(self, text: str, *, limit: int = 50, **reach: Any) -> list[str]:
        """Return the ids of the objects found by vector."""
        found = near(self.index, EMBEDDER.embed_query(text), reach=seen(**reach), limit=limit)
        return self.objects([Scored(key, score) for key, score in found.items()])

    def objects(self, hits: Iterable[Scored]) -> list[str]:
        """Return the ids of the objects that hits are passages of, in their order."""
        keys = [hit.key for hit in hits]
        found = heads(self.index, keys)
        return [found[key].object_id for key in keys]

    def keys(self, item: Object, **reach: Any) -> dict[str, int]:
        """Return the keys of an object's passages by part, found by its id."""
        hits = by_place(self.index, item.id, reach=seen(**reach), limit=_MANY)
        found = heads(self.index, [hit.key for hit in hits])
        return {head.part: key for key, head in found.items() if head.object_id == item.id}

    def key(self, item: Object, place: int = 0, **reach: Any) -> int:
        """Return the key of one segment of a source, or of an object's only passage."""
        part = item.segments[place].segment_id if isinstance(item, Source) else ""
        return self.keys(item, **reach)[part]


class IndexStage:
    """A space, its clock and a builder. A subclass gives `open_index`."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    @pytest.fixture
    def space(self, open_index: OpenIndex, clock: SteppingClock) -> IndexedSpace:
        return IndexedSpace(open_index(), clock)
