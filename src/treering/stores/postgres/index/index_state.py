"""What the index of a space remembers: numbers by name, and the log by which tables in memory follow it."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from treering.ports.passages import Reach
from treering.stores.postgres.connection.transactions import Row, Transaction
from treering.stores.postgres.index.filters import ALL_SCOPES, PassageSight, sight_among
from treering.stores.rows import upkeep
from treering.stores.rows.passage_log import LOG_KEPT, Moment
from treering.stores.rows.upkeep import EPOCH

PROJECTION_VERSION = 4
"""Raised when passages, postings or the analysis of text change: an older space is rebuilt when it is opened."""

LOG_END = "log_end"
"""The position of the newest entry of `vector_log`."""

PASSAGES, TEXTS, SCOPES, NODES, MODELS = "last_key", "last_text", "last_scope", "last_node", "last_model"
"""Counters: the greatest number that was given to a passage, text, scope, node or model."""


_REPLACE = "ON CONFLICT (space, name) DO UPDATE SET value = excluded.value"
ALL_STATES = "SELECT name, value FROM index_state WHERE space = %(space)s"


def note_states(transaction: Transaction, rows: Sequence[Row]) -> dict[str, int]:
    """Take, and return by name, what `ALL_STATES` gave."""
    numbers = transaction.numbers = dict(rows)
    return numbers


def read_ahead_states(transaction: Transaction) -> None:
    """Read all numbers. While a transaction asks ahead they are asked for, and there when it is called again."""
    if rows := transaction.rows(ALL_STATES):
        note_states(transaction, rows)


def read_state(transaction: Transaction, name: str) -> int:
    """Return a number that is remembered; 0 where none is. The first call reads all of them."""
    numbers = transaction.numbers
    if numbers is None:
        numbers = note_states(transaction, transaction.rows(ALL_STATES))
    return numbers.get(name, 0)


def write_state(transaction: Transaction, name: str, value: int) -> None:
    """Remember a number; the commit writes all that were changed."""
    if read_state(transaction, name) == value:
        return
    known = transaction.numbers = transaction.numbers or {}
    known[name] = value
    transaction.changed_numbers.add(name)
    transaction.at_end(_write_changed)


def next_numbers(transaction: Transaction, name: str, count: int) -> range:
    """Take so many numbers of a counter, which nobody else is given."""
    last = read_state(transaction, name)
    write_state(transaction, name, last + count)
    return range(last + 1, last + count + 1)


def _write_changed(transaction: Transaction) -> None:
    known = transaction.numbers or {}
    rows = [(name, known[name]) for name in sorted(transaction.changed_numbers)]
    transaction.changed_numbers.clear()
    transaction.insert("index_state", ("name text", "value bigint"), rows, conflict=_REPLACE)


def is_under_way(transaction: Transaction) -> bool:
    """Tell whether the passages are being made beside reads, so that some objects have none yet."""
    return upkeep.is_under_way(partial(read_state, transaction), PROJECTION_VERSION)


def count_waiting(transaction: Transaction) -> int:
    """Count the objects whose passages are still to be made."""
    if not is_under_way(transaction):
        return 0
    return int(transaction.first("SELECT count(*) FROM waiting_objects WHERE space = %(space)s"))


# What tables in memory read of the index, inside one transaction.


Integers = npt.NDArray[np.int64]

# Whole columns as bytes: to hand over a row costs more than to find it.
_SHOWN = (
    "SELECT string_agg(int8send(key), ''), string_agg(int8send(scope_id::bigint), ''), "
    "string_agg(int8send(text_id), '') FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"
)

LOADED_AT_ONCE = 5_000
"""Rows of about a kilobyte that one round trip brings while a table in memory is loaded."""


class PostgresLog:
    """`rows.passage_log.PassageLog` over a transaction."""

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
    states, known = transaction.together([(ALL_STATES, {}), (ALL_SCOPES, {})])
    note_states(transaction, states)
    return [sight_among(known, reach) for reach in reaches]


def integers(joined: bytes | None) -> Integers:
    """Return the integers that `int8send` wrote one after the other."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)


# The log by which tables in memory follow the database (`rows.passage_log`).


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


def reaches_back(transaction: Transaction, position: int) -> bool:
    """Tell whether the log still has all entries after a position."""
    return position >= read_state(transaction, LOG_END) - LOG_KEPT


def logged_after(transaction: Transaction, position: int) -> Sequence[int] | None:
    """Return the passages logged after a position, or `None` where the log does not reach back so far."""
    if position >= read_state(transaction, LOG_END):
        return ()
    if not reaches_back(transaction, position):
        return None
    sql = "SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(position)s"
    return transaction.column(sql, position=position)
