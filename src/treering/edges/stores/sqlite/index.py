"""Search in the ledger's own database: what was written is found as soon as it is written."""

import time
from collections.abc import Sequence

import apsw

from treering.derived.extraction.built_in import BuiltInExtractor
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.graph import records_of
from treering.edges.stores.sqlite.graph_tables import SqliteGraph
from treering.edges.stores.sqlite.passages import SqlitePassages
from treering.edges.stores.sqlite.passing import PassingKeys
from treering.edges.stores.sqlite.rebuild import (
    passage_differences,
    passages_prepared,
    prepare_passages,
    rebuild_passages,
)
from treering.edges.stores.sqlite.replay import advance_replay, follow_changes, progress_of, texts_waiting
from treering.edges.stores.sqlite.text import SqliteTextSearch
from treering.edges.stores.sqlite.vectors import SqliteVectors
from treering.ports.extractor import Extractor
from treering.ports.index import Behind
from treering.ports.projection import Change

MOST_AT_ONCE = 2_000
"""Passages that are made anew while a space is opened; more are made beside reads. About two seconds."""

STEP_SECONDS = 0.2
"""How long one step of making passages anew holds writers up."""


class SqliteIndex:
    """`ports.index.Index` over the ledger's `Database`, and the `Follower` that keeps it in step.

    Hand it to the ledger as a follower before it is asked anything. Vectors are those of one model; what
    another model made is kept, but neither searched nor mixed. The graph is what one extractor (the built-in one
    unless another is given) finds; what another found is made anew when the space is opened: up to `most_at_once`
    passages then, more by `upkeep.advance` in steps of `step_seconds`.
    """

    def __init__(
        self,
        database: Database,
        *,
        model_id: str,
        dimension: int,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._extractor = extractor or BuiltInExtractor()
        self._most_at_once = most_at_once
        self.passages = SqlitePassages(database)
        passing = PassingKeys()
        self.text = SqliteTextSearch(database, passing)
        self.vectors = SqliteVectors(database, passing, model_id, dimension)
        self.graph = SqliteGraph(database)
        self.upkeep = SqliteUpkeep(database, self._extractor, step_seconds)

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether the tables, the passages and the model are as `prepare` leaves them."""
        return passages_prepared(connection, self._extractor) and self.vectors.recognise(connection)

    def prepare(self, connection: apsw.Connection) -> None:
        """Make the tables where they are missing; make passages anew that another version made, or begin with it."""
        prepare_passages(connection, self._extractor, most_at_once=self._most_at_once)
        self.vectors.register(connection)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        follow_changes(connection, changes, self._extractor)


class SqliteUpkeep:
    """`ports.index.Upkeep` over the ledger's `Database`."""

    def __init__(self, database: Database, extractor: Extractor, step_seconds: float) -> None:
        self._database = database
        self._extractor = extractor
        self._step_seconds = step_seconds

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index holds of objects, in whatever state: passages, texts that wait, records of the graph."""
        sql = "SELECT count(*) FROM passages WHERE object_id = ?"
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            passages = sum(next(connection.execute(sql, (identity,)))[0] for identity in object_ids)
            waiting = texts_waiting(connection, object_ids)
            return int(passages) + waiting + records_of(connection, object_ids)

    def behind(self) -> Behind:
        """Tell how far it is with making passages anew, where that was begun."""
        with self._database.read() as connection:
            return progress_of(connection)

    def advance(self) -> Behind:
        """Make passages anew for a moment, where that was begun; tell how far it is then."""
        behind = self.behind()
        if not behind.total:
            return behind
        with self._database.write() as connection:
            behind = advance_replay(connection, self._extractor, seconds=self._step_seconds)
        time.sleep(self._step_seconds / 10)  # or writers would wait for their turn as long as this goes on
        return behind

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        with self._database.write() as connection:
            return rebuild_passages(connection, self._extractor)

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs (the first twenty)."""
        with rows_of("the index", hint=REINDEX), self._database.read_fresh() as connection:
            return passage_differences(connection, self._extractor)
