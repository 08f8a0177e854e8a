"""Vectors of passages: durable by content hash, searched from a table in memory that follows the file."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import numpy as np

from treering.ports.passages import Reach
from treering.ports.search import Lag, Near, NearRequest, Pending, Vector
from treering.ports.vector_engine import ChosenEngine, Keys, VectorChanges
from treering.retrieval.index.vectors import restored
from treering.stores.rows.fold import PRIORITY, gists_of
from treering.stores.rows.packing import REINDEX, row_of, rows_of
from treering.stores.rows.passage_log import LOG_KEPT, FeedPlace, Moment, Scopes, follow_log, short_hash
from treering.stores.rows.upkeep import EPOCH, SHOWN
from treering.stores.rows.vectors import FollowedVectors, stored_vector, undamaged_vectors, vector_digest
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.reach import PassingKeys, Sight, sight, written_state
from treering.stores.sqlite.index.tables import (
    Integers,
    add_digests,
    count_waiting,
    has_digests,
    is_under_way,
    read_state,
    shown_passages,
)
from treering.stores.sqlite.ledger.object_tables import ObjectTables

# Which texts wait for a vector, whose vectors changed, and which process may embed.


_WAITING = (
    f"SELECT :model, text_id, {PRIORITY} FROM passages p "  # noqa: S608 - a constant
    "WHERE live = 1 AND until_seq IS NULL AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.text_id = p.text_id AND v.model_id = :model) GROUP BY text_id"
)


def settle_texts(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    """Queue texts that current passages have and no vector; forget texts that no passage has any more."""
    models = [model for (model,) in connection.execute("SELECT id FROM passage_models")]
    unshown: list[int] = []
    for text_id in text_ids:
        sql = f"SELECT {PRIORITY} FROM passages WHERE text_id = ? AND live = 1 AND until_seq IS NULL"  # noqa: S608 - a constant
        priority = next(connection.execute(sql, (text_id,)))[0]
        for model in models:
            _settle(connection, model, text_id, priority)
        if priority is None:
            unshown.append(text_id)
    forget_unused(connection, unshown)


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
    """Count the entries that are in the queue and should not be, or the other way round."""
    queued = "SELECT model_id, text_id, priority FROM vector_queue WHERE model_id = :model"
    sql = (
        f"SELECT (SELECT count(*) FROM ({_WAITING} EXCEPT {queued})) + "  # noqa: S608 - constants
        f"(SELECT count(*) FROM ({queued} EXCEPT {_WAITING}))"
    )
    return int(next(connection.execute(sql, {"model": model_id}))[0])


def log_vectors(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Note that the vectors of these passages begin or cease to be searched."""
    connection.executemany("INSERT INTO vector_log(key) VALUES(?)", ((key,) for key in keys))
    # Who has fallen further behind loads everything anew.
    connection.execute(
        "DELETE FROM vector_log WHERE position <= (SELECT max(position) FROM vector_log) - ?", (LOG_KEPT,)
    )


class SqliteLog:
    """`rows.passage_log.PassageLog` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def moment(self) -> Moment:
        """Return the moment of the connection's snapshot."""
        row = next(self.connection.execute("SELECT max(position) FROM vector_log"), None)
        return read_state(self.connection, EPOCH), int(row[0] or 0) if row else 0

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        oldest = next(self.connection.execute("SELECT min(position) FROM vector_log"))[0]
        if oldest is None or oldest > position + 1:
            return None
        sql = "SELECT DISTINCT key FROM vector_log WHERE position > ?"
        return [key for (key,) in self.connection.execute(sql, (position,))]


def catch_up(
    connection: apsw.Connection,
    seen: Moment | None,
    *,
    load: Callable[[apsw.Connection], None],
    reread: Callable[[apsw.Connection, Sequence[int]], None],
) -> Moment:
    """Bring a table in memory to the moment of the connection's snapshot, as `follow_log` does."""
    return follow_log(
        SqliteLog(connection), seen, load=lambda: load(connection), reread=lambda keys: reread(connection, keys)
    )


def _settle(connection: apsw.Connection, model_id: int, text_id: int, priority: int | None) -> None:
    if priority is None or _has_vector(connection, model_id, text_id):
        sql = "DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?"
        connection.execute(sql, (model_id, text_id))
        return
    sql = "INSERT OR REPLACE INTO vector_queue(model_id, text_id, priority) VALUES(?, ?, ?)"
    connection.execute(sql, (model_id, text_id, priority))


def _has_vector(connection: apsw.Connection, model_id: int, text_id: int) -> bool:
    sql = "SELECT 1 FROM passage_vectors WHERE text_id = ? AND model_id = ?"
    return next(connection.execute(sql, (text_id, model_id)), None) is not None


_FEW = 500  # keys in one statement

_JOINED = "FROM passages p JOIN passage_vectors v ON v.text_id = p.text_id AND v.model_id = ?"
_SEARCHED = f"SELECT p.key, p.scope_id, v.vector {_JOINED} WHERE p.live = 1 AND p.until_seq IS NULL"


class SqliteVectors:
    """`ports.search.Vectors` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(self, database: Database, passing: PassingKeys, model: str, dimension: int) -> None:
        self._database = database
        self._passing = passing
        self._model = model
        self._dimension = dimension
        self._model_id = 0
        self._followed = FollowedVectors(dimension)
        self._counted: tuple[Hashable, Lag] | None = None

    def recognise(self, connection: apsw.Connection) -> bool:
        """Tell whether the space knows the model."""
        sql = "SELECT id FROM passage_models WHERE name = ? AND dimension = ?"
        row = next(connection.execute(sql, (self._model, self._dimension)), None)
        self._model_id = int(row[0]) if row else 0
        return bool(self._model_id)

    def register(self, connection: apsw.Connection) -> None:
        """Make the model known to the space, in a write transaction. What it has not embedded is queued."""
        if not self.recognise(connection):
            sql = "INSERT INTO passage_models(name, dimension) VALUES(?, ?)"
            connection.execute(sql, (self._model, self._dimension))
            self._model_id = connection.last_insert_rowid()
            fill_queue(connection, self._model_id)

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, all of one moment."""
        with self._read() as connection:
            rows = SqliteVectorRows(connection, self._model_id, self._passing)
            return [self._followed.near(rows, request, sight(connection, request.reach).scopes) for request in requests]

    def lag(self) -> Lag:
        """Count current passages, those whose text waits, and waiting objects; anew only when something was written."""
        with self._read() as connection:
            state, known = written_state(connection), self._counted
            if known is None or known[0] != state:
                known = self._counted = (state, self._count(connection))
            return known[1]

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        with self._read() as connection:
            waiting = self._waiting(connection, limit)
            tables = ObjectTables(connection)
            objects = (tables.get(identity) for identity in sorted({object_id for _, object_id in waiting}))
            texts = gists_of(item for item in objects if item)
        return [Pending(text_hash, texts[text_hash]) for text_hash, _ in waiting if text_hash in texts]

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors of texts that passages still have. Raises `InvalidInput` for another dimension."""
        with self._database.write() as connection:
            add_digests(connection)
            keys: list[int] = []
            for text_hash, vector in vectors.items():
                stored = stored_vector(vector, model=self._model, dimension=self._dimension)
                keys += self._add(connection, bytes.fromhex(text_hash), stored)
            log_vectors(connection, keys)

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those of the texts, by content hash, that have one which is not damaged."""
        rows: list[tuple[bytes, bytes, bytes | None]] = []
        with self._read() as connection:
            digest = "v.digest" if has_digests(connection) else "NULL"
            for start in range(0, len(text_hashes), _FEW):
                batch = [bytes.fromhex(one) for one in text_hashes[start : start + _FEW]]
                sql = (
                    f"SELECT t.hash, v.vector, {digest} FROM passage_texts t JOIN passage_vectors v "  # noqa: S608 - marks
                    f"ON v.text_id = t.id AND v.model_id = ? WHERE t.hash IN ({','.join('?' * len(batch))})"
                )
                rows += connection.execute(sql, (self._model_id, *batch))
        return undamaged_vectors(rows, model=self._model, dimension=self._dimension)

    def _waiting(self, connection: apsw.Connection, limit: int) -> list[tuple[str, str]]:
        """Return content hash and object of texts that wait, those to embed first at the front."""
        sql = (
            "SELECT hex(t.hash), p.object_id FROM vector_queue q "
            "JOIN passage_texts t ON t.id = q.text_id JOIN passages p ON p.key = "
            "(SELECT key FROM passages WHERE text_id = q.text_id AND live = 1 AND until_seq IS NULL LIMIT 1) "
            "WHERE q.model_id = ? ORDER BY q.priority, q.text_id LIMIT ?"
        )
        rows = connection.execute(sql, (self._model_id, limit))
        return [(text_hash.lower(), object_id) for text_hash, object_id in rows]

    def _count(self, connection: apsw.Connection) -> Lag:
        # CROSS JOIN keeps the order: the queue is short, most of the time.
        sql = (
            "SELECT count(*) FROM vector_queue q CROSS JOIN passages p ON p.text_id = q.text_id "
            "WHERE q.model_id = ? AND p.live = 1 AND p.until_seq IS NULL"
        )
        pending = int(next(connection.execute(sql, (self._model_id,)))[0])
        return Lag(pending, read_state(connection, SHOWN), count_waiting(connection))

    def _add(self, connection: apsw.Connection, text_hash: bytes, stored: bytes) -> list[int]:
        """Keep one vector; return the passages it is for."""
        row = next(connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (text_hash,)), None)
        if row is None:  # erased or rewritten while it was being embedded
            return []
        sql = "INSERT OR REPLACE INTO passage_vectors(model_id, text_id, vector, digest) VALUES(?, ?, ?, ?)"
        digest = vector_digest(self._model, text_hash, stored)
        connection.execute(sql, (self._model_id, row[0], stored, digest))
        sql = "DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?"
        connection.execute(sql, (self._model_id, row[0]))
        return [key for (key,) in connection.execute("SELECT key FROM passages WHERE text_id = ?", row)]

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the index to what they should be."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            yield connection


class SqliteVectorRows(SqliteLog):
    """`rows.vectors.VectorRows` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, model_id: int, passing: PassingKeys) -> None:
        super().__init__(connection)
        self._passing = passing
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
        return list(self._of_keys(f"{_SEARCHED} AND p.key IN ", keys))

    def vectors_of(self, keys: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Return the vectors of those of the passages that have one, current or not."""
        return self._of_keys(f"SELECT p.key, v.vector {_JOINED} WHERE p.key IN ", keys)

    def passing(self, reach: Reach, scopes: Scopes) -> Integers:
        """Return the keys of the current passages in reach that pass its filter."""
        return self._passing.of(self.connection, Sight(reach, scopes))

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterator[tuple[int, bytes]]:
        """Return the vectors in reach that are not among those of the current passages."""
        seen = Sight(reach, scopes).condition()
        others = "1" if reach.at is not None else "p.live = 0"
        sql = f"SELECT p.key, v.vector {_JOINED} WHERE {others} AND {seen.sql}"
        return self.connection.execute(sql, (self._model_id, *seen.bindings))

    def _of_keys(self, sql: str, keys: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(keys), _FEW):
            batch = keys[start : start + _FEW]
            yield from self.connection.execute(f"{sql} ({','.join('?' * len(batch))})", (self._model_id, *batch))


# The feed of vectors that an engine beside the file follows, and which engine that is.


# keys in one statement
_CURRENT = "p.live = 1 AND p.until_seq IS NULL"
_FEED_JOINED = "passages p JOIN passage_vectors v ON v.text_id = p.text_id AND v.model_id = ?"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS vector_engine(id INTEGER PRIMARY KEY CHECK(id = 1), address TEXT NOT NULL, "
    "mark TEXT NOT NULL)"
)
# Two queries: one that asks for both ends reads the whole log.
_LOGGED = "SELECT (SELECT min(position) FROM vector_log), (SELECT max(position) FROM vector_log)"


class SqliteVectorFeed:
    """`ports.vector_engine.VectorFeed` over the ledger's `Database`. A moment is a `FeedPlace`."""

    def __init__(self, database: Database, model: str, dimension: int) -> None:
        self._database = database
        self._model = (model, dimension)
        self._passing = PassingKeys()

    def moment(self) -> str:
        """Return the moment that the feed has reached."""
        with self._read() as connection:
            return str(_now(connection))

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return what changed since a moment; `None` where the log no longer reaches back to it."""
        with self._read() as connection:
            begin = _known(connection, moment)
            if begin is None:
                return None
            now = _now(connection)
            until = min(now.position, begin.position + limit)
            sql = "SELECT DISTINCT key FROM vector_log WHERE position > ? AND position <= ?"
            keys = tuple(key for (key,) in connection.execute(sql, (begin.position, until)))
            vectors = self._vectors(connection, keys, f" AND {_CURRENT}")
            return VectorChanges(str(now.at(until)), keys, vectors, now.position - until)

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages that have a vector, by ascending key."""
        with self._read() as connection:
            sql = f"SELECT p.key, v.vector FROM {_FEED_JOINED} WHERE {_CURRENT} AND p.key > ? ORDER BY p.key LIMIT ?"  # noqa: S608 - constants
            rows = connection.execute(sql, (self._model_id(connection), after, limit))
            vectors = {key: _unpacked(blob) for key, blob in rows}
            return VectorChanges(str(_now(connection)), tuple(vectors), vectors)

    def forgotten_since(self, moment: str) -> int | None:
        """Count the passages in the log since a moment that are no rows any more."""
        with self._read() as connection:
            begin = _known(connection, moment)
            if begin is None:
                return None
            sql = (
                "SELECT count(DISTINCT l.key) FROM vector_log l LEFT JOIN passages p ON p.key = l.key "
                "WHERE l.position > ? AND p.key IS NULL"
            )
            return int(next(connection.execute(sql, (begin.position,)))[0])

    def count(self) -> int:
        """Count the current passages that have a vector."""
        with self._read() as connection:
            sql = f"SELECT count(*) FROM {_FEED_JOINED} WHERE {_CURRENT}"  # noqa: S608 - constants
            return int(next(connection.execute(sql, (self._model_id(connection),)))[0])

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return, for each reach, the current passages that it may see; `None` where it sees all of them."""
        with self._read() as connection:
            return [self._allowed(connection, reach) for reach in reaches]

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the passages that have one, current or not."""
        with self._read() as connection:
            return self._vectors(connection, keys, "")

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:  # noqa: ARG002 - reading it is cheap
        """Return the engine that the space uses. A space that never used one has no table for it."""
        with self._read() as connection:
            if not next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'vector_engine'"), None):
                return None
            row = next(connection.execute("SELECT address, mark FROM vector_engine"), None)
            return ChosenEngine(*row) if row else None

    def choose(self, engine: ChosenEngine | None) -> None:
        """Keep durably which engine the space uses from now on."""
        with self._database.write() as connection:
            connection.execute(_TABLE)
            connection.execute("DELETE FROM vector_engine")
            if engine:
                sql = "INSERT INTO vector_engine(id, address, mark) VALUES(1, ?, ?)"
                connection.execute(sql, (engine.address, engine.mark))

    def _allowed(self, connection: apsw.Connection, reach: Reach) -> Keys | None:
        seen = sight(connection, reach)
        if seen.scopes is None and not seen.filtered:
            return None
        return self._passing.of(connection, seen)

    def _vectors(self, connection: apsw.Connection, keys: Sequence[int], where: str) -> dict[int, Vector]:
        found: dict[int, Vector] = {}
        model = self._model_id(connection)
        for start in range(0, len(keys), _FEW):
            batch = [int(key) for key in keys[start : start + _FEW]]
            marks = ",".join("?" * len(batch))
            sql = f"SELECT p.key, v.vector FROM {_FEED_JOINED} WHERE p.key IN ({marks}){where}"  # noqa: S608 - marks, constants
            found |= {key: _unpacked(blob) for key, blob in connection.execute(sql, (model, *batch))}
        return found

    def _model_id(self, connection: apsw.Connection) -> int:
        row = next(
            connection.execute("SELECT id FROM passage_models WHERE name = ? AND dimension = ?", self._model), None
        )
        return int(row[0]) if row else 0

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            yield connection


def _now(connection: apsw.Connection) -> FeedPlace:
    row = next(connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"), (0, ""))
    with row_of("the audit log"):
        return FeedPlace(*SqliteLog(connection).moment(), int(row[0]), short_hash(row[1]))


def _known(connection: apsw.Connection, moment: str) -> FeedPlace | None:
    """Read a moment, and look whether the log of this space leads on from it."""
    place = FeedPlace.read(moment)
    if place is None or not _is_of(connection, place):
        return None
    first, last = next(connection.execute(_LOGGED))
    reached = place.position <= (last or 0) and (first is None or first <= place.position + 1)
    return place if reached else None


def _is_of(connection: apsw.Connection, place: FeedPlace) -> bool:
    if place.epoch != SqliteLog(connection).moment()[0]:
        return False
    row = next(connection.execute("SELECT hash FROM audit WHERE seq = ?", (place.sequence,)), None)
    return place.sequence == 0 or (row is not None and short_hash(row[0]) == place.hash)


def _unpacked(blob: bytes) -> Vector:
    return restored(np.frombuffer(blob, np.int16))
