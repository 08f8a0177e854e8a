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
_QUEUE = "INSERT INTO vector_queue(space, model_id, text_id, priority) {waiting} "
_REPLACE = "ON CONFLICT (space, model_id, text_id) DO UPDATE SET priority = excluded.priority"
# Of some texts each is looked up by itself: a planner that knows nothing yet of tables that grow would read all of the
# space for them. Most changes leave nothing to forget; then no table is looked into.
_SHOWN = "FROM passages WHERE space = %(space)s AND text_id = asked.id AND live AND until_seq IS NULL"
_ASKED = "unnest(%(texts)s::bigint[]) AS asked(id)"
_OF_TEXTS = (
    f"SELECT %(space)s, m.id, asked.id, s.priority FROM {_ASKED} "  # noqa: S608 - constants
    f"CROSS JOIN LATERAL (SELECT {PRIORITY} AS priority {_SHOWN}) AS s JOIN passage_models m ON m.space = %(space)s "
    "WHERE s.priority IS NOT NULL AND (SELECT 1 FROM passage_vectors WHERE space = %(space)s AND text_id = asked.id "
    "AND model_id = m.id) IS NULL"
)
_HIDDEN = f"ARRAY(SELECT id FROM {_ASKED} WHERE (SELECT 1 {_SHOWN} LIMIT 1) IS NULL)"  # noqa: S608 - constants
_HELD_BY = "(SELECT 1 FROM {holder} WHERE space = %(space)s AND text_id = asked.id LIMIT 1) IS NULL"
_FORGET = "DELETE FROM {table} WHERE space = %(space)s AND cardinality({which}) > 0 AND {column} = ANY({which})"


def settle_texts(transaction: Transaction, text_ids: Sequence[int], *, lost: Sequence[int]) -> None:
    """Queue texts that current passages have and no vector; forget those of the `lost` that no passage has any more."""
    if text_ids:
        transaction.later(_QUEUE.format(waiting=_OF_TEXTS) + _REPLACE, texts=list(text_ids))
    if lost:
        sql = _FORGET.format(table="vector_queue", which=_HIDDEN, column="text_id")
        transaction.later(sql, texts=list(lost))
        forget_unused(transaction, lost)


def forget_unused(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Forget those of the texts that no passage has, and no object whose passages are still to be made."""
    if not text_ids:
        return
    holders = ["passages", *(["waiting_texts"] if is_under_way(transaction) else [])]
    held = " AND ".join(_HELD_BY.format(holder=holder) for holder in holders)
    unused = f"ARRAY(SELECT id FROM {_ASKED} WHERE {held})"  # noqa: S608 - our tables
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        transaction.later(_FORGET.format(table=table, which=unused, column=column), texts=list(text_ids))


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
