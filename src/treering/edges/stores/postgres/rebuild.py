"""Making passages anew from the ledger."""

from treering.edges.stores.postgres.damaged_vectors import drop_damaged
from treering.edges.stores.postgres.replay import (
    all_objects,
    begin_replay,
    clear_passages,
    is_made,
    is_worth_waiting,
    note_made,
    replay_objects,
)
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.extractor import Extractor


def prepare_passages(transaction: Transaction, extractor: Extractor, *, most_at_once: int) -> None:
    """Make passages anew that another version or extractor made, or none. In a write transaction.

    Where these are more than `most_at_once`, it only begins with it: `advance_replay` goes on.
    """
    if is_made(transaction, extractor):
        return
    if is_worth_waiting(transaction, most_at_once=most_at_once):
        begin_replay(transaction, extractor)
    else:
        rebuild_passages(transaction, extractor)


def rebuild_passages(transaction: Transaction, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_damaged(transaction)
    clear_passages(transaction)
    replay_objects(transaction, all_objects(transaction), extractor)
    note_made(transaction, extractor)
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        transaction.later(
            f"DELETE FROM {table} t WHERE t.space = %(space)s AND NOT EXISTS "  # noqa: S608 - our tables
            f"(SELECT 1 FROM passages p WHERE p.space = t.space AND p.text_id = t.{column})"
        )
    return int(transaction.first("SELECT count(*) FROM passages WHERE space = %(space)s"))
