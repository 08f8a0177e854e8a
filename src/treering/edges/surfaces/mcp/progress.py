"""Progress of long work, told from the thread that does it to the client that waits for it."""

from collections.abc import Awaitable, Callable

import anyio

from treering.core.characters import one_line
from treering.edges.surfaces.deadline import Deadline

Tell = Callable[[float, float | None, str], Awaitable[None]]
"""Sends one progress notification: how much is done, of how much, and what is being done."""

_SECONDS = 0.2  # between two looks: a client is told at most five times a second


class Watch:
    """Takes what a worker reports, and tells the newest of it. The worker never waits for the client.

    `seconds`: how long the work may take; nothing: as long as it takes.

    What is told only grows, as the protocol demands, also where work has several parts that each count from nothing.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._deadline = Deadline(seconds)
        self._before = 0
        self._part = ""
        self._latest: tuple[int, int | None, str] = (0, None, "")
        self._told = 0

    def report(self, what: str, done: int, total: int | None) -> None:
        """Note progress, from any thread. Raises as `check` does."""
        self.check()
        if what != self._part:
            self._before, self._part = self._latest[0], what
        reached = max(self._before + done, self._latest[0])
        self._latest = (reached, None if total is None else max(self._before + total, reached), one_line(what))

    def check(self) -> None:
        """Raise `Unavailable` once nobody waits for the work any more, `TimedOut` where it takes too long."""
        self._deadline.check()

    def give_up(self) -> None:
        """Have the worker stop at its next look."""
        self._deadline.end("The client has cancelled the call.")

    async def follow(self, tell: Tell) -> None:
        """Tell what is new, again and again, until cancelled."""
        while True:
            await anyio.sleep(_SECONDS)
            await self.tell_newest(tell)

    async def tell_newest(self, tell: Tell) -> None:
        """Tell what is new, if anything is."""
        done, total, what = self._latest
        if done > self._told:
            self._told = done
            await tell(done, total, what)
