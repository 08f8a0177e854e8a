"""Which texts wait for a vector."""

from collections.abc import Sequence

from treering.edges.index_rows.waiting import PRIORITY
from treering.edges.stores.postgres.index_state import is_under_way
from treering.edges.stores.postgres.transactions import Transaction

# What should be in the queue, of all models or one: current texts without a vector.
_WAITING = (
    f"SELECT p.space, m.id, p.text_id, {PRIORITY} FROM passages p JOIN passage_models m ON m.space = p.space "  # noqa: S608 - a constant
    "WHERE p.space = %(space)s AND p.live AND p.until_seq IS NULL AND {which} AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.space = p.space AND v.text_id = p.text_id AND v.model_id = m.id) "
    "GROUP BY p.space, m.id, p.text_id"
)
_OF_TEXTS = "p.text_id = ANY(%(texts)s::bigint[])"
_QUEUE = "INSERT INTO vector_queue(space, model_id, text_id, priority) {waiting} "
_REPLACE = "ON CONFLICT (space, model_id, text_id) DO UPDATE SET priority = excluded.priority"
_UNQUEUE = (
    "DELETE FROM vector_queue q WHERE q.space = %(space)s AND q.text_id = ANY(%(texts)s::bigint[]) AND NOT EXISTS "
    "(SELECT 1 FROM passages p WHERE p.space = q.space AND p.text_id = q.text_id AND p.live AND p.until_seq IS NULL)"
)
_HAS_NO = "AND NOT EXISTS (SELECT 1 FROM {holder} h WHERE h.space = t.space AND h.text_id = t.{column}) "


def settle_texts(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Queue texts that current passages have and no vector; forget texts that no passage has any more."""
    if text_ids:
        queue = _QUEUE.format(waiting=_WAITING.format(which=_OF_TEXTS)) + _REPLACE
        transaction.later(queue, texts=list(text_ids))
        transaction.later(_UNQUEUE, texts=list(text_ids))
        forget_unused(transaction, text_ids)


def forget_unused(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Forget those of the texts that no passage has, and no object whose passages are still to be made."""
    if not text_ids:
        return
    holders = ["passages", *(["waiting_texts"] if is_under_way(transaction) else [])]
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        unused = "".join(_HAS_NO.format(holder=holder, column=column) for holder in holders)
        sql = f"DELETE FROM {table} t WHERE t.space = %(space)s AND t.{column} = ANY(%(texts)s::bigint[]) {unused}"  # noqa: S608 - our tables
        transaction.later(sql, texts=list(text_ids))


def fill_queue(transaction: Transaction, model_id: int) -> None:
    """Queue everything current that has no vector of a model the space did not know so far."""
    transaction.later(_QUEUE.format(waiting=_WAITING.format(which="m.id = %(model)s")) + _REPLACE, model=model_id)


def queue_differences(transaction: Transaction) -> dict[str, int]:
    """Count, by model, the entries that are in the queue and should not be, or the other way round."""
    waiting = _WAITING.format(which="true")
    queued = "SELECT space, model_id, text_id, priority FROM vector_queue WHERE space = %(space)s"
    sql = (
        f"SELECT m.name, count(*) FROM (({waiting} EXCEPT {queued}) UNION ALL ({queued} EXCEPT {waiting})) AS wrong "  # noqa: S608 - constants
        "JOIN passage_models m ON m.space = wrong.space AND m.id = wrong.id GROUP BY m.name"
    )
    return {name: int(count) for name, count in transaction.rows(sql)}
