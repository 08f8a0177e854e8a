"""The index in the ledger's own database. Writes are searchable at once."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import apsw

from treering.ports.models import Embedder, Extractor
from treering.stores.rows.reach import PassingCache
from treering.stores.rows.upkeep import MOST_AT_ONCE, STEP_SECONDS, FollowingIndex, IndexUpkeep
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.graph import SqliteGraph, kept_ties
from treering.stores.sqlite.index.passages import SqlitePassages
from treering.stores.sqlite.index.replay import SqliteReplay
from treering.stores.sqlite.index.text import SqliteTextSearch
from treering.stores.sqlite.index.vectors import SqliteQuickVectors, SqliteVectors


class SqliteIndex(FollowingIndex[apsw.Connection]):
    """`ports.index.Index` over the ledger's `Database`. It is a `Follower` of the ledger."""

    def __init__(
        self,
        database: Database,
        *,
        model_id: str,
        dimension: int,
        quick: Embedder | None = None,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._database = database
        passing = PassingCache()
        self.vectors: SqliteVectors = SqliteVectors(database, passing, model_id, dimension)
        super().__init__(self.vectors, extractor, most_at_once, read=database.read, kept_ties=kept_ties)
        if quick and quick.model_id != model_id:
            self.quick: SqliteQuickVectors | None = SqliteQuickVectors(database, passing, quick, (model_id, dimension))
        self._at_once = partial((self.quick or self.vectors).embed_at_once, quick) if quick else None
        self.passages: SqlitePassages = SqlitePassages(database)
        self.text: SqliteTextSearch = SqliteTextSearch(database, passing)
        self.graph: SqliteGraph = SqliteGraph(database)
        self.upkeep: IndexUpkeep[apsw.Connection] = IndexUpkeep(
            self.replay,
            read=database.read,
            write=database.write,
            read_whole=database.read_fresh,
            step_seconds=step_seconds,
        )

    def one_moment(self) -> AbstractContextManager[object]:
        """Hold one snapshot of the file. A database in memory has one connection, which is not held."""
        return nullcontext() if self._database.in_memory else self._database.read()

    def replay(self, connection: apsw.Connection) -> "SqliteReplay":
        """Return the replay for a connection."""
        return SqliteReplay(connection, self._extractor, at_once=self._at_once, carried=self.carried)
