"""The log by which tables in memory follow a database: of the passages whose vector, words or ties came or went."""

from collections.abc import Callable, Sequence
from typing import Protocol

Moment = tuple[int, int]
"""Epoch and position in the log: what a table in memory has seen.

The epoch is counted up when passages get new keys, so that tables start over.
"""

LOG_KEPT = 50_000
"""Entries that are kept. Who has fallen further behind loads everything anew."""


class PassageLog(Protocol):
    """The log, as one transaction sees it."""

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        ...

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        ...


def follow_log(
    log: PassageLog, seen: Moment | None, *, load: Callable[[], None], reread: Callable[[Sequence[int]], None]
) -> Moment:
    """Bring a table in memory to the moment of a snapshot; return what it has seen then.

    `reread` is told the passages logged since; `load` starts over where the log does not reach back so far. A
    snapshot older than the table changes nothing: what has gone since is re-checked in the ledger.
    """
    now = log.moment()
    if seen is not None and now <= seen:
        return seen
    changed = log.logged_after(seen[1]) if seen and seen[0] == now[0] else None
    if changed is None:
        load()
    elif changed:
        reread(changed)
    return now
