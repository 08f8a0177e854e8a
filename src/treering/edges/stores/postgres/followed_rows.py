"""What tables in memory read of the index, inside one transaction."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treering.edges.index_rows.passage_log import Moment
from treering.edges.stores.postgres.index_state import EPOCH, LOG_END, read_state
from treering.edges.stores.postgres.transactions import Transaction

Integers = npt.NDArray[np.int64]

# Whole columns as bytes: to hand over a row costs more than to find it.
_SHOWN = (
    "SELECT string_agg(int8send(key), ''), string_agg(int8send(scope_id::bigint), ''), "
    "string_agg(int8send(text_id), '') FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"
)
_LOGGED = "SELECT key FROM vector_log WHERE space = %(space)s AND position > %(after)s"


class PostgresLog:
    """`index_rows.passage_log.PassageLog` over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        return read_state(self.transaction, EPOCH), read_state(self.transaction, LOG_END)

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        keys = self.transaction.column(_LOGGED, after=position)
        # Positions follow each other, so that as many entries are there as the end is further.
        return list(dict.fromkeys(keys)) if len(keys) == read_state(self.transaction, LOG_END) - position else None

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        [columns] = self.transaction.rows(_SHOWN)
        keys, scopes, texts = map(integers, columns)
        return keys, scopes, texts


def integers(joined: bytes | None) -> Integers:
    """Return the integers that `int8send` wrote one after the other."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)
