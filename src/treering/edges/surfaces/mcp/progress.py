"""Progress of long work, told from the thread that does it to the client that waits for it."""

from collections.abc import Awaitable, Callable

import anyio

from treering.core.errors import Unavailable

Tell = Callable[[float, float | None, str], Awaitable[None]]
"""Sends one progress notification: how much is done, of how much, and what is being done."""

_SECONDS = 0.2  # between two looks: a client is told at most five times a second


class Watch:
    """Takes what a worker reports, and tells the newest of it. The worker never waits for the client.

    What is told only grows, as the protocol demands, also where work has several parts that each count from nothing.
    """

    def __init__(self) -> None:
        self._before = 0
        self._part = ""
        self._latest: tuple[int, int | None, str] = (0, None, "")
        self._told = 0
        self._given_up = False

    def report(self, what: str, done: int, total: int | None) -> None:
        """Note progress, from any thread. Raises `Unavailable` once nobody waits for the work any more."""
        if self._given_up:
            raise Unavailable("The client has cancelled the call.", hint="What was written stays; ask again to go on.")
        if what != self._part:
            self._before, self._part = self._latest[0], what
        reached = max(self._before + done, self._latest[0])
        self._latest = (reached, None if total is None else max(self._before + total, reached), what)

    def give_up(self) -> None:
        """Have the worker stop at its next report."""
        self._given_up = True

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
