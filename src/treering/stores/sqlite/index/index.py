"""The index in the ledger's own database. Writes are searchable at once."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

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


class _Parts(NamedTuple):
    """The parts with tables in memory. A table is empty until its first use."""

    vectors: SqliteVectors
    quick: SqliteQuickVectors | None
    text: SqliteTextSearch
    graph: SqliteGraph


def _opened(
    database: Database, model: tuple[str, int], quick: Embedder | None, *, saves_at_once: bool = False
) -> _Parts:
    passing, second = PassingCache(), quick if quick and quick.model_id != model[0] else None
    return _Parts(
        SqliteVectors(database, passing, *model, saves_at_once=saves_at_once),
        SqliteQuickVectors(database, passing, second, model, saves_at_once=saves_at_once) if second else None,
        SqliteTextSearch(database, passing, saves_at_once=saves_at_once),
        SqliteGraph(database, saves_at_once=saves_at_once),
    )


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
        saves_tables: bool = True,
    ) -> None:
        """Open the index. `saves_tables`: whether searches save the tables that they had to load."""
        self._database = database
        self._open_parts = partial(_opened, database, (model_id, dimension), quick)
        parts = self._open_parts(saves_at_once=saves_tables)
        self.vectors: SqliteVectors = parts.vectors
        super().__init__(self.vectors, extractor, most_at_once, read=database.read, kept_ties=kept_ties)
        self.quick: SqliteQuickVectors | None = parts.quick
        self._at_once = partial((self.quick or self.vectors).embed_at_once, quick) if quick else None
        self.passages: SqlitePassages = SqlitePassages(database)
        self.text: SqliteTextSearch = parts.text
        self.graph: SqliteGraph = parts.graph
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

    def has_tables_to_prepare(self) -> bool:
        """Return whether a saved table is missing, or much has changed since."""
        return any(part.is_due() for part in self._open_parts() if part)

    def prepare_tables(self) -> None:
        """Save these tables for all processes, one after the other, so that only one is in memory.

        Searches here do not wait for it, and use the new files afterwards.
        """
        parts = list(self._open_parts())
        while parts:
            part = parts.pop()
            if part and part.is_due():
                part.prepare()

    def replay(self, connection: apsw.Connection) -> "SqliteReplay":
        """Return the replay for a connection."""
        return SqliteReplay(connection, self._extractor, at_once=self._at_once, carried=self.carried)
