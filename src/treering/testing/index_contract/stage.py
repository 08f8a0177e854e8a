"""A ledger with an index, and the fixtures that the parts of the contract share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pytest

from treering.core.evidence import Turn
from treering.core.objects import Object, Source
from treering.core.patch import Erase, MoveScope, Operation, Receipt, Transition, Update
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.runtime import Clock
from treering.ports.search import Scored, TextQuery
from treering.retrieval.text.analysis import query_terms
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_questions import by_names, by_place, by_words, heads, near, seen

EMBEDDER = HashingEmbedder()
"""What makes the vectors of the contract: an index is opened for its model and dimension."""

_MANY = 1_000


def _nothing_to_do() -> None:
    """Catch up an index that is always up to date."""


@dataclass(frozen=True, slots=True)
class LedgerWithIndex:
    """A new, empty ledger and an index of it."""

    ledger: Ledger
    index: Index
    catch_up: Callable[[], object] = _nothing_to_do
    """Applies to the index what was written to the ledger since; nothing where writing does."""


OpenIndex = Callable[[], LedgerWithIndex]
"""Opens a new ledger on the test's clock, and its index. The fixture that makes it closes what it opened."""


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
        """Bring an object to another status."""
        return self.commit(Transition(id=item.id, expected_revision=self.revision(item), to=to))

    def move_scope(self, item: Object, to: str) -> Receipt:
        """Bring an object to another scope."""
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
        """Make a conversation of texts, each with the time it was said."""
        source = self.make.source(*(text for text, _ in turns), kind="conversation", origin=origin, **fields)
        placed = [
            part.model_copy(update={"locator": Turn(turn=part.position, at=at)})
            for part, (_, at) in zip(source.segments, turns, strict=True)
        ]
        return source.model_copy(update={"segments": tuple(placed)})


class IndexedSpace(LedgerWriter):
    """An indexed ledger, with short ways to ask it."""

    def __init__(self, indexed: LedgerWithIndex, clock: Clock) -> None:
        super().__init__(indexed.ledger, clock, indexed.catch_up)
        self.index = indexed.index

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

    def all_keys(self, items: Iterable[Object], **reach: Any) -> Mapping[int, tuple[str, str]]:
        """Return object id and part of all passages of objects, by key."""
        return {key: (item.id, part) for item in items for part, key in self.keys(item, **reach).items()}


class IndexStage:
    """A space, its clock and a builder. A subclass gives `open_index`."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    @pytest.fixture
    def space(self, open_index: OpenIndex, clock: SteppingClock) -> IndexedSpace:
        return IndexedSpace(open_index(), clock)
