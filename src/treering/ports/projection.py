"""The port of projections: what is made of a ledger's changes, and may be made anew from them at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from treering.core.objects import Object


@dataclass(frozen=True, slots=True)
class Change:
    """One object going from one revision to the next. `after` is `None` for an erased object."""

    seq: int
    object_id: str
    before: Object | None
    after: Object | None


class Projection(Protocol):
    """A fold over a ledger's change feed. For any history and any cut, catching up equals rebuilding."""

    @property
    def cursor(self) -> int:
        """The audit sequence number up to which changes were applied; kept durably with what they made."""
        ...

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        """Apply the changes behind the cursor, in order, and move the cursor to `upto`: all of it or nothing.

        Changes at or before the cursor were applied already and are left out.
        """
        ...

    def clear(self) -> None:
        """Throw everything away, and start over at 0."""
        ...
