"""The log of passages whose vectors, ties or words changed, which tables in memory follow."""

from collections.abc import Callable, Sequence
from typing import Protocol

Moment = tuple[int, int]
"""The epoch and the position in the log up to which a table in memory has read.

The epoch is incremented when passages get new keys. Tables of an earlier epoch are loaded again.
"""

MAX_LOG_ENTRIES = 50_000
"""Older entries are deleted, in a large SQLite space later. A table that is further behind is loaded again."""


class PassageLog(Protocol):
    """The log in the snapshot of one transaction."""

    def moment(self) -> Moment:
        """Return the moment of the snapshot."""
        ...

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` if some of these entries were deleted."""
        ...


def follow_log(
    log: PassageLog, seen: Moment | None, *, load: Callable[[], None], reread: Callable[[Sequence[int]], None]
) -> Moment:
    """Bring a table in memory up to date with a snapshot, and return its new moment.

    Calls `reread` with the passages logged since, or `load` if the log starts later. A snapshot older than the table
    changes nothing, because results are checked against the ledger anyway.
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
