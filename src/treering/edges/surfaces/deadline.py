"""When the work of one call has to end: at a time, or because nobody waits for it any more."""

from time import monotonic

from treering.core.errors import TimedOut, Unavailable

_STAYS = "What was written stays; ask again to go on."


class Deadline:
    """Tells the thread that works for a call when to end. Safe to use from many threads.

    `seconds`: the time the call has from now on; nothing: as long as it takes.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._at = None if seconds is None else monotonic() + seconds
        self._why = ""

    @property
    def left(self) -> float | None:
        """The seconds that are left, at least 0; nothing where there is no end."""
        return None if self._at is None else max(0.0, self._at - monotonic())

    def end(self, why: str) -> None:
        """Have the work end at its next check. `why` is what is told of it."""
        self._why = self._why or why

    def check(self) -> None:
        """Raise `Unavailable` where the work was ended, `TimedOut` where its time is over."""
        if self._why:
            raise Unavailable(self._why, hint=_STAYS)
        if self._at is not None and monotonic() >= self._at:
            raise TimedOut(
                f"The call took longer than the {self._seconds:g} seconds it has.",
                hint=f"Ask for less at once, or allow more time (--timeout, --work-timeout). {_STAYS}",
                details={"seconds": self._seconds},
            )
