"""Calls after a delay, all in one thread: for work with a time limit."""

from collections.abc import Callable
from sched import scheduler
from threading import Event, Lock, Thread
from time import monotonic


class Timers:
    """Calls functions after a delay. They must be short and must not raise. The thread starts with the first one."""

    def __init__(self) -> None:
        self._calls = scheduler(monotonic)
        self._changed = Event()
        self._lock = Lock()
        self._stopped = False
        self._thread: Thread | None = None

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function after a delay; at once if the timers are stopped."""
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._calls.enter(seconds, 0, call)
                self._start()
        self._changed.set()
        if stopped:
            call()

    def stop(self) -> None:
        """Make the pending calls, and end the thread."""
        with self._lock:
            self._stopped = True
        self._changed.set()
        if self._thread:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="timers", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            self._changed.wait(self._calls.run(blocking=False))  # until the next call is due, or there is a new one
            self._changed.clear()
        for pending in self._calls.queue:
            pending.action()
