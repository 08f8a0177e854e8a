"""Leases: work that only one of several processes does at a time. A heartbeat keeps a lease alive."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from treering.core.errors import InvalidInput, TreeringError
from treering.ports.runtime import Leases

_BEATS_PER_LEASE = 3
_POLL_SECONDS = 0.1


@dataclass(slots=True)
class Lease:
    """A lease held during some work. Call `renew` before each write, and stop if it returns false."""

    leases: Leases
    name: str
    owner: str
    seconds: float
    _over: threading.Event = field(default_factory=threading.Event)
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def lost(self) -> bool:
        """Whether another owner has, or may have, taken it over. It is never regained."""
        return self._lost.is_set()

    def renew(self) -> bool:
        """Renew it; return whether it is still held. Raises the errors of the store."""
        if not self.lost and not self.leases.take(self.name, self.owner, seconds=self.seconds):
            self._lost.set()
        return not self.lost

    def beat(self) -> None:
        """Renew it regularly until the work is over. Two failures in a row lose it."""
        missed = 0
        while not self._over.wait(self.seconds / _BEATS_PER_LEASE) and not self.lost:
            try:
                self.renew()
                missed = 0
            except TreeringError:
                missed += 1
                if missed == _BEATS_PER_LEASE - 1:
                    self._lost.set()

    def stop(self) -> None:
        """End the heartbeat."""
        self._over.set()

    def give_back(self) -> None:
        """Release it at once. If that fails, it expires."""
        if not self.lost:
            with suppress(TreeringError):
                self.leases.take(self.name, self.owner, seconds=0)


@contextmanager
def held(leases: Leases, name: str, owner: str, seconds: float, *, wait_seconds: float = 0.0) -> Iterator[Lease | None]:
    """Hold a lease during the block; yields `None` if another owner holds it.

    A thread renews it every third of `seconds`, so a holder that died blocks others for at most `seconds`. Waits up to
    `wait_seconds` for another owner. `owner` must be new for every use: two users of one owner would both hold it.
    Raises `InvalidInput` if `seconds` is not positive.
    """
    if seconds <= 0:
        raise InvalidInput(f"A lease must last longer than 0 seconds, not {seconds}.", hint="Give a length above 0.")
    if not _acquire(leases, name, owner, seconds, wait_seconds):
        yield None
        return
    lease = Lease(leases, name, owner, seconds)
    heart = threading.Thread(target=lease.beat, name=f"lease {name}", daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        lease.stop()
        heart.join()  # a beat in progress would take the lease again
        lease.give_back()


def _acquire(leases: Leases, name: str, owner: str, seconds: float, wait_seconds: float) -> bool:
    pause = threading.Event()
    for _ in range(int(wait_seconds / _POLL_SECONDS)):
        if leases.take(name, owner, seconds=seconds):
            return True
        pause.wait(_POLL_SECONDS)
    return leases.take(name, owner, seconds=seconds)
