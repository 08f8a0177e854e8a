"""The port of promised work: what is still to be done for a space, whichever process comes to do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MEMORIES = "memories"
"""The kind of work that makes the memories of a discussion."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece of work that one process is at. `times`: how often it had been promised when it was claimed."""

    kind: str
    key: str
    owner: str
    times: int


class Backlog(Protocol):
    """Work that was promised and is not done, by kind and key. Operational, not part of the ledger.

    A claim lapses: what a process that died was at is anybody's once its time is over. Nobody waits for anybody.
    """

    def promise(self, kind: str, key: str, owner: str, *, seconds: float) -> Claim:
        """Note work, durably, and claim it for so many seconds. Work that is promised again is done once more."""
        ...

    def claim(self, kind: str, owner: str, *, seconds: float) -> Claim | None:
        """Claim the work that has waited longest of what nobody is at; `None` where there is none."""
        ...

    def done(self, claim: Claim) -> None:
        """Take work off the list, unless it was promised again since it was claimed."""
        ...

    def postpone(self, claim: Claim, *, seconds: float) -> None:
        """Leave work to whoever comes after so many seconds."""
        ...

    def waiting(self) -> int:
        """Count what was promised and is not done, also what somebody is at."""
        ...


class SpacesWithWork(Protocol):
    """Looks, over all spaces of a database, which have background work that nobody is at."""

    def names(self) -> Sequence[str]:
        """Return their names, always in the same order. Raises `Unavailable`."""
        ...

    def close(self) -> None:
        """Give up the connections."""
        ...
