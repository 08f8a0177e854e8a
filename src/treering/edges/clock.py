"""The computer's clock and its source of chance."""

import os
import time
from datetime import UTC, datetime


class SystemClock:
    """`ports.clock.Clock` of the real world."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> float:
        """Return the seconds since the machine started, or about that; the same in all its processes."""
        return time.monotonic()

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return os.urandom(count)
