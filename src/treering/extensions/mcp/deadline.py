"""The time limit of a call."""

from time import monotonic

from treering.core.errors import TimedOut, Unavailable

_STAYS = "Earlier writes are saved; repeat the call to continue."


class Deadline:
    """Signals the thread of a call to stop. Safe to use from many threads.

    `seconds`: the time limit from now on; `None`: no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._at = None if seconds is None else monotonic() + seconds
        self._why = ""

    @property
    def left(self) -> float | None:
        """The remaining seconds, at least 0; `None` without a limit."""
        return None if self._at is None else max(0.0, self._at - monotonic())

    def end(self, why: str) -> None:
        """Stop the work at its next check. `why` is the reason to report."""
        self._why = self._why or why

    def check(self) -> None:
        """Raise `Unavailable` if the work was stopped, `TimedOut` if its time is over."""
        if self._why:
            raise Unavailable(self._why, hint=_STAYS)
        if self._at is not None and monotonic() >= self._at:
            raise TimedOut(
                f"The call exceeded its limit of {self._seconds:g} seconds.",
                hint=f"Send a smaller request, or allow more time (--timeout, --work-timeout). {_STAYS}",
                details={"seconds": self._seconds},
            )
