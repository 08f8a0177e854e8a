"""The vectors of passages: stored by text, and searched in a table in memory that follows the database."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from treering.core.objects import Object
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Transaction
from treering.extensions.postgres.index.index_state import (
    ALL_STATES,
    LOADED_AT_ONCE,
    MODELS,
    Integers,
    PassageSight,
    PostgresLog,
    count_waiting,
    integers,
    log_passages,
    moment_of,
    next_numbers,
    note_states,
    read_ahead_states,
    read_state,
    sights_and_states,
)
from treering.extensions.postgres.index.vector_queue import (
    IS_QUICK,
    MODEL,
    WaitingPassages,
    fill_queue,
    read_in_order,
)
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.ports.search import Lag
from treering.ports.vector_engine import ChosenEngine
from treering.stores.rows.passage_log import MAX_LOG_ENTRIES
from treering.stores.rows.reach import Scopes
from treering.stores.rows.stored_vectors import is_damaged
from treering.stores.rows.upkeep import SHOWN
from treering.stores.rows.vector_feed import DatabaseFeed, FeedPlace, VectorBodies, short_hash
from treering.stores.rows.vectors import QUICK, DatabaseVectors, PackedVector

_JOINED = (
    "FROM passages p JOIN passage_vectors v ON v.space = p.space AND v.text_id = p.text_id "
    "AND v.model_id = %(model)s WHERE p.space = %(space)s"
)
_OF_KEYS = "AND p.key = ANY(%(keys)s::bigint[])"
_TEXTS_OF = (
    "CROSS JOIN LATERAL (SELECT hash FROM passage_texts WHERE space = %(space)s AND id = q.text_id LIMIT 1) AS t "
    "CROSS JOIN LATERAL (SELECT object_id FROM passages WHERE space = %(space)s AND text_id = q.text_id AND live "
    "AND until_seq IS NULL LIMIT 1) AS p ORDER BY q.priority, q.text_id DESC"
)
_PENDING = (
    "SELECT encode(t.hash, 'hex'), p.object_id FROM "  # noqa: S608 - our own SQL
    "(SELECT priority, text_id FROM vector_queue WHERE space = %(space)s AND model_id = %(model)s "
    "ORDER BY priority, text_id DESC LIMIT %(limit)s) AS q "
    f"{_TEXTS_OF}"
)
_PENDING_OF = (
    "SELECT DISTINCT encode(t.hash, 'hex'), p.object_id FROM passages p "
    "JOIN vector_queue q ON q.space = p.space AND q.text_id = p.text_id AND q.model_id = %(model)s "
    "JOIN passage_texts t ON t.space = p.space AND t.id = p.text_id "
    "WHERE p.space = %(space)s AND p.key = ANY(%(keys)s::bigint[])"
)
_VECTOR = ("text_id bigint", "model_id integer", "vector bytea", "digest bytea")
_REPLACE = "ON CONFLICT (space, text_id, model_id) DO UPDATE SET vector = excluded.vector, digest = excluded.digest"


_PASSAGES_OF = "SELECT key FROM passages WHERE space = %(space)s AND text_id = ANY(%(texts)s::bigint[]) ORDER BY key"
_EMBEDDED = (
    "DELETE FROM vector_queue WHERE space = %(space)s AND model_id = %(model)s AND text_id = ANY(%(texts)s::bigint[])"
)

# Delete quick vectors of texts that have a better one now. One look-up for each: a join would read the whole queue.
_OUTDATED = (
    "DELETE FROM passage_vectors v USING passage_models m WHERE v.space = %(space)s AND m.space = v.space "  # noqa: S608 - a constant
    f"AND m.id = v.model_id AND {IS_QUICK} AND v.text_id = ANY(%(texts)s::bigint[])"
)
_KEEP_WAITING = (
    "INSERT INTO passage_vectors(space, text_id, model_id, vector, digest) "  # noqa: S608 - our own SQL
    "SELECT q.space, made.id, %(model)s, made.vector, made.digest "
    "FROM unnest(%(texts)s::bigint[], %(vectors)s::bytea[], %(digests)s::bytea[]) AS made(id, vector, digest) "
    f"CROSS JOIN LATERAL (SELECT space FROM vector_queue WHERE space = %(space)s AND model_id = ({MODEL}) "
    "AND text_id = made.id LIMIT 1) AS q ON CONFLICT DO NOTHING"
)
_WITHOUT = (
    "NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.space = q.space AND v.text_id = q.text_id "
    "AND v.model_id = %(quick)s)"
)
_PENDING_QUICK = (
    "SELECT encode(t.hash, 'hex'), p.object_id FROM "  # noqa: S608 - our own SQL
    f"(SELECT * FROM vector_queue q WHERE q.space = %(space)s AND q.model_id = ({MODEL}) AND {_WITHOUT} "
    "ORDER BY priority, text_id DESC LIMIT %(limit)s) AS q "
    f"{_TEXTS_OF}"
)


def _add_model(transaction: Transaction, name: str, dimension: int) -> int:
    [model_id] = next_numbers(transaction, MODELS, 1)
    columns = ("id integer", "name text", "dimension integer")
    transaction.insert("passage_models", columns, [(model_id, name, dimension)])
    return int(model_id)


class PostgresVectors(DatabaseVectors[Transaction]):
    """`ports.search.Vectors` over a `PostgresSpace`. Thread-safe; any number of processes may use it."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        super().__init__(model, dimension, read=space.read, write=space.write, ask=space.ask)
        self._waiting_passages = WaitingPassages()

    def _find_model(self, transaction: Transaction) -> int | None:
        number: int | None = transaction.first(MODEL, name=self._model, dimension=self._dimension)
        return number

    def _add_model(self, transaction: Transaction) -> int:
        model_id = _add_model(transaction, self._model, self._dimension)
        fill_queue(transaction, model_id)
        return model_id

    def _rows(self, transaction: Transaction) -> "PostgresVectorRows":
        return PostgresVectorRows(transaction, self._model_id)

    def _scopes_of(self, transaction: Transaction, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        return [seen.scopes for seen in sights_and_states(transaction, reaches)]

    def _expect_lag(self, transaction: Transaction) -> None:
        with transaction.asking_ahead():
            read_ahead_states(transaction)
            self._waiting_passages.expect(transaction, **self._queue_of())

    def _count(self, transaction: Transaction) -> Lag:
        pending = self._waiting_passages.count(transaction, **self._queue_of())
        return Lag(pending, read_state(transaction, SHOWN), count_waiting(transaction))

    def _waiting(self, transaction: Transaction, limit: int) -> list[tuple[str, str]]:
        read_in_order(transaction)
        return transaction.rows(_PENDING, model=self._model_id, limit=limit)

    def _waiting_of(self, transaction: Transaction, keys: Sequence[int]) -> list[tuple[str, str]]:
        return transaction.rows(_PENDING_OF, model=self._model_id, keys=list(keys))

    def _waiting_among(self, transaction: Transaction, text_ids: Sequence[int]) -> list[int]:  # noqa: ARG002 - not needed
        # All of them: embedding a few too many costs less than a query, and `_keep_waiting` leaves them out.
        return sorted(text_ids)

    def _keep(self, transaction: Transaction, rows: Sequence[PackedVector]) -> None:
        self._insert(transaction, rows, "ON CONFLICT DO NOTHING")

    def _insert(self, transaction: Transaction, rows: Sequence[PackedVector], conflict: str) -> None:
        values = [(text, self._model_id, *row) for text, *row in rows]
        transaction.insert("passage_vectors", _VECTOR, values, conflict=conflict)

    def _keep_waiting(self, transaction: Transaction, rows: Sequence[PackedVector]) -> None:
        texts = [text for text, _, _ in rows]
        vectors, digests = [vector for _, vector, _ in rows], [digest for _, _, digest in rows]
        model = self._model_id or self._found_or_added(transaction)
        transaction.later(_KEEP_WAITING, texts=texts, vectors=vectors, digests=digests, model=model, **self._queue_of())
        self._leave_queue(transaction, texts, model)

    def _leave_queue(self, transaction: Transaction, texts: Sequence[int], model: int) -> None:
        """Remove texts with an embedding by the model from the queue."""
        transaction.later(_EMBEDDED, texts=list(texts), model=model)

    def _found_or_added(self, transaction: Transaction) -> int:
        """Return the number of the model, and store it unless this transaction may roll it back."""
        number = self._find_model(transaction)
        if number and MODELS not in transaction.changed_numbers:
            self._model_id = number
        return number or self._add_model(transaction)

    def _queue_of(self) -> dict[str, Any]:
        """Return the values that identify the queue of waiting texts."""
        return {"name": self._model, "dimension": self._dimension}

    def _objects(self, transaction: Transaction, object_ids: Sequence[str]) -> Iterable[Object]:
        return ObjectReads(transaction).current(object_ids).values()

    def _texts_with(self, transaction: Transaction, hashes: Sequence[bytes]) -> dict[int, bytes]:
        sql = "SELECT id, hash FROM passage_texts WHERE space = %(space)s AND hash = ANY(%(hashes)s::bytea[])"
        return dict(transaction.rows(sql, hashes=list(hashes)))

    def _add(self, transaction: Transaction, rows: Sequence[PackedVector]) -> None:
        texts = [text for text, _, _ in rows]
        self._insert(transaction, rows, _REPLACE)
        self._leave_queue(transaction, texts, self._model_id)
        transaction.later(_OUTDATED, texts=texts)
        log_passages(transaction, transaction.column(_PASSAGES_OF, texts=texts))

    def _kept(self, transaction: Transaction, hashes: Sequence[bytes]) -> list[tuple[bytes, bytes, bytes | None]]:
        sql = (
            "SELECT t.hash, v.vector, v.digest FROM passage_texts t JOIN passage_vectors v "
            "ON v.space = t.space AND v.text_id = t.id AND v.model_id = %(model)s "
            "WHERE t.space = %(space)s AND t.hash = ANY(%(hashes)s::bytea[])"
        )
        return transaction.rows(sql, model=self._model_id, hashes=list(hashes))


class PostgresQuickVectors(PostgresVectors):
    """The vectors of a quick model: for the texts that wait for an embedding by the model `main`."""

    def __init__(self, space: PostgresSpace, quick: Embedder, main: tuple[str, int]) -> None:
        super().__init__(space, f"{QUICK}{quick.model_id}", quick.dimension)
        self._main = {"name": main[0], "dimension": main[1]}
        self._bare_passages = WaitingPassages(_WITHOUT)

    def _add_model(self, transaction: Transaction) -> int:
        return _add_model(transaction, self._model, self._dimension)

    def _queue_of(self) -> dict[str, Any]:
        return self._main

    def _leave_queue(self, transaction: Transaction, texts: Sequence[int], model: int) -> None:
        """Do nothing: the texts wait for the model `main`, and a quick model has no queue."""

    def _expect_lag(self, transaction: Transaction) -> None:
        with transaction.asking_ahead():
            read_ahead_states(transaction)
            self._waiting_passages.expect(transaction, **self._main)
            self._bare_passages.expect(transaction, quick=self._model_id, **self._main)

    def _count(self, transaction: Transaction) -> Lag:
        pending = self._bare_passages.count(transaction, quick=self._model_id, **self._main)
        return Lag(pending, self._waiting_passages.count(transaction, **self._main))

    def _waiting(self, transaction: Transaction, limit: int) -> list[tuple[str, str]]:
        read_in_order(transaction)
        return transaction.rows(_PENDING_QUICK, quick=self._model_id, limit=limit, **self._main)

    def _add(self, transaction: Transaction, rows: Sequence[PackedVector]) -> None:
        self._keep_waiting(transaction, rows)
        log_passages(transaction, transaction.column(_PASSAGES_OF, texts=[text for text, _, _ in rows]))


class PostgresVectorRows(PostgresLog):
    """`rows.vectors.VectorRows` over a transaction."""

    def __init__(self, transaction: Transaction, model_id: int) -> None:
        super().__init__(transaction)
        self._model_id = model_id

    def state(self) -> Hashable:
        """Return a value that changes with every write."""
        return self.transaction.row.sequence, moment_of(self.transaction)

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors of the model, with the numbers of their texts."""
        sql = f"SELECT text_id, vector FROM passage_vectors WHERE space = %(space)s AND model_id = {self._model_id:d}"  # noqa: S608 - a number
        return self.transaction.stream("vectors", sql, at_once=LOADED_AT_ONCE)

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of the passages that are current and have a vector."""
        sql = f"SELECT p.key, p.scope_id, v.vector {_JOINED} AND p.live AND p.until_seq IS NULL {_OF_KEYS}"
        return self.transaction.rows(sql, model=self._model_id, keys=list(keys))

    def vectors_of(self, keys: Sequence[int]) -> Sequence[tuple[int, bytes]]:
        """Return the vectors of passages, current or not. Passages without a vector are left out."""
        sql = f"SELECT p.key, v.vector {_JOINED} {_OF_KEYS}"
        return self.transaction.rows(sql, model=self._model_id, keys=list(keys))

    def passing(self, reach: Reach, scopes: Scopes) -> Integers:
        """Return the keys of the current passages in reach."""
        seen = PassageSight(replace(reach, withdrawn=False), scopes).condition()
        sql = f"SELECT string_agg(int8send(p.key), '') FROM passages p WHERE p.space = %(space)s AND {seen.sql}"  # noqa: S608 - only our own SQL
        return integers(self.transaction.first(sql, **seen.bindings))

    def of_history(self, reach: Reach, scopes: Scopes) -> Sequence[tuple[int, bytes]]:
        """Return the vectors of passages in reach that are not current; all of them for a moment in the past."""
        seen = PassageSight(reach, scopes).condition()
        others = "true" if reach.at is not None else "NOT p.live"
        sql = f"SELECT p.key, v.vector {_JOINED} AND {others} AND {seen.sql}"
        return self.transaction.rows(sql, model=self._model_id, **seen.bindings)


_STORED = (
    "SELECT v.text_id, v.model_id, m.name, m.dimension, t.hash, v.vector, v.digest FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.space = v.space AND m.id = v.model_id "
    "LEFT JOIN passage_texts t ON t.space = v.space AND t.id = v.text_id WHERE v.space = %(space)s"
)
_FORGET_DAMAGED = (
    "DELETE FROM passage_vectors v USING unnest(%(texts)s::bigint[], %(models)s::integer[]) AS gone(text, model) "
    "WHERE v.space = %(space)s AND v.text_id = gone.text AND v.model_id = gone.model"
)


def count_damaged(transaction: Transaction) -> int:
    """Count damaged vectors, by their digests."""
    return len(_damaged(transaction))


def drop_damaged(transaction: Transaction) -> None:
    """Delete damaged vectors. In a write transaction."""
    if damaged := _damaged(transaction):
        texts, models = ([row[place] for row in damaged] for place in range(2))
        transaction.later(_FORGET_DAMAGED, texts=texts, models=models)


def _damaged(transaction: Transaction) -> list[tuple[int, int]]:
    return [(text, model) for text, model, *row in transaction.stream("vectors", _STORED) if is_damaged(*row)]


_FEED_JOINED = (
    "FROM passages p JOIN passage_vectors v ON v.space = p.space AND v.text_id = p.text_id "
    f"AND v.model_id = ({MODEL}) WHERE p.space = %(space)s"
)
_CURRENT = "AND p.live AND p.until_seq IS NULL"
_PAGE = f"SELECT p.key, v.vector {_FEED_JOINED} {_CURRENT} AND p.key > %(after)s ORDER BY p.key LIMIT %(limit)s"
_FEED_COUNT = f"SELECT count(*) {_FEED_JOINED} {_CURRENT}"
_HEAD = "SELECT hash FROM audit WHERE space = %(space)s AND seq = %(sequence)s"
_LOGGED = (
    "SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(after)s AND position <= %(until)s"
)
_FORGOTTEN = (
    "SELECT count(DISTINCT l.key) FROM vector_log l LEFT JOIN passages p ON p.space = l.space AND p.key = l.key "
    "WHERE l.space = %(space)s AND l.position > %(after)s AND p.key IS NULL"
)


class PostgresVectorFeed(DatabaseFeed[Transaction]):
    """`ports.vector_engine.VectorFeed` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        super().__init__(space.read)
        self._space = space
        self._model = {"name": model, "dimension": dimension}

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:
        """Return the engine in the space's row."""
        row = self._space.last_row
        if fresh or row is None:
            with self._read() as transaction:
                row = transaction.row
        if not row.engine:
            return None
        mark, _, address = row.engine.partition(" ")
        return ChosenEngine(address, mark)

    def choose(self, engine: ChosenEngine | None) -> None:
        """Store the engine of the space in its row."""
        value = f"{engine.mark} {engine.address}" if engine else None
        with self._space.write() as transaction:
            transaction.later("UPDATE spaces SET engine = %(engine)s WHERE space = %(space)s", engine=value)

    def _now(self, transaction: Transaction) -> FeedPlace:
        return FeedPlace(*moment_of(transaction), transaction.row.sequence, short_hash(transaction.row.hash))

    def _known(self, transaction: Transaction, moment: str) -> FeedPlace | None:
        place = FeedPlace.read(moment)
        if place is None:
            return None
        states, heads = transaction.together([(ALL_STATES, {}), (_HEAD, {"sequence": place.sequence})])
        note_states(transaction, states)
        now = self._now(transaction)
        is_of_this_space = place.sequence == 0 or any(short_hash(digest) == place.hash for (digest,) in heads)
        is_kept = now.position - MAX_LOG_ENTRIES <= place.position <= now.position
        return place if place.epoch == now.epoch and is_of_this_space and is_kept else None

    def _logged(self, transaction: Transaction, after: int, until: int) -> Iterable[int]:
        return transaction.column(_LOGGED, after=after, until=until)

    def _page(self, transaction: Transaction, after: int, limit: int) -> VectorBodies:
        return transaction.rows(_PAGE, **self._model, after=after, limit=limit)

    def _of_keys(self, transaction: Transaction, keys: Sequence[int], *, current: bool) -> VectorBodies:
        sql = f"SELECT p.key, v.vector {_FEED_JOINED} {_CURRENT if current else ''} {_OF_KEYS}"
        return transaction.rows(sql, **self._model, keys=[int(key) for key in keys]) if keys else ()

    def _count_forgotten(self, transaction: Transaction, after: int) -> int:
        return int(transaction.first(_FORGOTTEN, after=after))

    def _count(self, transaction: Transaction) -> int:
        return int(transaction.first(_FEED_COUNT, **self._model))

    def _scopes_of(self, transaction: Transaction, reaches: Sequence[Reach]) -> Sequence[Scopes]:
        return [seen.scopes for seen in sights_and_states(transaction, reaches)]

    def _allowed(self, transaction: Transaction, reach: Reach, scopes: Scopes) -> Integers:
        rows = PostgresVectorRows(transaction, 0)
        return self._passing.of(rows.state(), reach, scopes, rows.passing)
