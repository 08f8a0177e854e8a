"""A space of ledger and index for tests, and short ways to ask it."""

from collections.abc import Iterable
from dataclasses import dataclass

from treering.core.filters import parse_filter
from treering.core.objects import Object
from treering.core.patch import Erase, Operation, Receipt, Transition, Update
from treering.ports.passages import Reach
from treering.ports.search import Scored, TextQuery
from treering.retrieval.text.analysis import query_terms
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract.stage import by_names, by_place, by_words, heads, near

EMBEDDER = HashingEmbedder()


@dataclass(frozen=True)
class Space:
    """One space, open."""

    database: Database
    index: SqliteIndex
    ledger: SqliteLedger
    make: Builder

    def commit(self, *parts: Object | Operation) -> Receipt:
        return self.ledger.commit(self.make.patch(*parts))

    def update(self, item: Object, **changes) -> Receipt:
        return self.commit(Update(id=item.id, expected_revision=self.revision(item), changes=changes))

    def move(self, item: Object, to: str) -> Receipt:
        return self.commit(Transition(id=item.id, expected_revision=self.revision(item), to=to))

    def erase(self, item: Object) -> Receipt:
        return self.commit(Erase(id=item.id, expected_revision=self.revision(item)))

    def reread(self, item: Object, *texts: str) -> Receipt:
        return self.update(item, segments=self.make.segments(self.ledger.get(item.id), *texts))

    def revision(self, item: Object) -> int:
        return self.ledger.get(item.id).revision

    def embed(self) -> None:
        while waiting := self.index.vectors.pending(100):
            vectors = EMBEDDER.embed_documents([item.text for item in waiting])
            self.index.vectors.add({item.text_hash: vector for item, vector in zip(waiting, vectors, strict=True)})

    def find(self, text: str, **reach) -> list[str]:
        """Return the ids of the objects found by words."""
        terms = query_terms(text)
        query = TextQuery(terms.words, terms.identifiers, terms.phrases)
        return self.objects(by_words(self.index, query, reach=seen(**reach), limit=50))

    def named(self, text: str, **reach) -> list[str]:
        query = TextQuery(identifiers=(text,))
        return self.objects(by_names(self.index, query, reach=seen(**reach), limit=50))

    def placed(self, text: str, **reach) -> list[str]:
        return self.objects(by_place(self.index, text, reach=seen(**reach), limit=50))

    def near(self, text: str, *, limit: int = 50, **reach) -> list[str]:
        """Return the ids of the objects found by vector."""
        found = near(self.index, EMBEDDER.embed_query(text), reach=seen(**reach), limit=limit)
        return self.objects([Scored(key, score) for key, score in found.items()])

    def objects(self, hits: Iterable[Scored]) -> list[str]:
        keys = [hit.key for hit in hits]
        found = heads(self.index, keys)
        return [found[key].object_id for key in keys]


def open_space(path: str = MEMORY, *, clock: SteppingClock | None = None, dimension: int = 64, **options) -> Space:
    clock = clock or SteppingClock()
    database = Database(path)
    index = SqliteIndex(database, model_id=f"hashing/{dimension}", dimension=dimension, **options)
    return Space(database, index, SqliteLedger(database, clock=clock, followers=[index]), Builder(clock))


def seen(scope: str = "/", *, descend: bool = True, where=None, withdrawn: bool = False, at: int | None = None):
    return Reach(scope, descend=descend, where=parse_filter(where), withdrawn=withdrawn, at=at)
