"""What tables in memory read of the index, inside one transaction."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treering.ports.passages import Reach
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.filters import SCOPES, PassageSight, sight_among
from treering.stores.postgres.index.index_state import ALL_STATES, EPOCH, LOG_END, next_numbers, note_states, read_state
from treering.stores.rows.passage_log import LOG_KEPT, Moment

Integers = npt.NDArray[np.int64]

# Whole columns as bytes: to hand over a row costs more than to find it.
_SHOWN = (
    "SELECT string_agg(int8send(key), ''), string_agg(int8send(scope_id::bigint), ''), "
    "string_agg(int8send(text_id), '') FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"
)

LOADED_AT_ONCE = 5_000
"""Rows of about a kilobyte that one round trip brings while a table in memory is loaded."""


class PostgresLog:
    """`index_rows.passage_log.PassageLog` over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        return moment_of(self.transaction)

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        return logged_after(self.transaction, position)

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        [columns] = self.transaction.rows(_SHOWN)
        keys, scopes, texts = map(integers, columns)
        return keys, scopes, texts


def sights_and_states(transaction: Transaction, reaches: Sequence[Reach]) -> list[PassageSight]:
    """Work out which scopes each reach sees, and read what the index remembers, in one round trip."""
    states, known = transaction.together([(ALL_STATES, {}), (SCOPES, {})])
    note_states(transaction, states)
    return [sight_among(known, reach) for reach in reaches]


def integers(joined: bytes | None) -> Integers:
    """Return the integers that `int8send` wrote one after the other."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)


# The log by which tables in memory follow the database (`index_rows.passage_log`).


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
