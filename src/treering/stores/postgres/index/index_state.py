"""Numbers that the index of a space remembers: versions, counters, how much is current."""

from collections.abc import Sequence

from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.transactions import Transaction

PROJECTION_VERSION = 2
"""Raised when passages, postings or the analysis of text change: an older space is rebuilt when it is opened."""

VERSION = "projection_version"
"""The version that made the passages; 0 while they are being made."""

TARGET = "rebuild_version"
"""The version that is making the passages, while it is at it."""

SHOWN = "shown_passages"
"""How many passages are current, so that nobody has to count them."""

EPOCH = "vectors_epoch"
"""Counted up when passages get new keys, so that tables in memory start over."""

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
    return read_state(transaction, TARGET) == PROJECTION_VERSION and not read_state(transaction, VERSION)


def count_waiting(transaction: Transaction) -> int:
    """Count the objects whose passages are still to be made."""
    if not is_under_way(transaction):
        return 0
    return int(transaction.first("SELECT count(*) FROM waiting_objects WHERE space = %(space)s"))
