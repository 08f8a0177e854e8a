"""The threads of the server: each works for one request until it is done or the client disconnects."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, current_time
from anyio.to_thread import run_sync
from starlette.types import Message, Receive

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.mcp.deadline import Deadline
from treering.ports.runtime import check_between_steps, interruptible

_T = TypeVar("_T")


EVENTS = "text/event-stream"
LOOKING_SECONDS = 5.0
ALONE_SECONDS = 0.1
"""More than a read takes unless it waits for a model or a database, or reads all of a large space."""
_LOG = logging.getLogger(__name__)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Stop:
    """Ends calls when the server stops: new ones at once, running ones after their time to finish."""

    def __init__(self, *, finishing_seconds: float = 0.0, time: Callable[[], float] = monotonic) -> None:
        """`finishing_seconds`: the time to finish for running calls."""
        self._finishing_seconds = finishing_seconds
        self._time = time
        self._begun = False
        self._ends = 0.0

    @property
    def begun(self) -> bool:
        """Whether the server stops."""
        return self._begun

    def begin(self) -> None:
        """Refuse new work, and let running work finish in time."""
        if not self._begun:
            self._ends = self._time() + self._finishing_seconds
            self._begun = True

    def end_now(self) -> None:
        """End all work at its next report of progress."""
        self._ends = self._time()
        self._begun = True

    def check(self, _what: str = "", _done: int = 0, _total: int | None = None) -> None:
        """Let new work begin. Raises `Unavailable` once the server stops."""
        if self._begun:
            raise Unavailable("The server is stopping.", hint="Earlier writes are saved; repeat the call to continue.")

    def check_running(self) -> None:
        """Do nothing while running work may continue. Raises `Unavailable` after its time to finish."""
        if self._begun and self._time() >= self._ends:
            self.check()


@dataclass(slots=True)
class BackgroundWork:
    """Work that continues after the request that started it, and its progress."""

    task: "asyncio.Task[object] | None" = None
    what: str = ""
    done: int = 0
    total: int | None = None

    def note(self, what: str, done: int, total: int | None) -> None:
        """Record progress."""
        self.what, self.done, self.total = what, done, total


BACKGROUND_WORK: ContextVar[BackgroundWork | None] = ContextVar("treering_background_work", default=None)
"""The progress of the current work, if it was started in the background."""


def report_progress(what: str, done: int, total: int | None) -> None:
    """Record the progress of a worker. Raises the error that ends its work, if it has to end."""
    if background := BACKGROUND_WORK.get():
        background.note(what, done, total)
    check_between_steps()


class Workers:
    """Runs work in threads. The answer is given only when the thread is free again.

    `reads_at_once`: 1 for reads that only compute, because Python runs one thread at a time.
    """

    def __init__(self, most: int, *, stop: Stop, reads_at_once: int | None = None) -> None:
        self._places = CapacityLimiter(most)
        self._threads = CapacityLimiter(most)
        self._reads = CapacityLimiter(reads_at_once or most)
        self._stop = stop
        self._in_background: dict[Hashable, BackgroundWork] = {}

    def load(self) -> tuple[int, int]:
        """Return how many calls have a thread, and how many wait for one."""
        state, reads = self._places.statistics(), self._reads.statistics()
        return state.borrowed_tokens, state.tasks_waiting + reads.tasks_waiting

    async def run(self, receive: Receive, work: Callable[[], _T], *, seconds: float, reads: bool = False) -> _T:
        """Return the result of `work`. Call this after reading the body of the request.

        `reads`: the work only reads, so it may have to wait for other reads.

        Raises `TimedOut` if it takes longer, including the wait for a thread. The work then ends at its next check for
        interruption (`check_interrupt`), as it does if the client disconnects or the server stops.
        """
        deadline = Deadline(seconds)
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        leaving.add_done_callback(lambda _: deadline.end("The client disconnected."))
        place = object()
        try:
            async with self._alone(place, leaving, deadline) if reads else nullcontext():
                await self._take(self._places, place, leaving, deadline)
                try:
                    return await run_sync(partial(self._work, work, deadline), limiter=self._threads)
                finally:
                    self._places.release_on_behalf_of(place)
        finally:
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving

    async def run_cancellable(
        self, work: Callable[[], _T], *, seconds: float, reads: bool = False, ended: Callable[[], None]
    ) -> _T:
        """Return the result of `work`. If the caller is cancelled, the work ends at its next check for interruption.

        The caller does not wait for that, but the work has its thread until then; `ended` is called afterwards. Raises
        as `run`.
        """
        cancelled = asyncio.Event()

        async def wait_for_cancellation() -> Message:
            await cancelled.wait()
            return {"type": "http.disconnect"}

        task = asyncio.create_task(self.run(wait_for_cancellation, work, seconds=seconds, reads=reads))
        task.add_done_callback(lambda _: ended())
        try:
            return await asyncio.shield(task)
        finally:
            cancelled.set()

    async def run_in_background(
        self, key: Hashable, work: Callable[[], object], *, seconds: float, patience: float
    ) -> BackgroundWork | None:
        """Start work, or join the work of the same key, and wait for at most `patience` seconds.

        Returns `None` if it is done, else its progress; the work then continues. Raises the errors of the work.
        """
        background = self._in_background.get(key)
        if background is None or background.task is None:
            background = self._in_background[key] = BackgroundWork()
            token = BACKGROUND_WORK.set(background)
            try:
                background.task = asyncio.create_task(self.run(_nobody_leaves, work, seconds=seconds))
            finally:
                BACKGROUND_WORK.reset(token)
        await asyncio.wait({background.task}, timeout=patience)
        if not background.task.done():
            return background
        self._in_background.pop(key, None)
        background.task.result()
        return None

    @asynccontextmanager
    async def _alone(self, place: object, leaving: asyncio.Task[None], deadline: Deadline) -> AsyncIterator[None]:
        """Start the block when few enough other reads run that have taken less than `ALONE_SECONDS`.

        Threads that compute at once hand the interpreter to each other at each SQL statement, and each has caches.
        """
        await self._take(self._reads, place, leaving, deadline)
        alone = True

        def let_others_in() -> None:
            nonlocal alone
            if alone:
                alone = False
                self._reads.release_on_behalf_of(place)

        timer = asyncio.get_running_loop().call_later(ALONE_SECONDS, let_others_in)
        try:
            yield
        finally:
            timer.cancel()
            let_others_in()

    async def _take(
        self, limiter: CapacityLimiter, place: object, leaving: asyncio.Task[None], deadline: Deadline
    ) -> None:
        """Wait for a place, as long as the client waits for the answer."""
        left = deadline.left
        with CancelScope(deadline=float("inf") if left is None else current_time() + left) as waiting:
            leaving.add_done_callback(lambda _: waiting.cancel())
            await limiter.acquire_on_behalf_of(place)
        if waiting.cancelled_caught:
            deadline.check()
            raise Unavailable("The server is busy.", hint="Try again in a moment.")

    def _work(self, work: Callable[[], _T], deadline: Deadline) -> _T:
        def check() -> None:
            self._stop.check_running()
            deadline.check()

        with interruptible(check):
            return work()


async def _nobody_leaves() -> Message:
    """Wait for a client that does not exist."""
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never


class PeriodicChecks:
    """Checks the served spaces from `start` until `stop`. Errors are logged, and the check is repeated."""

    def __init__(self, looks: Sequence[Callable[[], None]], *, seconds: float = LOOKING_SECONDS) -> None:
        self._looks = looks
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="treering-periodic-checks", daemon=True)
        self._told = ""

    def start(self) -> None:
        """Begin. Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for a look that is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(self._seconds):
            for look in self._looks:
                self._do(look)

    def _do(self, look: Callable[[], None]) -> None:
        try:
            look()
        except TreeringError as error:
            if str(error) != self._told and not self._over.is_set():
                self._told = str(error)
                _LOG.warning("Cannot look for pending work: %s", error)
