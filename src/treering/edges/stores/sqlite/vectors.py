"""Vectors of passages: durable by content hash, searched from a table in memory that follows the file."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nsmallest
from itertools import islice

import apsw
import numpy as np
import numpy.typing as npt

from treering.core.errors import InvalidInput
from treering.derived.passages import gist_hash, passages_of
from treering.derived.vectors import Stored, VectorTable, restored, stored_form
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.object_tables import ObjectTables
from treering.edges.stores.sqlite.passing import PassingKeys, State, state_of
from treering.edges.stores.sqlite.reach import Sight, sight
from treering.edges.stores.sqlite.tables import SHOWN, add_digests, count_waiting, read_state
from treering.edges.stores.sqlite.vector_digests import vector_digest
from treering.edges.stores.sqlite.vector_queue import Moment, catch_up, fill_queue, log_vectors
from treering.edges.stores.sqlite.whole_columns import shown_passages
from treering.ports.text import Scored
from treering.ports.vectors import Lag, Near, NearRequest, Pending, Vector

_Keys = npt.NDArray[np.int64]
_BATCH = 2_048  # rows read at a time: what they weigh stays in the cache
_FEW = 500  # keys in one statement

_SEARCHED = (
    "SELECT p.key, p.scope_id, v.vector FROM passages p JOIN passage_vectors v "
    "ON v.text_id = p.text_id AND v.model_id = ? WHERE p.live = 1 AND p.until_seq IS NULL"
)


class SqliteVectors:
    """`ports.vectors.Vectors` over the ledger's `Database`."""

    def __init__(self, database: Database, model: str, dimension: int) -> None:
        self._database = database
        self._tables = VectorTables(model, dimension)

    def recognise(self, connection: apsw.Connection) -> bool:
        """Tell whether the space knows the model."""
        return self._tables.recognise(connection)

    def register(self, connection: apsw.Connection) -> None:
        """Make the model known to the space, in a write transaction. What it has not embedded is queued."""
        self._tables.register(connection)

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, all of one moment."""
        with self._read() as connection:
            return [self._near(connection, request) for request in requests]

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        with self._read() as connection:
            return self._tables.lag(connection)

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        with self._read() as connection:
            waiting = self._tables.waiting(connection, limit)
            texts = _gists(connection, {object_id for _, object_id, _ in waiting})
        return [Pending(text_hash, texts[text_hash]) for text_hash, _, _ in waiting if text_hash in texts]

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably. Raises `InvalidInput` for a vector of another dimension."""
        with self._database.write() as connection:
            self._tables.add(connection, vectors)

    def _near(self, connection: apsw.Connection, request: NearRequest) -> Near:
        seen = sight(connection, request.reach)
        found = {
            hit.key
            for vector, limit in zip(request.vectors, request.limits, strict=True)
            if limit
            for hit in self._tables.rank(connection, vector, seen, limit)
        }
        keys = sorted(found.union(request.keys))
        cosines = [self._tables.similarities(connection, vector, keys) for vector in request.vectors]
        return Near(frozenset(found), cosines)

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the index to what they should be."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            yield connection


class VectorTables:
    """The vectors one model made. Safe to use from many threads."""

    def __init__(self, model: str, dimension: int) -> None:
        self._model = model
        self._dimension = dimension
        self._model_id = 0
        self._lock = threading.Lock()
        self._table = VectorTable(dimension)
        self._scopes = np.zeros(0, np.int32)
        """By key: the scope of a passage in the table, 0 where there is none."""
        self._seen: Moment | None = None
        self._counted: tuple[State, Lag] | None = None
        self._passing = PassingKeys()

    def recognise(self, connection: apsw.Connection) -> bool:
        """Tell whether the space knows the model."""
        self._model_id = self._find_model(connection)
        return bool(self._model_id)

    def register(self, connection: apsw.Connection) -> None:
        """Make the model known to the space, in a write transaction. What it has not embedded is queued."""
        if not self.recognise(connection):
            sql = "INSERT INTO passage_models(name, dimension) VALUES(?, ?)"
            connection.execute(sql, (self._model, self._dimension))
            self._model_id = connection.last_insert_rowid()
            fill_queue(connection, self._model_id)

    def add(self, connection: apsw.Connection, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors of texts that passages still have. Raises `InvalidInput` for another dimension."""
        add_digests(connection)
        keys: list[int] = []
        for text_hash, vector in vectors.items():
            if vector.shape != (self._dimension,):
                raise InvalidInput(
                    f"A vector of shape {vector.shape} cannot be kept for {self._model}.",
                    hint=f"This index keeps {self._dimension} components.",
                )
            keys += self._add(connection, bytes.fromhex(text_hash), vector)
        log_vectors(connection, keys)

    def waiting(self, connection: apsw.Connection, limit: int) -> list[tuple[str, str, str]]:
        """Return content hash, object and part of texts that wait, those to embed first at the front."""
        sql = (
            "SELECT hex(t.hash), p.object_id, p.part FROM vector_queue q "
            "JOIN passage_texts t ON t.id = q.text_id JOIN passages p ON p.key = "
            "(SELECT key FROM passages WHERE text_id = q.text_id AND live = 1 AND until_seq IS NULL LIMIT 1) "
            "WHERE q.model_id = ? ORDER BY q.priority, q.text_id LIMIT ?"
        )
        rows = connection.execute(sql, (self._model_id, limit))
        return [(text_hash.lower(), object_id, part) for text_hash, object_id, part in rows]

    def lag(self, connection: apsw.Connection) -> Lag:
        """Count current passages, those whose text waits, and waiting objects; anew only when something was written."""
        state, known = state_of(connection), self._counted
        if known is None or known[0] != state:
            known = self._counted = (state, self._count(connection))
        return known[1]

    def rank(self, connection: apsw.Connection, vector: Vector, sight: Sight, limit: int) -> list[Scored]:
        """Rank what is in sight by cosine. What is not current is read from the file and compared exactly."""
        if sight.reach.at is not None:
            return _best(self._scan(connection, vector, sight, "1"), limit)
        found = self._search(connection, vector, sight, limit)
        if sight.reach.withdrawn:
            found += self._scan(connection, vector, sight, "p.live = 0")
        return _best(found, limit)

    def similarities(self, connection: apsw.Connection, vector: Vector, keys: Sequence[int]) -> dict[int, float]:
        """Return the cosines of those of the keys that have a vector."""
        wanted = np.array(keys, np.int64)
        with self._lock:
            self._refresh(connection)
            scores = self._table.scores(vector, wanted)
        known = {int(key): float(score) for key, score in zip(wanted, scores, strict=True) if not np.isnan(score)}
        others = self.read(connection, [key for key in keys if key not in known])
        return known | {key: float(other @ vector) for key, other in others.items()}

    def read(self, connection: apsw.Connection, keys: Sequence[int]) -> dict[int, Vector]:
        """Read the vectors of those of the keys that have one."""
        found: dict[int, Vector] = {}
        for start in range(0, len(keys), _FEW):
            batch = keys[start : start + _FEW]
            marks = ",".join("?" * len(batch))
            sql = (
                "SELECT p.key, v.vector FROM passages p JOIN passage_vectors v "  # noqa: S608 - marks
                f"ON v.text_id = p.text_id AND v.model_id = ? WHERE p.key IN ({marks})"
            )
            found |= {key: _unpacked(blob) for key, blob in connection.execute(sql, (self._model_id, *batch))}
        return found

    def _count(self, connection: apsw.Connection) -> Lag:
        # CROSS JOIN keeps the order: the queue is short, most of the time.
        sql = (
            "SELECT count(*) FROM vector_queue q CROSS JOIN passages p ON p.text_id = q.text_id "
            "WHERE q.model_id = ? AND p.live = 1 AND p.until_seq IS NULL"
        )
        pending = int(next(connection.execute(sql, (self._model_id,)))[0])
        return Lag(pending, read_state(connection, SHOWN), count_waiting(connection))

    def _find_model(self, connection: apsw.Connection) -> int:
        sql = "SELECT id FROM passage_models WHERE name = ? AND dimension = ?"
        row = next(connection.execute(sql, (self._model, self._dimension)), None)
        return int(row[0]) if row else 0

    def _add(self, connection: apsw.Connection, digest: bytes, vector: Vector) -> list[int]:
        """Keep one vector; return the passages it is for."""
        row = next(connection.execute("SELECT id FROM passage_texts WHERE hash = ?", (digest,)), None)
        if row is None:  # erased or rewritten while it was being embedded
            return []
        stored = stored_form(vector).tobytes()
        sql = "INSERT OR REPLACE INTO passage_vectors(model_id, text_id, vector, digest) VALUES(?, ?, ?, ?)"
        connection.execute(sql, (self._model_id, row[0], stored, vector_digest(self._model, digest, stored)))
        sql = "DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?"
        connection.execute(sql, (self._model_id, row[0]))
        return [key for (key,) in connection.execute("SELECT key FROM passages WHERE text_id = ?", row)]

    def _search(self, connection: apsw.Connection, vector: Vector, sight: Sight, limit: int) -> list[Scored]:
        filtered = self._passing.of(connection, sight) if sight.filtered else None
        with self._lock:
            self._refresh(connection)
            allowed = filtered if filtered is not None else self._in_scope(sight)
            keys, scores = self._table.search(vector, limit=limit, allowed=allowed)
        return [Scored(int(key), float(score)) for key, score in zip(keys, scores, strict=True)]

    def _in_scope(self, sight: Sight) -> _Keys | None:
        if sight.scopes is None:
            return None
        seen = np.zeros(max(int(self._scopes.max(initial=0)), *sight.scopes, 0) + 1, np.bool_)
        seen[list(sight.scopes)] = True
        seen[0] = False
        return np.flatnonzero(seen[self._scopes])

    def _scan(self, connection: apsw.Connection, vector: Vector, sight: Sight, where: str) -> list[Scored]:
        seen = sight.condition()
        sql = (
            "SELECT p.key, v.vector FROM passages p JOIN passage_vectors v "  # noqa: S608 - only our own SQL
            f"ON v.text_id = p.text_id AND v.model_id = ? WHERE {where} AND {seen.sql}"
        )
        rows = connection.execute(sql, (self._model_id, *seen.bindings))
        return [Scored(key, float(_unpacked(blob) @ vector)) for key, blob in rows]

    def _refresh(self, connection: apsw.Connection) -> None:
        """Bring the table in memory to the moment of the connection's snapshot."""
        self._seen = catch_up(connection, self._seen, load=self._load, reread=self._reread)

    def _load(self, connection: apsw.Connection) -> None:
        """Fill the table from two scans, joined here: as a join in SQL it would jump about in the file."""
        self._table = VectorTable(self._dimension)
        self._scopes = np.zeros(0, np.int32)
        keys, scopes, of_texts = shown_passages(connection)
        order = np.argsort(of_texts, kind="stable")
        keys, scopes, of_texts = keys[order], scopes[order], of_texts[order]
        self._reserve(len(keys), int(keys.max(initial=0)))
        rows = connection.execute("SELECT text_id, vector FROM passage_vectors WHERE model_id = ?", (self._model_id,))
        while batch := list(islice(rows, _BATCH)):
            texts = np.array([text_id for text_id, _ in batch], np.int64)
            first, last = (np.searchsorted(of_texts, texts, side) for side in ("left", "right"))
            counts = last - first  # passages that have the text
            which = np.repeat(np.arange(len(batch)), counts)
            at = np.arange(len(which)) + np.repeat(first - np.cumsum(counts) + counts, counts)
            vectors = self._matrix([blob for _, blob in batch])
            # Mostly every text has one passage; then nothing is copied.
            self._put(keys[at], scopes[at], vectors if np.all(counts == 1) else vectors[which])

    def _reread(self, connection: apsw.Connection, keys: Sequence[int]) -> None:
        for start in range(0, len(keys), _FEW):
            batch = keys[start : start + _FEW]
            sql = f"{_SEARCHED} AND p.key IN ({','.join('?' * len(batch))})"
            rows = list(connection.execute(sql, (self._model_id, *batch)))
            gone = np.array(sorted(set(batch) - {key for key, _, _ in rows}), np.int64)
            self._table.discard(gone)
            self._scopes[gone[gone < len(self._scopes)]] = 0
            places = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
            self._put(places[:, 0], places[:, 1], self._matrix([blob for _, _, blob in rows]))

    def _reserve(self, rows: int, greatest_key: int) -> None:
        """Make room for what is loaded; memory that is never written is never taken."""
        room = greatest_key + 1 + greatest_key // 4
        self._table.reserve(rows + rows // 8, room)
        self._scopes = np.zeros(room, np.int32)

    def _put(self, keys: _Keys, scopes: _Keys, vectors: Stored) -> None:
        self._table.add_stored(keys, vectors)
        most = int(keys.max(initial=-1))
        if most >= len(self._scopes):
            room = np.zeros(most + 1 + most // 4, np.int32)
            room[: len(self._scopes)] = self._scopes
            self._scopes = room
        self._scopes[keys] = scopes

    def _matrix(self, blobs: Sequence[bytes]) -> Stored:
        return np.frombuffer(b"".join(blobs), np.int16).reshape(-1, self._dimension)


def _gists(connection: apsw.Connection, object_ids: set[str]) -> dict[str, str]:
    """Read the texts to embed of some objects from the ledger, by content hash."""
    tables = ObjectTables(connection)
    objects = [item for identity in sorted(object_ids) if (item := tables.get(identity))]
    return {gist_hash(passage): passage.gist for item in objects for passage in passages_of(item)}


def _unpacked(blob: bytes) -> Vector:
    return restored(np.frombuffer(blob, np.int16))


def _best(found: Sequence[Scored], limit: int) -> list[Scored]:
    return nsmallest(limit, found, key=lambda hit: (-hit.score, hit.key))
