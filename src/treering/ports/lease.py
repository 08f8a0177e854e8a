"""The port for leases: who of several processes does a piece of work now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

VECTORS = "vectors"
"""Whoever holds this lease embeds what waits."""

LONGEST_SECONDS = 86_400.0
"""No lease keeps others out for longer than this without being renewed."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A lease that is held: by whom, in which process of this machine, and for how long.

    `renewed`: seconds since it was taken or renewed last. `left`: seconds until it is anybody's.
    """

    name: str
    owner: str
    process: int
    renewed: float
    left: float


class Leases(Protocol):
    """Named leases of one space. One that is not renewed in time is anybody's. Safe to use from many threads.

    Time is that of the store, not the time of day: however wrong a process's clock is set, a lease never lasts longer
    than its own length.
    """

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease for so many seconds; tell whether `owner` holds it now.

        With `seconds=0` the owner gives it back. Durable before this returns. Raises `InvalidInput` for more than
        `LONGEST_SECONDS`.
        """
        ...

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        ...

    def held(self) -> Sequence[Holding]:
        """List the leases that are held now, by name."""
        ...

    def clear(self, name: str) -> Holding | None:
        """Take a lease away from its owner, who learns it when renewing; return what was held."""
        ...
