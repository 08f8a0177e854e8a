"""Vectors of passages: durable by content hash, searched from a table in memory that follows the database."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from treering.edges.index_rows.passage_log import Moment
from treering.edges.index_rows.passing_cache import Scopes
from treering.edges.index_rows.vector_digests import vector_digest
from treering.edges.index_rows.vectors import FollowedVectors, stored_vector, undamaged_vectors
from treering.edges.index_rows.waiting import gists_of
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.followed_rows import (
    LOADED_AT_ONCE,
    Integers,
    PostgresLog,
    integers,
    sights_and_states,
)
from treering.edges.stores.postgres.index_state import MODELS, SHOWN, count_waiting, next_numbers, read_state
from treering.edges.stores.postgres.object_reads import ObjectReads
from treering.edges.stores.postgres.reach import PassageSight
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.edges.stores.postgres.vector_log import log_passages, moment_of
from treering.edges.stores.postgres.vector_queue import fill_queue
from treering.ports.reach import Reach
from treering.ports.vectors import Lag, Near, NearRequest, Pending, Vector

_State = tuple[int, Moment]

_JOINED = (
    "FROM passages p JOIN passage_vectors v ON v.space = p.space AND v.text_id = p.text_id "
    "AND v.model_id = %(model)s WHERE p.space = %(space)s"
)
_OF_KEYS = "AND p.key = ANY(%(keys)s::bigint[])"
_COUNT = (
    "SELECT count(*) FROM vector_queue q JOIN passages p ON p.space = q.space AND p.text_id = q.text_id "
    "WHERE q.space = %(space)s AND q.model_id = %(model)s AND p.live AND p.until_seq IS NULL"
)
_PENDING = (
    "SELECT encode(t.hash, 'hex'), p.object_id FROM "
    "(SELECT * FROM vector_queue WHERE space = %(space)s AND model_id = %(model)s "
    "ORDER BY priority, text_id LIMIT %(limit)s) AS q "
    "JOIN passage_texts t ON t.space = q.space AND t.id = q.text_id CROSS JOIN LATERAL "
    "(SELECT object_id FROM passages WHERE space = q.space AND text_id = q.text_id AND live AND until_seq IS NULL "
    "LIMIT 1) AS p ORDER BY q.priority, q.text_id"
)
_VECTOR = ("text_id bigint", "model_id integer", "vector bytea", "digest bytea")
_REPLACE = "ON CONFLICT (space, text_id, model_id) DO UPDATE SET vector = excluded.vector, digest = excluded.digest"


class PostgresVectors:
    """`ports.vectors.Vectors` over a `PostgresSpace`. Safe to use from many threads and processes.

    Two that embed the same text keep its vector twice, which changes nothing.
    """

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        self._space = space
        self._model = model
        self._dimension = dimension
        self._model_id = 0
        self._followed = FollowedVectors(dimension)
        self._counted: tuple[_State, Lag] | None = None

    def recognise(self, transaction: Transaction) -> bool:
        """Tell whether the space knows the model."""
        sql = "SELECT id FROM passage_models WHERE space = %(space)s AND name = %(name)s AND dimension = %(dimension)s"
        self._model_id = transaction.first(sql, name=self._model, dimension=self._dimension) or 0
        return bool(self._model_id)

    def register(self, transaction: Transaction) -> None:
        """Make the model known to the space, in a write transaction. What it has not embedded is queued."""
        if not self.recognise(transaction):
            [self._model_id] = next_numbers(transaction, MODELS, 1)
            row = (self._model_id, self._model, self._dimension)
            transaction.insert("passage_models", ("id integer", "name text", "dimension integer"), [row])
            fill_queue(transaction, self._model_id)

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, all of one moment."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            rows = PostgresVectorRows(transaction, self._model_id)
            seen = sights_and_states(transaction, [request.reach for request in requests])
            return [
                self._followed.near(rows, request, each.scopes) for request, each in zip(requests, seen, strict=True)
            ]

    def lag(self) -> Lag:
        """Count current passages, those whose text waits, and waiting objects; anew only when something was written."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            state, known = _state(transaction), self._counted
            if known is None or known[0] != state:
                pending = int(transaction.first(_COUNT, model=self._model_id))
                lag = Lag(pending, read_state(transaction, SHOWN), count_waiting(transaction))
                known = self._counted = (state, lag)
            return known[1]

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            waiting = transaction.rows(_PENDING, model=self._model_id, limit=limit)
            objects = ObjectReads(transaction).current(sorted({object_id for _, object_id in waiting}))
        texts = gists_of(objects.values())
        return [Pending(text_hash, texts[text_hash]) for text_hash, _ in waiting if text_hash in texts]

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors of texts that passages still have. Raises `InvalidInput` for another dimension."""
        stored = {
            bytes.fromhex(text_hash): stored_vector(vector, model=self._model, dimension=self._dimension)
            for text_hash, vector in vectors.items()
        }
        if stored:
            with rows_of("the index", hint=REINDEX), self._space.write() as transaction:
                self._add(transaction, stored)

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those of the texts, by content hash, that have one which is not damaged."""
        sql = (
            "SELECT t.hash, v.vector, v.digest FROM passage_texts t JOIN passage_vectors v "
            "ON v.space = t.space AND v.text_id = t.id AND v.model_id = %(model)s "
            "WHERE t.space = %(space)s AND t.hash = ANY(%(hashes)s::bytea[])"
        )
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            rows = transaction.rows(sql, model=self._model_id, hashes=list(map(bytes.fromhex, text_hashes)))
        return undamaged_vectors(rows, model=self._model, dimension=self._dimension)

    def _add(self, transaction: Transaction, stored: Mapping[bytes, bytes]) -> None:
        # A text that is not there was erased or rewritten while it was being embedded.
        sql = "SELECT id, hash FROM passage_texts WHERE space = %(space)s AND hash = ANY(%(hashes)s::bytea[])"
        known: dict[int, bytes] = dict(transaction.rows(sql, hashes=list(stored)))
        rows = [
            (text_id, self._model_id, stored[text_hash], vector_digest(self._model, text_hash, stored[text_hash]))
            for text_id, text_hash in known.items()
        ]
        transaction.insert("passage_vectors", _VECTOR, rows, conflict=_REPLACE)
        transaction.later(
            "DELETE FROM vector_queue WHERE space = %(space)s AND model_id = %(model)s "
            "AND text_id = ANY(%(texts)s::bigint[])",
            model=self._model_id,
            texts=list(known),
        )
        sql = "SELECT key FROM passages WHERE space = %(space)s AND text_id = ANY(%(texts)s::bigint[]) ORDER BY key"
        log_passages(transaction, transaction.column(sql, texts=list(known)))


class PostgresVectorRows(PostgresLog):
    """`index_rows.vectors.VectorRows` over a transaction."""

    def __init__(self, transaction: Transaction, model_id: int) -> None:
        super().__init__(transaction)
        self._model_id = model_id

    def state(self) -> Hashable:
        """Return what changes whenever anything is written."""
        return _state(self.transaction)

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors of the model, by the number of their text."""
        sql = f"SELECT text_id, vector FROM passage_vectors WHERE space = %(space)s AND model_id = {self._model_id:d}"  # noqa: S608 - a number
        return (
            (text_id, vector) for text_id, vector in self.transaction.stream("vectors", sql, at_once=LOADED_AT_ONCE)
        )

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of those of the passages that are current and have a vector."""
        sql = f"SELECT p.key, p.scope_id, v.vector {_JOINED} AND p.live AND p.until_seq IS NULL {_OF_KEYS}"
        rows = self.transaction.rows(sql, model=self._model_id, keys=list(keys))
        return [(key, scope, vector) for key, scope, vector in rows]

    def vectors_of(self, keys: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Return the vectors of those of the passages that have one, current or not."""
        rows = self.transaction.rows(
            f"SELECT p.key, v.vector {_JOINED} {_OF_KEYS}", model=self._model_id, keys=list(keys)
        )
        return ((key, vector) for key, vector in rows)

    def passing(self, reach: Reach, scopes: Scopes) -> Integers:
        """Return the keys of the current passages in reach that pass its filter."""
        seen = PassageSight(replace(reach, withdrawn=False), scopes).condition()
        sql = f"SELECT string_agg(int8send(p.key), '') FROM passages p WHERE p.space = %(space)s AND {seen.sql}"  # noqa: S608 - only our own SQL
        return integers(self.transaction.first(sql, **seen.bindings))

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterator[tuple[int, bytes]]:
        """Return the vectors in reach that are not among those of the current passages."""
        seen = PassageSight(reach, scopes).condition()
        others = "true" if reach.at is not None else "NOT p.live"
        sql = f"SELECT p.key, v.vector {_JOINED} AND {others} AND {seen.sql}"
        return ((key, vector) for key, vector in self.transaction.rows(sql, model=self._model_id, **seen.bindings))


def _state(transaction: Transaction) -> _State:
    return transaction.row.sequence, moment_of(transaction)
