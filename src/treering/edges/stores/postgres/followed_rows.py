"""What tables in memory read of the index, inside one transaction."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treering.edges.index_rows.passage_log import Moment
from treering.edges.stores.postgres.index_state import ALL_STATES, note_states
from treering.edges.stores.postgres.reach import SCOPES, PassageSight, sight_among
from treering.edges.stores.postgres.transactions import Transaction
from treering.edges.stores.postgres.vector_log import logged_after, moment_of
from treering.ports.reach import Reach

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
