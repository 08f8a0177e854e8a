"""Connections of the server: a head of a request that does not come in time, and more connections than there may be.

uvicorn bounds neither: its timeout for idle connections ends with the first byte of the next request.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from treering.edges.surfaces.rest.bounds import Bounds


def protocol_within(bounds: Bounds) -> type[asyncio.Protocol]:
    """Make the protocol of a server: HTTP/1.1 within bounds."""
    open_ones: dict[BoundedProtocol, None] = {}  # in the order in which they began to wait

    class Bounded(BoundedProtocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.bounds, self.open_ones = bounds, open_ones

    return Bounded


class BoundedProtocol(H11Protocol):
    """A connection that is closed where it is waited for a request's head for too long."""

    bounds: Bounds
    open_ones: "dict[BoundedProtocol, None]"
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; where there are too many, close the one that has waited longest for its request."""
        super().connection_made(transport)
        if len(self.open_ones) >= self.bounds.most_connections:
            oldest = next((one for one in self.open_ones if one.incomplete), self)
            oldest.close()
            if oldest is self:
                return
        self.open_ones[self] = None
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.open_ones.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes: the time for a head runs from its first byte."""
        super().data_received(data)
        if not self._has_head:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self in self.open_ones and not self.transport.is_closing():
            self.open_ones[self] = self.open_ones.pop(self)  # to the end: it waits only from now on

    @property
    def incomplete(self) -> bool:
        """Whether a request, or the rest of one, is waited for."""
        return not self._has_head or bool(self.cycle.more_body)

    def close(self) -> None:
        """Close the connection without an answer."""
        self.open_ones.pop(self, None)
        self.transport.abort()

    @property
    def _has_head(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.bounds.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._has_head:
            self.close()
