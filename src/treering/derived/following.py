"""Bringing a projection that lives elsewhere up to date with its ledger, in bounded batches."""

from dataclasses import dataclass

from treering.ports.interrupt import check_interrupt
from treering.ports.ledger import Ledger
from treering.ports.projection import Projection

BATCH = 500
"""Audit events that are read and applied at a time."""


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a projection is behind its ledger: both are audit sequence numbers."""

    cursor: int
    sequence: int

    @property
    def events(self) -> int:
        """Count the audit events that were not applied yet."""
        return max(0, self.sequence - self.cursor)


def follow(ledger: Ledger, projection: Projection, limit: int | None = None, *, batch: int = BATCH) -> FeedPosition:
    """Apply at most `limit` audit events (all there are where `None`) behind a projection's cursor; tell what is left.

    Each batch moves the cursor, so what is broken off goes on where it was. A projection that is ahead of the ledger
    was made of another history, such as one before an older backup was put back: it starts over.
    """
    if projection.cursor > ledger.sequence():
        projection.clear()
    left = limit
    while (behind := _behind(ledger, projection)).events and (left is None or left > 0):
        check_interrupt()
        size = min(batch, behind.events, behind.events if left is None else left)
        upto = behind.cursor + size
        projection.apply(ledger.changes(behind.cursor, size), upto=upto)
        left = None if left is None else left - size
    return behind


def _behind(ledger: Ledger, projection: Projection) -> FeedPosition:
    return FeedPosition(projection.cursor, ledger.sequence())
