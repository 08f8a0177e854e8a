"""Leases in memory: what `ports.lease.Leases` means, for one process."""

import os
from collections.abc import Sequence
from threading import RLock

from treering.core.errors import InvalidInput
from treering.ports.clock import Clock
from treering.ports.lease import LONGEST_SECONDS, Holding


class MemoryLeases:
    """`ports.lease.Leases` that end with the process. One lock makes every call atomic."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._taken: dict[str, tuple[str, float, float]] = {}
        """By name: owner, when it was taken or renewed last, and for how many seconds."""

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease; tell whether `owner` holds it now."""
        if seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"A lease of {seconds:g} seconds is too long.", hint=f"Give at most {LONGEST_SECONDS:g}, and renew it."
            )
        with self._lock:
            if self.holder(name) not in {None, owner}:
                return False
            self._taken[name] = (owner, self._clock.elapsed(), seconds)
            return True

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        return next((known.owner for known in self.held() if known.name == name), None)

    def held(self) -> Sequence[Holding]:
        """List the leases that are held now, by name."""
        with self._lock:
            now, taken = self._clock.elapsed(), sorted(self._taken.items())
        holdings = [
            Holding(name, owner, os.getpid(), now - renewed, renewed + seconds - now)
            for name, (owner, renewed, seconds) in taken
        ]
        return [known for known in holdings if known.left > 0]

    def clear(self, name: str) -> Holding | None:
        """Take a lease away from its owner; return what was held."""
        with self._lock:
            known = next((known for known in self.held() if known.name == name), None)
            self._taken.pop(name, None)
            return known
