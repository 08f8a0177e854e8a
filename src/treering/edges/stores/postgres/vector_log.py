"""The log by which tables in memory follow the database (`index_rows.passage_log`)."""

from collections.abc import Sequence

from treering.edges.index_rows.passage_log import LOG_KEPT, Moment
from treering.edges.stores.postgres.index_state import EPOCH, LOG_END, next_numbers, read_state
from treering.edges.stores.postgres.transactions import Transaction

_TRIMMED = 1_000  # so many entries later those are removed that are not kept


def log_passages(transaction: Transaction, keys: Sequence[int]) -> None:
    """Note that these passages came, went, or got a vector."""
    if not keys:
        return
    positions = next_numbers(transaction, LOG_END, len(keys))
    rows = list(zip(positions, keys, strict=True))
    transaction.insert("vector_log", ("position bigint", "key bigint"), rows[-LOG_KEPT:])
    # Who has fallen further behind loads everything anew.
    if positions[-1] // _TRIMMED > (positions[0] - 1) // _TRIMMED:
        sql = "DELETE FROM vector_log WHERE space = %(space)s AND position <= %(least)s"
        transaction.later(sql, least=positions[-1] - LOG_KEPT)


def moment_of(transaction: Transaction) -> Moment:
    """Return the moment of the transaction's snapshot."""
    return read_state(transaction, EPOCH), read_state(transaction, LOG_END)


def logged_after(transaction: Transaction, position: int) -> Sequence[int] | None:
    """Return the passages logged after a position, or `None` where the log does not reach back so far."""
    if position >= read_state(transaction, LOG_END):
        return ()
    if position < read_state(transaction, LOG_END) - LOG_KEPT:
        return None
    sql = "SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(position)s"
    return transaction.column(sql, position=position)
