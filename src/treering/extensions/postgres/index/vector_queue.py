"""The queue of texts without an embedding: its entries, their number, and which process embeds them."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Transaction
from treering.extensions.postgres.index.index_state import PostgresLog, integers, is_under_way, reaches_back
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.ports.search import Pending
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import PRIORITY
from treering.stores.rows.passage_log import Moment, follow_log
from treering.stores.rows.vectors import QUICK, texts_to_embed

MODEL = "SELECT id FROM passage_models WHERE space = %(space)s AND name = %(name)s AND dimension = %(dimension)s"
"""The number of a model, by name and dimension."""

IS_QUICK = f"left(m.name, {len(QUICK)}) = '{QUICK}'"
"""Whether a model is a quick model, as SQL over `passage_models m`."""


# The expected content of the queue, for all models or one: current texts without an embedding.
_UNEMBEDDED = (
    f"SELECT p.space, m.id, p.text_id, {PRIORITY} AS priority FROM passages p "  # noqa: S608 - a constant
    "JOIN passage_models m ON m.space = p.space "
    "WHERE p.space = %(space)s AND p.live AND p.until_seq IS NULL AND {which} AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.space = p.space AND v.text_id = p.text_id AND v.model_id = m.id) "
    "GROUP BY p.space, m.id, p.text_id"
)
_WAITING = f"{_UNEMBEDDED} HAVING {PRIORITY} IS NOT NULL"
_QUEUE = "INSERT INTO vector_queue(space, model_id, text_id, priority) {waiting} "
_REPLACE_PRIORITY = "ON CONFLICT (space, model_id, text_id) DO UPDATE SET priority = excluded.priority"
# One look-up for each text. Without statistics of growing tables, the planner would read the whole space. Most changes
# delete nothing; then no table is read.
_SHOWN = "FROM passages WHERE space = %(space)s AND text_id = asked.id AND live AND until_seq IS NULL"
_ASKED = "unnest(%(texts)s::bigint[]) AS asked(id)"
_OF_TEXTS = (
    f"SELECT %(space)s, m.id, asked.id, s.priority FROM {_ASKED} "  # noqa: S608 - constants
    f"CROSS JOIN LATERAL (SELECT {PRIORITY} AS priority {_SHOWN}) AS s JOIN passage_models m ON m.space = %(space)s "
    f"AND NOT {IS_QUICK} WHERE s.priority IS NOT NULL "
    "AND (SELECT 1 FROM passage_vectors WHERE space = %(space)s AND text_id = asked.id "
    "AND model_id = m.id) IS NULL"
)
# Texts without a current passage, or without one that benefits from an embedding.
_UNWANTED = f"ARRAY(SELECT id FROM {_ASKED} WHERE (SELECT {PRIORITY} {_SHOWN}) IS NULL)"  # noqa: S608 - constants
_HELD_BY = "(SELECT 1 FROM {holder} WHERE space = %(space)s AND text_id = asked.id LIMIT 1) IS NULL"
_FORGET = "DELETE FROM {table} WHERE space = %(space)s AND cardinality({which}) > 0 AND {column} = ANY({which})"


def settle_texts(transaction: Transaction, text_ids: Sequence[int], *, lost: Sequence[int]) -> None:
    """Queue texts of current passages that have no embedding; delete `lost` texts without a passage."""
    if text_ids:
        transaction.later(_QUEUE.format(waiting=_OF_TEXTS) + _REPLACE_PRIORITY, texts=list(text_ids))
    if lost:
        sql = _FORGET.format(table="vector_queue", which=_UNWANTED, column="text_id")
        transaction.later(sql, texts=list(lost))
        forget_unused(transaction, lost)


def forget_unused(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Delete the texts that belong to no passage and to no queued object."""
    if not text_ids:
        return
    holders = ["passages", *(["waiting_texts"] if is_under_way(transaction) else [])]
    held = " AND ".join(_HELD_BY.format(holder=holder) for holder in holders)
    unused = f"ARRAY(SELECT id FROM {_ASKED} WHERE {held})"  # noqa: S608 - our tables
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        transaction.later(_FORGET.format(table=table, which=unused, column=column), texts=list(text_ids))


def fill_queue(transaction: Transaction, model_id: int) -> None:
    """Queue all current texts for a new model."""
    transaction.later(
        _QUEUE.format(waiting=_WAITING.format(which="m.id = %(model)s")) + _REPLACE_PRIORITY, model=model_id
    )


def queue_differences(transaction: Transaction) -> dict[str, int]:
    """Count the queue entries that are missing or superfluous, by model.

    Entries and priorities of an older version may remain: they cost time, but change no answer.
    """
    waiting, may_wait = (
        f"SELECT space, id, text_id FROM ({each.format(which=f'NOT {IS_QUICK}')}) AS found"  # noqa: S608 - constants
        for each in (_WAITING, _UNEMBEDDED)
    )
    queued = "SELECT space, model_id AS id, text_id FROM vector_queue WHERE space = %(space)s"
    sql = (
        f"SELECT m.name, count(*) FROM (({waiting} EXCEPT {queued}) UNION ALL ({queued} EXCEPT {may_wait})) AS wrong "  # noqa: S608 - constants
        "JOIN passage_models m ON m.space = wrong.space AND m.id = wrong.id GROUP BY m.name"
    )
    return {name: int(count) for name, count in transaction.rows(sql)}


_OF_MODEL = f"q.space = %(space)s AND q.model_id = ({MODEL})"
# Rows that another process is claiming are skipped. The free rows are found once, before the update: in a join they
# could be searched again for each row, and more be claimed than requested.
_CLAIM = f"""
WITH free AS MATERIALIZED (
  SELECT q.model_id, q.text_id FROM vector_queue q WHERE {_OF_MODEL} AND q.claimed_until <= %(now)s
  ORDER BY q.priority, q.text_id DESC LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE vector_queue taken SET claimant = %(owner)s, claimed_until = %(now)s + %(seconds)s FROM free
WHERE taken.space = %(space)s AND taken.model_id = free.model_id AND taken.text_id = free.text_id
RETURNING taken.priority, taken.text_id
"""  # noqa: S608 - our own SQL
_TEXTS = (
    "SELECT encode(t.hash, 'hex'), p.object_id FROM unnest(%(texts)s::bigint[]) WITH ORDINALITY AS claimed(id, place) "
    "JOIN passage_texts t ON t.space = %(space)s AND t.id = claimed.id CROSS JOIN LATERAL "
    "(SELECT object_id FROM passages WHERE space = %(space)s AND text_id = t.id AND live AND until_seq IS NULL "
    "LIMIT 1) AS p ORDER BY claimed.place"
)
_RENEW = f"UPDATE vector_queue q SET claimed_until = %(until)s WHERE {_OF_MODEL} AND q.claimant = %(owner)s"  # noqa: S608
_GIVE_BACK = (
    "UPDATE vector_queue q SET claimant = '', claimed_until = 0 "  # noqa: S608 - our own SQL
    f"WHERE {_OF_MODEL} AND q.claimant = %(owner)s"
)
_OTHERS = (
    f"SELECT count(*) FROM vector_queue q WHERE {_OF_MODEL} "  # noqa: S608 - our own SQL
    "AND q.claimant <> %(owner)s AND q.claimed_until > %(now)s"
)


def read_in_order(transaction: Transaction) -> None:
    """Let the next queries read the queue through its index by priority.

    If the planner expects one text, it may use the primary key and sort, which reads all texts if there are many.
    """
    transaction.later("SET LOCAL enable_sort = off")


class PostgresVectorClaims:
    """`ports.search.VectorClaims` of one space and model. Uses the server's time."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        self._space = space
        self._model: dict[str, Any] = {"name": model, "dimension": dimension}

    def claim(self, owner: str, limit: int, *, seconds: float) -> Sequence[Pending]:
        """Claim free texts, and return them."""
        with rows_of("the index", hint=REINDEX), self._space.beside() as transaction:
            values = {**self._model, "owner": owner, "limit": limit, "seconds": seconds}
            read_in_order(transaction)
            claimed = sorted(transaction.rows(_CLAIM, **values, now=transaction.row.server_seconds))
            waiting = transaction.rows(_TEXTS, texts=[text for _, text in claimed]) if claimed else []
            return texts_to_embed(waiting, lambda ids: ObjectReads(transaction).current(ids).values())

    def renew(self, owner: str, *, seconds: float) -> None:
        """Extend the claims of `owner` by a number of seconds."""
        with self._space.beside() as transaction:
            until = transaction.row.server_seconds + seconds
            transaction.later(_RENEW, **self._model, owner=owner, until=until)

    def give_back(self, owner: str) -> None:
        """Release the claims of `owner`."""
        with self._space.beside() as transaction:
            transaction.later(_GIVE_BACK, **self._model, owner=owner)

    def claimed_by_others(self, owner: str) -> int:
        """Count the texts claimed by other owners."""
        with self._space.read() as transaction:
            now = transaction.row.server_seconds
            return int(transaction.first(_OTHERS, **self._model, owner=owner, now=now))


_ALL_WAITING = (
    "SELECT string_agg(int8send(p.key), '') FROM vector_queue q "  # noqa: S608 - our own SQL
    "JOIN passages p ON p.space = q.space AND p.text_id = q.text_id "
    f"WHERE q.space = %(space)s AND q.model_id = ({MODEL}) AND {{which}} AND p.live AND p.until_seq IS NULL"
)
# One look-up for each passage, because a join would read the whole queue for each note.
_LOGGED_WAITING = (
    "SELECT l.key, (SELECT (SELECT 1 FROM vector_queue q "  # noqa: S608 - our own SQL
    "WHERE q.space = %(space)s AND q.text_id = p.text_id "
    f"AND q.model_id = ({MODEL}) AND {{which}} LIMIT 1) FROM passages p WHERE p.space = %(space)s AND p.key = l.key "
    "AND p.live AND p.until_seq IS NULL LIMIT 1) IS NOT NULL "
    "FROM (SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(position)s) AS l"
)


class WaitingPassages:
    """The keys of current passages that wait for an embedding: loaded once, then updated from the log.

    `which`: an SQL condition on `vector_queue q`. Thread-safe.
    """

    def __init__(self, which: str = "true") -> None:
        self._all, self._logged = _ALL_WAITING.format(which=which), _LOGGED_WAITING.format(which=which)
        self._lock = threading.Lock()
        self._keys: set[int] = set()
        self._seen: Moment | None = None

    def expect(self, transaction: Transaction, **queue: Any) -> None:
        """Send the query of `count` together with others. `queue`: the values that identify the queue."""
        if self._seen:
            transaction.rows(self._logged, position=self._seen[1], **queue)

    def count(self, transaction: Transaction, **queue: Any) -> int:
        """Return the number of passages, as of the transaction or later."""
        log = _WaitingLog(transaction, self._logged, queue)

        def load() -> None:
            self._keys = set(integers(transaction.first(self._all, **queue)).tolist())

        def reread(keys: Sequence[int]) -> None:
            self._keys.difference_update(keys)
            self._keys.update(log.waiting)

        with self._lock:
            self._seen = follow_log(log, self._seen, load=load, reread=reread)
            return len(self._keys)


class _WaitingLog(PostgresLog):
    """The passage log, with the information which logged passages wait."""

    def __init__(self, transaction: Transaction, logged: str, queue: Mapping[str, Any]) -> None:
        super().__init__(transaction)
        self.waiting: list[int] = []
        self._logged = logged
        self._queue = queue

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` if some of these entries were deleted."""
        if not reaches_back(self.transaction, position):
            return None
        rows = self.transaction.rows(self._logged, position=position, **self._queue)
        self.waiting = [key for key, waits in rows if waits]
        return [key for key, _ in rows]
