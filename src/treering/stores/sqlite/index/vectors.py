"""Vectors of passages: durable by content hash, searched from a table in memory that follows the file."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from hashlib import blake2b
from typing import cast

import apsw

from treering.core.objects import Object
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.ports.search import Lag
from treering.ports.vector_engine import ChosenEngine
from treering.stores.rows.fold import PRIORITY
from treering.stores.rows.passage_log import (
    LOG_KEPT,
    DatabaseFeed,
    FeedPlace,
    KeptTable,
    PassingCache,
    Scopes,
    VectorBodies,
)
from treering.stores.rows.upkeep import SHOWN
from treering.stores.rows.vectors import QUICK, DatabaseVectors, VectorRows, vector_digest
from treering.stores.sqlite.database import Database, remembered
from treering.stores.sqlite.index.kept_tables import (
    SqliteKeptTable,
    SqliteLog,
    count_forgotten,
    known_place,
    place_now,
)
from treering.stores.sqlite.index.tables import add_digests, count_waiting, has_digests, is_under_way
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.reading import (
    Integers,
    Sight,
    in_batches,
    passing_keys,
    read_state,
    shown_passages,
    sight,
    written_state,
)

# Which texts wait for a vector, whose vectors changed, and which process may embed.


_UNEMBEDDED = (
    f"SELECT :model AS model_id, text_id, {PRIORITY} AS priority FROM passages p "  # noqa: S608 - a constant
    "WHERE live = 1 AND until_seq IS NULL AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.text_id = p.text_id AND v.model_id = :model) GROUP BY text_id"
)
_WAITING = f"{_UNEMBEDDED} HAVING priority IS NOT NULL"


IS_QUICK = f"substr(name, 1, {len(QUICK)}) = '{QUICK}'"
"""Whether a model is a quick one, as SQL over `passage_models`."""


def settle_texts(connection: apsw.Connection, text_ids: Sequence[int], *, lost: Set[int]) -> None:
    """Queue texts that current passages have and no vector; forget texts that no passage has any more.

    `lost`: those of the texts that lost a passage. The others leave no queue, unless they have a vector, and no table.
    """
    models = [model for (model,) in connection.execute(f"SELECT id FROM passage_models WHERE NOT {IS_QUICK}")]  # noqa: S608 - a constant
    sql = (
        f"SELECT text_id, {PRIORITY} FROM passages WHERE text_id IN (?*) AND live = 1 AND until_seq IS NULL "  # noqa: S608 - a constant
        "GROUP BY text_id"
    )
    priorities = dict.fromkeys(text_ids) | dict(in_batches(connection, sql, text_ids))
    for model in models:
        _settle(connection, model, priorities, lost)
    forget_unused(connection, [one for one, priority in priorities.items() if priority is None and one in lost])


def forget_unused(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    """Forget those of the texts that no passage has, and no object whose passages are still to be made."""
    holders = ["passages", *(["waiting_texts"] if text_ids and is_under_way(connection) else [])]
    for text_id in text_ids:
        held = (connection.execute(f"SELECT 1 FROM {table} WHERE text_id = ? LIMIT 1", (text_id,)) for table in holders)  # noqa: S608 - our tables
        if not any(next(rows, None) for rows in held):
            connection.execute("DELETE FROM passage_vectors WHERE text_id = ?", (text_id,))
            connection.execute("DELETE FROM passage_texts WHERE id = ?", (text_id,))


def fill_queue(connection: apsw.Connection, model_id: int) -> None:
    """Queue everything current that has no vector of a model the space did not know so far."""
    connection.execute(f"INSERT INTO vector_queue(model_id, text_id, priority) {_WAITING}", {"model": model_id})


def queue_differences(connection: apsw.Connection, model_id: int) -> int:
    """Count the entries that are in the queue and should not be, or the other way round.

    What an older version queued, or in another order, may stay: it costs time and no answer.
    """
    queued = "SELECT text_id FROM vector_queue WHERE model_id = :model"
    sql = (
        f"SELECT (SELECT count(*) FROM (SELECT text_id FROM ({_WAITING}) EXCEPT {queued})) + "  # noqa: S608 - constants
        f"(SELECT count(*) FROM ({queued} EXCEPT SELECT text_id FROM ({_UNEMBEDDED})))"
    )
    return int(next(connection.execute(sql, {"model": model_id}))[0])


def log_vectors(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Note that the vectors of these passages begin or cease to be searched."""
    connection.executemany("INSERT INTO vector_log(key) VALUES(?)", ((key,) for key in keys))
    # Who has fallen further behind loads everything anew.
    connection.execute(
        "DELETE FROM vector_log WHERE position <= (SELECT max(position) FROM vector_log) - ?", (LOG_KEPT,)
    )


def _settle(connection: apsw.Connection, model_id: int, priorities: Mapping[int, int | None], lost: Set[int]) -> None:
    """Queue those of the texts that may wait, by how long, and have no vector; take the others out of the queue."""
    sql = "SELECT text_id FROM passage_vectors WHERE model_id = ? AND text_id IN (?*)"
    embedded = {text_id for (text_id,) in in_batches(connection, sql, list(priorities), before=(model_id,))}
    waiting = {one: priority for one, priority in priorities.items() if priority is not None and one not in embedded}
    settled = ((model_id, text_id) for text_id in sorted(embedded | lost) if text_id not in waiting)
    connection.executemany("DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?", settled)
    sql = "INSERT OR REPLACE INTO vector_queue(model_id, text_id, priority) VALUES(?, ?, ?)"
    connection.executemany(sql, ((model_id, text_id, priority) for text_id, priority in waiting.items()))


_FEW = 500  # keys in one statement
_SHORT_QUEUE = 3
"""A queue of so small a part of the passages is looked up in them, text by text; of a longer one it costs more."""

_JOINED = "FROM passages p JOIN passage_vectors v ON v.text_id = p.text_id AND v.model_id = ?"
_CURRENT = "p.live = 1 AND p.until_seq IS NULL"
_FIRST_WAITING = (
    "SELECT lower(hex(t.hash)), p.object_id FROM vector_queue q "
    "JOIN passage_texts t ON t.id = q.text_id JOIN passages p ON p.key = "
    "(SELECT key FROM passages WHERE text_id = q.text_id AND live = 1 AND until_seq IS NULL LIMIT 1) "
    "WHERE q.model_id = ? {those} ORDER BY q.priority, q.text_id DESC LIMIT ?"
)
_SEARCHED = f"SELECT p.key, p.scope_id, v.vector {_JOINED} WHERE {_CURRENT}"


class SqliteVectors(DatabaseVectors[apsw.Connection]):
    """`ports.search.Vectors` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(self, database: Database, passing: PassingCache, model: str, dimension: int) -> None:
        named = blake2b(f"{model}/{dimension}".encode(), digest_size=8).hexdigest()
        # The rows that it is given are those of this class.
        kept = cast("KeptTable[VectorRows]", SqliteKeptTable(database, f"vectors.{named}"))
        super().__init__(model, dimension, read=database.read, write=database.write, passing=passing, kept=kept)

    def _find_model(self, connection: apsw.Connection) -> int | None:
        return find_model(connection, self._model, self._dimension)

    def _add_model(self, connection: apsw.Connection) -> int:
        sql = "INSERT INTO passage_models(name, dimension) VALUES(?, ?)"
        connection.execute(sql, (self._model, self._dimension))
        model_id = connection.last_insert_rowid()
        fill_queue(connection, model_id)
        return model_id

    def _rows(self, connection: apsw.Connection) -> "SqliteVectorRows":
        return SqliteVectorRows(connection, self._model_id)

    def _scopes_of(self, connection: apsw.Connection, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        return [sight(connection, reach).scopes for reach in reaches]

    def _count(self, connection: apsw.Connection) -> Lag:
        pending = _count_waiting_passages(connection, self._model_id)
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
        # Its number is looked up: the quick model may have been made known by this transaction, which may yet fail.
        model = self._find_model(connection) or 0
        sql = (
            "SELECT text_id FROM vector_queue q WHERE q.model_id = ? AND NOT EXISTS "
            "(SELECT 1 FROM passage_vectors v WHERE v.text_id = q.text_id AND v.model_id = ?) AND q.text_id IN (?*)"
        )
        before = (self._queue_of(connection), model)
        return sorted(text_id for (text_id,) in in_batches(connection, sql, text_ids, before=before))

    def _keep(self, connection: apsw.Connection, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        sql = "INSERT OR IGNORE INTO passage_vectors(text_id, vector, digest, model_id) VALUES(?, ?, ?, ?)"
        connection.executemany(sql, ((*row, self._model_id) for row in rows))

    def _keep_waiting(self, connection: apsw.Connection, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        model = self._find_model(connection) or self._add_model(connection)
        sql = "INSERT INTO passage_vectors(text_id, vector, digest, model_id) VALUES(?, ?, ?, ?)"
        connection.executemany(sql, ((*row, model) for row in rows))
        sql = "DELETE FROM vector_queue WHERE text_id = ? AND model_id = ?"
        connection.executemany(sql, ((text_id, model) for text_id, _, _ in rows))

    def _queue_of(self, connection: apsw.Connection) -> int:  # noqa: ARG002 - that of a quick model is another one's
        """Return the number of the model whose queue says what waits."""
        return self._model_id

    def _objects(self, connection: apsw.Connection, object_ids: Sequence[str]) -> Iterable[Object]:
        return filter(None, map(ObjectTables(connection).get, object_ids))

    def _add(self, connection: apsw.Connection, stored: Mapping[bytes, bytes]) -> None:
        add_digests(connection)
        keys: list[int] = []
        for text_hash, vector in stored.items():
            row = next(connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (text_hash,)), None)
            if row is None:  # erased or rewritten while it was being embedded
                continue
            sql = "INSERT OR REPLACE INTO passage_vectors(model_id, text_id, vector, digest) VALUES(?, ?, ?, ?)"
            digest = vector_digest(self._model, text_hash, vector)
            connection.execute(sql, (self._model_id, row[0], vector, digest))
            sql = "DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?"
            connection.execute(sql, (self._model_id, row[0]))
            sql = f"DELETE FROM passage_vectors WHERE text_id = ? AND model_id IN ({_QUICK_MODELS})"  # noqa: S608 - a constant
            connection.execute(sql, row)
            keys += [key for (key,) in connection.execute("SELECT key FROM passages WHERE text_id = ?", row)]
        log_vectors(connection, keys)

    def _kept(self, connection: apsw.Connection, hashes: Sequence[bytes]) -> list[tuple[bytes, bytes, bytes | None]]:
        digest = "v.digest" if has_digests(connection) else "NULL"
        sql = (
            f"SELECT t.hash, v.vector, {digest} FROM passage_texts t JOIN passage_vectors v "  # noqa: S608 - marks
            "ON v.text_id = t.id AND v.model_id = ? WHERE t.hash IN (?*)"
        )
        return list(in_batches(connection, sql, hashes, before=(self._model_id,)))


_QUICK_MODELS = f"SELECT id FROM passage_models WHERE {IS_QUICK}"  # noqa: S608 - a constant


class SqliteQuickVectors(SqliteVectors):
    """Vectors of a quick model: of texts that wait for one of the model `main`, until they have it."""

    def __init__(self, database: Database, passing: PassingCache, quick: Embedder, main: tuple[str, int]) -> None:
        super().__init__(database, passing, f"{QUICK}{quick.model_id}", quick.dimension)
        self._main = main

    def _add_model(self, connection: apsw.Connection) -> int:
        sql = "INSERT INTO passage_models(name, dimension) VALUES(?, ?)"
        connection.execute(sql, (self._model, self._dimension))
        return connection.last_insert_rowid()

    def _queue_of(self, connection: apsw.Connection) -> int:
        return find_model(connection, *self._main) or 0

    def _count(self, connection: apsw.Connection) -> Lag:
        queue = self._queue_of(connection)
        total = _count_waiting_passages(connection, queue)
        model = self._find_model(connection)
        return Lag(_count_waiting_passages(connection, queue, without=model) if model else total, total)

    def _waiting(self, connection: apsw.Connection, limit: int) -> list[tuple[str, str]]:
        sql = _FIRST_WAITING.format(
            those="AND NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.text_id = q.text_id AND v.model_id = ?)"
        )
        return list(connection.execute(sql, (self._queue_of(connection), self._model_id, limit)))

    def _add(self, connection: apsw.Connection, stored: Mapping[bytes, bytes]) -> None:
        sql = "SELECT id, hash FROM passage_texts WHERE hash IN (?*)"
        hashes: dict[int, bytes] = dict(in_batches(connection, sql, list(stored)))
        rows = [
            (text_id, stored[text_hash], vector_digest(self._model, text_hash, stored[text_hash]))
            for text_id in self._waiting_among(connection, list(hashes))
            for text_hash in [hashes[text_id]]
        ]
        self._keep_waiting(connection, rows)
        sql = "SELECT key FROM passages WHERE text_id IN (?*)"
        log_vectors(connection, [key for (key,) in in_batches(connection, sql, [row[0] for row in rows])])


def _count_waiting_passages(connection: apsw.Connection, model_id: int, *, without: int | None = None) -> int:
    """Count the current passages whose text waits for a vector of a model, and has none of another one (`without`)."""
    lacking = "NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.text_id = p.text_id AND v.model_id = ?)"
    also, bindings = (f"AND {lacking}", (model_id, without)) if without else ("", (model_id,))
    waiting = int(next(connection.execute("SELECT count(*) FROM vector_queue WHERE model_id = ?", (model_id,)))[0])
    if waiting <= read_state(connection, SHOWN) // _SHORT_QUEUE:
        # CROSS JOIN keeps the order.
        found = "vector_queue q CROSS JOIN passages p ON p.text_id = q.text_id WHERE q.model_id = ?"
    else:  # the index of current passages has their texts: nothing else is read of them
        found = "passages p WHERE EXISTS (SELECT 1 FROM vector_queue q WHERE q.text_id = p.text_id AND q.model_id = ?)"
    sql = f"SELECT count(*) FROM {found} AND {_CURRENT} {also}"  # noqa: S608 - constants
    return int(next(connection.execute(sql, bindings))[0])


def find_model(connection: apsw.Connection, model: str, dimension: int) -> int | None:
    """Return the number under which a space knows a model."""
    sql = "SELECT id FROM passage_models WHERE name = ? AND dimension = ?"
    row = next(connection.execute(sql, (model, dimension)), None)
    return int(row[0]) if row else None


class SqliteVectorRows(SqliteLog):
    """`rows.vectors.VectorRows` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, model_id: int) -> None:
        super().__init__(connection)
        self._model_id = model_id

    def state(self) -> Hashable:
        """Return what changes whenever anything is written, here or by another connection."""
        return written_state(self.connection)

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        return shown_passages(self.connection)

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors of the model, by the number of their text."""
        return self.connection.execute(
            "SELECT text_id, vector FROM passage_vectors WHERE model_id = ?", (self._model_id,)
        )

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of those of the passages that are current and have a vector."""
        return list(in_batches(self.connection, f"{_SEARCHED} AND p.key IN (?*)", keys, before=(self._model_id,)))

    def vectors_of(self, keys: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Return the vectors of those of the passages that have one, current or not."""
        sql = f"SELECT p.key, v.vector {_JOINED} WHERE p.key IN (?*)"
        return in_batches(self.connection, sql, keys, before=(self._model_id,))

    def passing(self, reach: Reach, scopes: Scopes) -> Integers:
        """Return the keys of the current passages in reach that pass its filter."""
        return passing_keys(self.connection, reach, scopes)

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterator[tuple[int, bytes]]:
        """Return the vectors in reach that are not among those of the current passages."""
        seen = Sight(reach, scopes).condition()
        others = "1" if reach.at is not None else "p.live = 0"
        sql = f"SELECT p.key, v.vector {_JOINED} WHERE {others} AND {seen.sql}"
        return self.connection.execute(sql, (self._model_id, *seen.bindings))


# The feed of vectors that an engine beside the file follows, and which engine that is.


# keys in one statement
_CURRENT = "p.live = 1 AND p.until_seq IS NULL"
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
        """Return the engine that the space uses. A space that never used one has no table for it."""
        with self._read() as connection:
            return remembered(connection, "engine", partial(_chosen, connection))

    def choose(self, engine: ChosenEngine | None) -> None:
        """Keep durably which engine the space uses from now on."""
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
        sql = f"SELECT p.key, v.vector {_JOINED} WHERE {_CURRENT} AND p.key > ? ORDER BY p.key LIMIT ?"
        return connection.execute(sql, (self._model_id(connection), after, limit))

    def _of_keys(self, connection: apsw.Connection, keys: Sequence[int], *, current: bool) -> VectorBodies:
        sql = f"SELECT p.key, v.vector {_JOINED} WHERE {_CURRENT if current else '1'} AND p.key IN (?*)"
        return in_batches(connection, sql, [int(key) for key in keys], before=(self._model_id(connection),))

    def _count_forgotten(self, connection: apsw.Connection, after: int) -> int:
        return count_forgotten(connection, after)

    def _count(self, connection: apsw.Connection) -> int:
        sql = f"SELECT count(*) {_JOINED} WHERE {_CURRENT}"
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
