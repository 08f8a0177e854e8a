"""The port for time and chance."""

from datetime import datetime
from typing import Protocol

from treering.core.ids import make_id, make_segment_id


class Clock(Protocol):
    """Tells the time and draws random bytes; tests use one whose values are fixed."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        ...

    def elapsed(self) -> float:
        """Return the seconds since some moment in the past: of a clock that nobody sets, one for the whole machine.

        To be used for whatever lasts or waits; the time of day may jump by years.
        """
        ...

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        ...


def fresh_id(kind: str, clock: Clock) -> str:
    """Make the id of a new thing of `kind` (`source`, `knowledge`, `patch`, …)."""
    return make_id(kind, at=clock.now(), entropy=clock.random_bytes(10))


def fresh_segment_id(clock: Clock) -> str:
    """Make a new segment id."""
    return make_segment_id(clock.random_bytes(8))


def fresh_salt(clock: Clock) -> str:
    """Make the salt of a new object."""
    return clock.random_bytes(16).hex()
