"""Calls at their times, all in one thread: for work that must not be waited for longer than a while."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread
from time import monotonic


class Alarms:
    """Calls functions after a while. They must be short, and raise nothing. The thread begins with the first."""

    def __init__(self) -> None:
        self._alarms: list[_Alarm] = []
        self._order = count()
        self._changed = Condition()
        self._stopped = False
        self._thread: Thread | None = None

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function after so many seconds; at once where the alarms are stopped."""
        with self._changed:
            stopped = self._stopped
            if not stopped:
                heappush(self._alarms, _Alarm(monotonic() + seconds, next(self._order), call))
                self._begin()
                self._changed.notify()
        if stopped:
            call()

    def stop(self) -> None:
        """Make the calls that wait, and end the thread."""
        with self._changed:
            self._stopped = True
            thread = self._thread
            self._changed.notify()
        if thread:
            thread.join()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="alarms", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while call := self._next():
            call()

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next call. Return nothing where none will come."""
        with self._changed:
            while not self._stopped:
                left = self._alarms[0].at - monotonic() if self._alarms else None
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return heappop(self._alarms).call if self._alarms else None


@dataclass(frozen=True, slots=True, order=True)
class _Alarm:
    at: float
    order: int
    call: Callable[[], object] = field(compare=False)
