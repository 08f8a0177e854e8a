"""A clock for tests: the same times and the same chance in every run."""

import hashlib
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=1)


class SteppingClock:
    """`ports.clock.Clock` that goes on by `step` each time it is asked. Times are UTC; bytes are hashed from a count.

    Clocks with different seeds give different bytes. `ahead`: how far its time of day is wrong.
    """

    def __init__(
        self, start: datetime = START, step: timedelta = STEP, *, seed: str = "", ahead: timedelta = timedelta(0)
    ) -> None:
        self._ahead = ahead
        self._time = start
        self._step = step
        self._seed = seed.encode()
        self._drawn = 0

    def now(self) -> datetime:
        """Return the time, then go on by a step."""
        return self._moment() + self._ahead

    def elapsed(self) -> float:
        """Return the seconds since `START`, however wrong the time of day is; then go on by a step."""
        return (self._moment() - START).total_seconds()

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that no other call gave, the same in every run."""
        self._drawn += 1
        return hashlib.shake_128(self._seed + self._drawn.to_bytes(8, "big")).digest(count)

    def set(self, time: datetime) -> None:
        """Put the clock forward or back."""
        self._time = time

    def _moment(self) -> datetime:
        time = self._time
        self._time += self._step
        return time
