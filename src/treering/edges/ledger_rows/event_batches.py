"""Reading a long audit log a part at a time."""

from collections.abc import Callable, Iterator, Sequence

from treering.core.audit import AuditEvent

_BATCH = 500


def events_in_batches(
    read: Callable[[int, int], Sequence[AuditEvent]], *, after: int, limit: int | None
) -> Iterator[AuditEvent]:
    """Return audit events in order, in batches, so that a long log does not fill memory.

    `read` is asked for events behind a sequence number, and how many at the most; each time by itself, so that
    whoever reads slowly holds nothing open.
    """
    left = limit
    while left is None or left > 0:
        size = _BATCH if left is None else min(left, _BATCH)
        batch = read(after, size)
        yield from batch
        if len(batch) < size:
            return
        after = batch[-1].seq
        left = None if left is None else left - len(batch)
