"""How a request's body arrives: within a time, within a budget of memory, and counted only when it is there."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from time import monotonic

from starlette.types import Message, Receive

from treering.core.errors import InvalidInput, Unavailable
from treering.edges.surfaces.rest.bounds import Bounds
from treering.edges.surfaces.rest.failures import Refusal

_READ_ON = 4
"""How many times the limit is read, and dropped, of a body that is too large: a client that sends everything
before it listens would else see a broken connection in place of the answer."""


class Arrivals:
    """The bodies that arrive at one server. Only the event loop's thread comes here: counting needs no lock."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._waiting_bytes = 0

    def keep(self, size: int) -> None:
        """Count bytes of a body that is not complete. Raises `Unavailable` where too many wait already."""
        if self._waiting_bytes + size > self.bounds.most_waiting_bytes:
            raise Unavailable("Too many requests are arriving at once.", hint="Try again in a moment.")
        self._waiting_bytes += size

    def let_go(self, size: int) -> None:
        """Take back what was counted."""
        self._waiting_bytes -= size


class Arrival:
    """Hands an app the messages of one request.

    `arrived` is called when the body is there; what it raises is raised where the app receives the body.
    `in_memory`: the body waits in memory until it is complete.
    """

    def __init__(
        self,
        receive: Receive,
        arrivals: Arrivals,
        *,
        max_bytes: int,
        arrived: Callable[[], None],
        in_memory: bool = True,
    ) -> None:
        self._receive = receive
        self._arrivals = arrivals
        self._max_bytes = max_bytes
        self._in_memory = in_memory
        self._arrived = arrived
        self._began = monotonic()
        self._complete = False
        self._seen = 0
        self._kept = 0

    async def receive(self) -> Message:
        """Wait for the next message. Raises `Refusal` for a body that takes too long (408) or is too large (413)."""
        if self._complete:
            return await self._receive()
        message = await self._next()
        while self._is_too_large and message.get("more_body", False) and self._seen <= self._max_bytes * _READ_ON:
            message = await self._next()
        if self._is_too_large:
            self._finish()
            raise _too_large(self._max_bytes)
        if message["type"] != "http.request":
            self._finish()
            return message
        if message.get("more_body", False):
            size = len(message.get("body", b"")) if self._in_memory else 0
            self._arrivals.keep(size)
            self._kept += size
            return message
        self._finish()
        self._arrived()
        return message

    def close(self) -> None:
        """Forget the request: it is answered."""
        self._finish()

    @property
    def _is_too_large(self) -> bool:
        return self._seen > self._max_bytes

    async def _next(self) -> Message:
        bounds = self._arrivals.bounds
        allowed = bounds.body_seconds + self._seen / bounds.body_rate
        try:
            async with asyncio.timeout(max(0.0, self._began + allowed - monotonic())):
                message = await self._receive()
        except TimeoutError as error:
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT,
                Unavailable(
                    f"The body was not complete after {allowed:.0f} seconds.",
                    hint=f"Send it at once, with at least {bounds.body_rate:,} bytes a second.",
                    details={"received_bytes": self._seen},
                ),
                code="request_timeout",
                headers={"Connection": "close"},
            ) from error
        self._seen += len(message.get("body", b""))
        return message

    def _finish(self) -> None:
        self._complete = True
        self._arrivals.let_go(self._kept)
        self._kept = 0


def _too_large(limit: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        InvalidInput(
            f"The body is larger than {limit} bytes.",
            hint="Send it in several requests.",
            details={"max_bytes": limit},
        ),
        code="too_large",
    )
