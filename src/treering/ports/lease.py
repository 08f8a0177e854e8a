"""The port for leases: who of several processes does a piece of work now."""

from typing import Protocol

VECTORS = "vectors"
"""Whoever holds this lease embeds what waits."""


class Leases(Protocol):
    """Named leases of one space. One that is not renewed in time is anybody's. Safe to use from many threads."""

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease for so many seconds; tell whether `owner` holds it now.

        With `seconds=0` the owner gives it back. Durable before this returns.
        """
        ...

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        ...
