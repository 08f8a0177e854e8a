"""The feed of vectors that an engine beside the file follows, and which engine that is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw
import numpy as np

from treering.ports.passages import Reach
from treering.ports.search import Vector
from treering.ports.vector_engine import ChosenEngine, Keys, VectorChanges
from treering.retrieval.index.tables import restored
from treering.stores.rows.passage_log import FeedPlace, short_hash
from treering.stores.rows.row_failures import REINDEX, row_of, rows_of
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.reach import PassingKeys, sight
from treering.stores.sqlite.index.vectors import SqliteLog

_FEW = 500  # keys in one statement
_CURRENT = "p.live = 1 AND p.until_seq IS NULL"
_JOINED = "passages p JOIN passage_vectors v ON v.text_id = p.text_id AND v.model_id = ?"
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
            sql = f"SELECT p.key, v.vector FROM {_JOINED} WHERE {_CURRENT} AND p.key > ? ORDER BY p.key LIMIT ?"  # noqa: S608 - constants
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
            sql = f"SELECT count(*) FROM {_JOINED} WHERE {_CURRENT}"  # noqa: S608 - constants
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
            sql = f"SELECT p.key, v.vector FROM {_JOINED} WHERE p.key IN ({marks}){where}"  # noqa: S608 - marks, constants
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
