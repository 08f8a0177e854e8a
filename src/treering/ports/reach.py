"""What a read may see."""

from dataclasses import dataclass
from datetime import datetime

from treering.core.filters import EVERYTHING, Filter


@dataclass(frozen=True, slots=True)
class Reach:
    """What a read may see. Filters are applied inside the ranking, so they never starve a result."""

    scope: str
    descend: bool = False
    where: Filter = EVERYTHING
    withdrawn: bool = False
    """Also objects that are no longer current (stale, superseded, archived)."""
    at: int | None = None
    """An audit sequence number: only passages as they stood then."""
    now: datetime | None = None
    """The time it is asked for: what was over by then (`core.lifecycle.is_over`) is withdrawn. `None`: not judged.

    An index need not know it: the ledger decides.
    """
