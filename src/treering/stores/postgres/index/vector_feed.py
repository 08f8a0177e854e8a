"""The feed of vectors that an engine beside the database follows, and which engine that is."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from treering.ports.passages import Reach
from treering.ports.search import Vector
from treering.ports.vector_engine import ChosenEngine, Keys, VectorChanges
from treering.retrieval.index.tables import restored
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.filters import PassageSight
from treering.stores.postgres.index.followed_rows import moment_of, sights_and_states
from treering.stores.postgres.index.index_state import ALL_STATES, note_states
from treering.stores.postgres.index.vectors import PostgresVectorRows
from treering.stores.rows.passage_log import LOG_KEPT, FeedPlace, PassingCache, short_hash
from treering.stores.rows.row_failures import REINDEX, rows_of

_MODEL = "SELECT id FROM passage_models WHERE space = %(space)s AND name = %(name)s AND dimension = %(dimension)s"
_JOINED = (
    "FROM passages p JOIN passage_vectors v ON v.space = p.space AND v.text_id = p.text_id "
    f"AND v.model_id = ({_MODEL}) WHERE p.space = %(space)s"
)
_CURRENT = "AND p.live AND p.until_seq IS NULL"
_OF_KEYS = "AND p.key = ANY(%(keys)s::bigint[])"
_PAGE = f"SELECT p.key, v.vector {_JOINED} {_CURRENT} AND p.key > %(after)s ORDER BY p.key LIMIT %(limit)s"
_COUNT = f"SELECT count(*) {_JOINED} {_CURRENT}"
_HEAD = "SELECT hash FROM audit WHERE space = %(space)s AND seq = %(sequence)s"
_LOGGED = (
    "SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(after)s AND position <= %(until)s"
)
_FORGOTTEN = (
    "SELECT count(DISTINCT l.key) FROM vector_log l LEFT JOIN passages p ON p.space = l.space AND p.key = l.key "
    "WHERE l.space = %(space)s AND l.position > %(after)s AND p.key IS NULL"
)


class PostgresVectorFeed:
    """`ports.vector_engine.VectorFeed` over a `PostgresSpace`. A moment is a `FeedPlace`."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        self._space = space
        self._model = {"name": model, "dimension": dimension}
        self._passing = PassingCache()

    def moment(self) -> str:
        """Return the moment that the feed has reached."""
        with self._read() as transaction:
            return str(_now(transaction))

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return what changed since a moment; `None` where the log no longer reaches back to it."""
        with self._read() as transaction:
            begin = _known(transaction, moment)
            if begin is None:
                return None
            now = _now(transaction)
            until = min(now.position, begin.position + limit)
            reached = str(now.at(until))
            if until == begin.position:
                return VectorChanges(reached)
            keys = tuple(transaction.column(_LOGGED, after=begin.position, until=until))
            return VectorChanges(reached, keys, self._vectors(transaction, keys, _CURRENT), now.position - until)

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages that have a vector, by ascending key."""
        with self._read() as transaction:
            rows = transaction.rows(_PAGE, **self._model, after=after, limit=limit)
            vectors = {key: _unpacked(stored) for key, stored in rows}
            return VectorChanges(str(_now(transaction)), tuple(vectors), vectors)

    def forgotten_since(self, moment: str) -> int | None:
        """Count the passages in the log since a moment that are no rows any more."""
        with self._read() as transaction:
            begin = _known(transaction, moment)
            if begin is None:
                return None
            return int(transaction.first(_FORGOTTEN, after=begin.position))

    def count(self) -> int:
        """Count the current passages that have a vector."""
        with self._read() as transaction:
            return int(transaction.first(_COUNT, **self._model))

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return, for each reach, the current passages that it may see; `None` where it sees all of them."""
        with self._read() as transaction:
            return [self._allowed(transaction, seen) for seen in sights_and_states(transaction, reaches)]

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the passages that have one, current or not."""
        with self._read() as transaction:
            return self._vectors(transaction, keys, "")

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:
        """Return the engine that the space's row names."""
        row = self._space.last_row
        if fresh or row is None:
            with self._read() as transaction:
                row = transaction.row
        if not row.engine:
            return None
        mark, _, address = row.engine.partition(" ")
        return ChosenEngine(address, mark)

    def choose(self, engine: ChosenEngine | None) -> None:
        """Keep in the space's row which engine the space uses from now on."""
        told = f"{engine.mark} {engine.address}" if engine else None
        with self._space.write() as transaction:
            transaction.later("UPDATE spaces SET engine = %(engine)s WHERE space = %(space)s", engine=told)

    def _allowed(self, transaction: Transaction, seen: PassageSight) -> Keys | None:
        if seen.scopes is None and not seen.filtered:
            return None
        rows = PostgresVectorRows(transaction, 0)
        return self._passing.of(rows.state(), seen.reach, seen.scopes, rows.passing)

    def _vectors(self, transaction: Transaction, keys: Sequence[int], where: str) -> dict[int, Vector]:
        if not keys:
            return {}
        sql = f"SELECT p.key, v.vector {_JOINED} {where} {_OF_KEYS}"
        rows = transaction.rows(sql, **self._model, keys=[int(key) for key in keys])
        return {key: _unpacked(stored) for key, stored in rows}

    @contextmanager
    def _read(self) -> Iterator[Transaction]:
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            yield transaction


def _now(transaction: Transaction) -> FeedPlace:
    return FeedPlace(*moment_of(transaction), transaction.row.sequence, short_hash(transaction.row.hash))


def _known(transaction: Transaction, moment: str) -> FeedPlace | None:
    """Read a moment, and look whether the log of this space leads on from it."""
    place = FeedPlace.read(moment)
    if place is None:
        return None
    states, heads = transaction.together([(ALL_STATES, {}), (_HEAD, {"sequence": place.sequence})])
    note_states(transaction, states)
    now = _now(transaction)
    is_of_this_space = place.sequence == 0 or any(short_hash(told) == place.hash for (told,) in heads)
    is_kept = now.position - LOG_KEPT <= place.position <= now.position
    return place if place.epoch == now.epoch and is_of_this_space and is_kept else None


def _unpacked(stored: bytes) -> Vector:
    return restored(np.frombuffer(stored, np.int16))
