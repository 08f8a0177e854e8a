"""The changes of vectors for an engine outside the file, and the name of that engine."""

from collections.abc import Iterable, Sequence
from functools import partial

import apsw

from treering.ports.passages import Reach
from treering.ports.vector_engine import ChosenEngine
from treering.stores.rows.reach import Scopes
from treering.stores.rows.vector_feed import DatabaseFeed, FeedPlace, VectorBodies
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.passage_log import count_forgotten, known_place, place_now
from treering.stores.sqlite.index.vector_queue import CURRENT
from treering.stores.sqlite.index.vectors import JOINED, find_model
from treering.stores.sqlite.readers import remembered
from treering.stores.sqlite.reading import Integers, in_batches, written_state
from treering.stores.sqlite.sight import passing_keys, sight

_TABLE = (
    "CREATE TABLE IF NOT EXISTS vector_engine(id INTEGER PRIMARY KEY CHECK(id = 1), address TEXT NOT NULL, "
    "mark TEXT NOT NULL)"
)


class SqliteVectorFeed(DatabaseFeed[apsw.Connection]):
    """`ports.vector_engine.VectorFeed` over the ledger's `Database`."""

    def __init__(self, database: Database, model: str, dimension: int) -> None:
        super().__init__(database.read)
        self._database = database
        self._model = (model, dimension)

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:  # noqa: ARG002 - reading it is cheap
        """Return the engine of the space. The table is missing until an engine is chosen."""
        with self._read() as connection:
            return remembered(connection, "engine", partial(_chosen, connection))

    def choose(self, engine: ChosenEngine | None) -> None:
        """Store the engine of the space."""
        with self._database.write() as connection:
            connection.execute(_TABLE)
            connection.execute("DELETE FROM vector_engine")
            if engine:
                sql = "INSERT INTO vector_engine(id, address, mark) VALUES(1, ?, ?)"
                connection.execute(sql, (engine.address, engine.mark))

    def _now(self, connection: apsw.Connection) -> FeedPlace:
        return place_now(connection)

    def _known(self, connection: apsw.Connection, moment: str) -> FeedPlace | None:
        return known_place(connection, moment)

    def _logged(self, connection: apsw.Connection, after: int, until: int) -> Iterable[int]:
        sql = "SELECT DISTINCT key FROM vector_log WHERE position > ? AND position <= ?"
        return (key for (key,) in connection.execute(sql, (after, until)))

    def _page(self, connection: apsw.Connection, after: int, limit: int) -> VectorBodies:
        sql = f"SELECT p.key, v.vector {JOINED} WHERE {CURRENT} AND p.key > ? ORDER BY p.key LIMIT ?"
        return connection.execute(sql, (self._model_id(connection), after, limit))

    def _of_keys(self, connection: apsw.Connection, keys: Sequence[int], *, current: bool) -> VectorBodies:
        sql = f"SELECT p.key, v.vector {JOINED} WHERE {CURRENT if current else '1'} AND p.key IN (?*)"
        return in_batches(connection, sql, [int(key) for key in keys], before=(self._model_id(connection),))

    def _count_forgotten(self, connection: apsw.Connection, after: int) -> int:
        return count_forgotten(connection, after)

    def _count(self, connection: apsw.Connection) -> int:
        sql = f"SELECT count(*) {JOINED} WHERE {CURRENT}"
        return int(next(connection.execute(sql, (self._model_id(connection),)))[0])

    def _scopes_of(self, connection: apsw.Connection, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        return [sight(connection, reach).scopes for reach in reaches]

    def _allowed(self, connection: apsw.Connection, reach: Reach, scopes: Scopes) -> Integers:
        return self._passing.of(written_state(connection), reach, scopes, partial(passing_keys, connection))

    def _model_id(self, connection: apsw.Connection) -> int:
        return find_model(connection, *self._model) or 0


def _chosen(connection: apsw.Connection) -> ChosenEngine | None:
    if not next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'vector_engine'"), None):
        return None
    row = next(connection.execute("SELECT address, mark FROM vector_engine"), None)
    return ChosenEngine(*row) if row else None
