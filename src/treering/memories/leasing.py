"""Work that only one of several processes does at a time: a named lease, kept alive by a heartbeat."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from treering.core.errors import InvalidInput, TreeringError
from treering.ports.lease import Leases

_BEATS = 3  # per length of the lease
_POLL_SECONDS = 0.1


@dataclass(slots=True)
class Lease:
    """A lease that is held while the work lasts. Whoever writes asks `renew` first, and stops where it says no."""

    leases: Leases
    name: str
    owner: str
    seconds: float
    _over: threading.Event = field(default_factory=threading.Event)
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def lost(self) -> bool:
        """Whether somebody else has, or may have, taken it over. It never comes back."""
        return self._lost.is_set()

    def renew(self) -> bool:
        """Renew it now; tell whether it is still held. Raises what the store raises."""
        if not self.lost and not self.leases.take(self.name, self.owner, seconds=self.seconds):
            self._lost.set()
        return not self.lost

    def beat(self) -> None:
        """Renew it again and again until the work is over. Two beats in a row that fail lose it."""
        missed = 0
        while not self._over.wait(self.seconds / _BEATS) and not self.lost:
            try:
                self.renew()
                missed = 0
            except TreeringError:
                missed += 1
                if missed == _BEATS - 1:
                    self._lost.set()

    def stop(self) -> None:
        """End the heartbeat."""
        self._over.set()

    def give_back(self) -> None:
        """Let others have it at once. Where that fails it lapses by itself."""
        if not self.lost:
            with suppress(TreeringError):
                self.leases.take(self.name, self.owner, seconds=0)


@contextmanager
def held(leases: Leases, name: str, owner: str, seconds: float, *, wait_seconds: float = 0.0) -> Iterator[Lease | None]:
    """Hold a lease for as long as the work inside takes; `None` where another owner holds it.

    It is renewed by a thread every third of `seconds`, so a holder that died keeps others out for `seconds` at most.
    With `wait_seconds` a lease held by another owner is waited for so long. `owner` must be new for every use: two
    users of one owner would both hold it. Raises `InvalidInput` for a length that is not positive.
    """
    if seconds <= 0:
        raise InvalidInput(f"A lease must last longer than 0 seconds, not {seconds}.", hint="Give a length above 0.")
    if not _taken(leases, name, owner, seconds, wait_seconds):
        yield None
        return
    lease = Lease(leases, name, owner, seconds)
    heart = threading.Thread(target=lease.beat, name=f"lease {name}", daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        lease.stop()
        heart.join()  # a beat under way would take again what is given back
        lease.give_back()


def _taken(leases: Leases, name: str, owner: str, seconds: float, wait_seconds: float) -> bool:
    pause = threading.Event()
    for _ in range(int(wait_seconds / _POLL_SECONDS)):
        if leases.take(name, owner, seconds=seconds):
            return True
        pause.wait(_POLL_SECONDS)
    return leases.take(name, owner, seconds=seconds)
