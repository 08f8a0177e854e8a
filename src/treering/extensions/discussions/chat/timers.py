"""Calls after a delay, all in one thread: for work with a time limit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread
from time import monotonic


class Timers:
    """Calls functions after a delay. They must be short and must not raise. The thread starts with the first one."""

    def __init__(self) -> None:
        self._timers: list[_Timer] = []
        self._order = count()
        self._changed = Condition()
        self._stopped = False
        self._thread: Thread | None = None

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function after a delay; at once if the timers are stopped."""
        with self._changed:
            stopped = self._stopped
            if not stopped:
                heappush(self._timers, _Timer(monotonic() + seconds, next(self._order), call))
                self._start()
                self._changed.notify()
        if stopped:
            call()

    def stop(self) -> None:
        """Make the pending calls, and end the thread."""
        with self._changed:
            self._stopped = True
            thread = self._thread
            self._changed.notify()
        if thread:
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="timers", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while call := self._next():
            call()

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next call; return `None` if the timers are stopped and none is pending."""
        with self._changed:
            while not self._stopped:
                left = self._timers[0].at - monotonic() if self._timers else None
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return heappop(self._timers).call if self._timers else None


@dataclass(frozen=True, slots=True, order=True)
class _Timer:
    at: float
    order: int
    call: Callable[[], object] = field(compare=False)
