"""The vectors of passages: stored by text, and searched in a table in memory that follows the file."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import cast

import apsw

from treering.core.objects import Object
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.ports.search import Lag
from treering.stores.rows.followed_table import SavedTable
from treering.stores.rows.followed_vectors import VectorRows
from treering.stores.rows.reach import PassingCache, Scopes
from treering.stores.rows.upkeep import SHOWN
from treering.stores.rows.vectors import QUICK, DatabaseVectors, PackedVector
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.kept_tables import SqliteSavedTable
from treering.stores.sqlite.index.passage_log import SqliteLog
from treering.stores.sqlite.index.tables import count_waiting
from treering.stores.sqlite.index.vector_queue import (
    CURRENT,
    QUICK_MODELS,
    fill_queue,
    log_vectors,
    waiting_counted,
    waiting_passages,
)
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.reading import Integers, in_batches, read_state, written_state
from treering.stores.sqlite.sight import Sight, passing_keys, sight

JOINED = "FROM passages p JOIN passage_vectors v ON v.text_id = p.text_id AND v.model_id = ?"
_FIRST_WAITING = (
    "SELECT lower(hex(t.hash)), p.object_id FROM vector_queue q "
    "JOIN passage_texts t ON t.id = q.text_id JOIN passages p ON p.key = "
    "(SELECT key FROM passages WHERE text_id = q.text_id AND live = 1 AND until_seq IS NULL LIMIT 1) "
    "WHERE q.model_id = ? {those} ORDER BY q.priority, q.text_id DESC LIMIT ?"
)
_SEARCHED = f"SELECT p.key, p.scope_id, v.vector {JOINED} WHERE {CURRENT}"


class SqliteVectors(DatabaseVectors[apsw.Connection]):
    """`ports.search.Vectors` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(
        self, database: Database, passing: PassingCache, model: str, dimension: int, *, saves_at_once: bool = True
    ) -> None:
        named = blake2b(f"{model}/{dimension}".encode(), digest_size=8).hexdigest()
        # It reads only `SqliteVectorRows`.
        saved = cast("SavedTable[VectorRows]", SqliteSavedTable(database, f"vectors.{named}", at_once=saves_at_once))
        super().__init__(model, dimension, read=database.read, write=database.write, passing=passing, saved=saved)

    def is_due(self) -> bool:
        """Return whether the saved table is missing, or much has changed since."""
        lag = self.lag()
        with self._read(once=True) as connection:
            return self._followed.is_due(self._rows(connection), lag.total - lag.pending)

    def prepare(self) -> None:
        """Save the table for all processes."""
        with self._read() as connection:
            self._followed.prepare(self._rows(connection))

    def _find_model(self, connection: apsw.Connection) -> int | None:
        return find_model(connection, self._model, self._dimension)

    def _add_model(self, connection: apsw.Connection) -> int:
        model_id = self._insert_model(connection)
        fill_queue(connection, model_id)
        return model_id

    def _insert_model(self, connection: apsw.Connection) -> int:
        sql = "INSERT INTO passage_models(name, dimension) VALUES(?, ?)"
        connection.execute(sql, (self._model, self._dimension))
        return connection.last_insert_rowid()

    def _rows(self, connection: apsw.Connection) -> "SqliteVectorRows":
        return SqliteVectorRows(connection, self._model_id)

    def _scopes_of(self, connection: apsw.Connection, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        return [sight(connection, reach).scopes for reach in reaches]

    def _count(self, connection: apsw.Connection) -> Lag:
        pending = waiting_passages(connection, self._model_id)
        return Lag(pending, read_state(connection, SHOWN), count_waiting(connection))

    def _waiting(self, connection: apsw.Connection, limit: int) -> list[tuple[str, str]]:
        return list(connection.execute(_FIRST_WAITING.format(those=""), (self._model_id, limit)))

    def _waiting_of(self, connection: apsw.Connection, keys: Sequence[int]) -> list[tuple[str, str]]:
        sql = (
            "SELECT DISTINCT lower(hex(t.hash)), p.object_id FROM passages p "
            "JOIN vector_queue q ON q.text_id = p.text_id "
            "JOIN passage_texts t ON t.id = p.text_id WHERE q.model_id = ? AND p.key IN (?*)"
        )
        return list(in_batches(connection, sql, keys, before=(self._model_id,)))

    def _waiting_among(self, connection: apsw.Connection, text_ids: Sequence[int]) -> list[int]:
        # This transaction may have added the quick model, and may still fail: `_model_id` is set later.
        model = self._find_model(connection) or 0
        sql = (
            "SELECT text_id FROM vector_queue q WHERE q.model_id = ? AND NOT EXISTS "
            "(SELECT 1 FROM passage_vectors v WHERE v.text_id = q.text_id AND v.model_id = ?) AND q.text_id IN (?*)"
        )
        before = (self._queue_of(connection), model)
        return sorted(text_id for (text_id,) in in_batches(connection, sql, text_ids, before=before))

    def _keep(self, connection: apsw.Connection, rows: Sequence[PackedVector]) -> None:
        self._insert(connection, "INSERT OR IGNORE", rows, self._model_id)

    def _keep_waiting(self, connection: apsw.Connection, rows: Sequence[PackedVector]) -> None:
        model = self._find_model(connection) or self._add_model(connection)
        self._insert(connection, "INSERT", rows, model)
        _leave_queue(connection, [text for text, _, _ in rows], model)

    def _insert(self, connection: apsw.Connection, insert: str, rows: Sequence[PackedVector], model: int) -> None:
        sql = f"{insert} INTO passage_vectors(text_id, vector, digest, model_id) VALUES(?, ?, ?, ?)"
        connection.executemany(sql, ((*row, model) for row in rows))

    def _queue_of(self, connection: apsw.Connection) -> int:  # noqa: ARG002 - a quick model uses the queue of another one
        """Return the number of the model whose queue is used."""
        return self._model_id

    def _objects(self, connection: apsw.Connection, object_ids: Sequence[str]) -> Iterable[Object]:
        return ObjectTables(connection).current(object_ids).values()

    def _texts_with(self, connection: apsw.Connection, hashes: Sequence[bytes]) -> dict[int, bytes]:
        return dict(in_batches(connection, "SELECT id, hash FROM passage_texts WHERE hash IN (?*)", hashes))

    def _add(self, connection: apsw.Connection, rows: Sequence[PackedVector]) -> None:
        texts = [text for text, _, _ in rows]
        with waiting_counted(connection, texts):
            self._insert(connection, "INSERT OR REPLACE", rows, self._model_id)
            _leave_queue(connection, texts, self._model_id)
            sql = f"DELETE FROM passage_vectors WHERE text_id = ? AND model_id IN ({QUICK_MODELS})"  # noqa: S608 - a constant
            connection.executemany(sql, ((text,) for text in texts))
            _log_texts(connection, texts)

    def _kept(self, connection: apsw.Connection, hashes: Sequence[bytes]) -> list[tuple[bytes, bytes, bytes | None]]:
        sql = (
            "SELECT t.hash, v.vector, v.digest FROM passage_texts t JOIN passage_vectors v "
            "ON v.text_id = t.id AND v.model_id = ? WHERE t.hash IN (?*)"
        )
        return list(in_batches(connection, sql, hashes, before=(self._model_id,)))


class SqliteQuickVectors(SqliteVectors):
    """The vectors of a quick model: for the texts that wait for an embedding by the model `main`."""

    def __init__(
        self,
        database: Database,
        passing: PassingCache,
        quick: Embedder,
        main: tuple[str, int],
        *,
        saves_at_once: bool = True,
    ) -> None:
        super().__init__(database, passing, f"{QUICK}{quick.model_id}", quick.dimension, saves_at_once=saves_at_once)
        self._main = main

    def _add_model(self, connection: apsw.Connection) -> int:
        return self._insert_model(connection)

    def _queue_of(self, connection: apsw.Connection) -> int:
        return find_model(connection, *self._main) or 0

    def _count(self, connection: apsw.Connection) -> Lag:
        queue = self._queue_of(connection)
        total = waiting_passages(connection, queue)
        model = self._find_model(connection)
        return Lag(total - waiting_passages(connection, queue, quick=model) if model else total, total)

    def _waiting(self, connection: apsw.Connection, limit: int) -> list[tuple[str, str]]:
        sql = _FIRST_WAITING.format(
            those="AND NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.text_id = q.text_id AND v.model_id = ?)"
        )
        return list(connection.execute(sql, (self._queue_of(connection), self._model_id, limit)))

    def _add(self, connection: apsw.Connection, rows: Sequence[PackedVector]) -> None:
        waiting = self._waiting_among(connection, [text for text, _, _ in rows])
        with waiting_counted(connection, waiting):
            self._keep_waiting(connection, [row for row in rows if row[0] in waiting])
            _log_texts(connection, waiting)


def _leave_queue(connection: apsw.Connection, texts: Sequence[int], model: int) -> None:
    sql = "DELETE FROM vector_queue WHERE text_id = ? AND model_id = ?"
    connection.executemany(sql, ((text, model) for text in texts))


def _log_texts(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    rows = in_batches(connection, "SELECT key FROM passages WHERE text_id IN (?*)", text_ids)
    log_vectors(connection, [key for (key,) in rows])


def find_model(connection: apsw.Connection, model: str, dimension: int) -> int | None:
    """Return the number of a model in this space."""
    sql = "SELECT id FROM passage_models WHERE name = ? AND dimension = ?"
    row = next(connection.execute(sql, (model, dimension)), None)
    return int(row[0]) if row else None


class SqliteVectorRows(SqliteLog):
    """`rows.vectors.VectorRows` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, model_id: int) -> None:
        super().__init__(connection)
        self._model_id = model_id

    def state(self) -> Hashable:
        """Return a value that changes with every write to the file."""
        return written_state(self.connection)

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors of the model, with the numbers of their texts."""
        return self.connection.execute(
            "SELECT text_id, vector FROM passage_vectors WHERE model_id = ?", (self._model_id,)
        )

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of the passages that are current and have a vector."""
        return list(in_batches(self.connection, f"{_SEARCHED} AND p.key IN (?*)", keys, before=(self._model_id,)))

    def vectors_of(self, keys: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Return the vectors of passages, current or not. Passages without a vector are left out."""
        sql = f"SELECT p.key, v.vector {JOINED} WHERE p.key IN (?*)"
        return in_batches(self.connection, sql, keys, before=(self._model_id,))

    def passing(self, reach: Reach, scopes: Scopes) -> Integers:
        """Return the keys of the current passages in reach."""
        return passing_keys(self.connection, reach, scopes)

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterator[tuple[int, bytes]]:
        """Return the vectors of passages in reach that are not current; all of them for a moment in the past."""
        seen = Sight(reach, scopes).condition()
        others = "1" if reach.at is not None else "p.live = 0"
        sql = f"SELECT p.key, v.vector {JOINED} WHERE {others} AND {seen.sql}"
        return self.connection.execute(sql, (self._model_id, *seen.bindings))
