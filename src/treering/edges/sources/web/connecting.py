"""Connections to an address that was looked at before: between looking and connecting no name is resolved again."""

import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address
from threading import Timer
from time import monotonic

from treering.edges.sources.web.public_addresses import Resolve, is_public, resolve
from treering.edges.sources.web_addresses import FetchRefused

_MOST_TRIED = 3
"""So many addresses of a host are tried."""


@dataclass(frozen=True, slots=True)
class Connector:
    """Opens connections to hosts whose every address is allowed.

    A host with one address that is not is refused whole: which one is used would be chance.
    """

    allowed: Callable[[str], bool] = is_public
    resolve: Resolve = resolve
    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    connect_seconds: float = 10.0

    def open(self, host: str, port: int, *, secure: bool) -> HTTPConnection:
        """Connect. Raises `FetchRefused`, and `OSError` where nobody answers."""
        try:
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchRefused(f"{host} has no address: {error}") from None
        inner = next((one for one in addresses if not self.allowed(one)), None)
        if inner is not None or not addresses:
            raise FetchRefused(f"{host} is at {inner or 'no address'}, which is not on the public internet")
        connection = HTTPConnection(host, port)
        connection.sock = self._socket(addresses, host, port, secure=secure)
        return connection

    def _socket(self, addresses: Sequence[str], host: str, port: int, *, secure: bool) -> socket.socket:
        plain = self._reached(addresses[:_MOST_TRIED], port)
        try:
            return self.trust.wrap_socket(plain, server_hostname=host) if secure else plain
        except BaseException:
            plain.close()
            raise

    def _reached(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Connect to the first address where somebody answers."""
        *others, last = addresses
        for address in others:
            try:
                return _connected(address, port, self.connect_seconds)
            except OSError:
                continue
        return _connected(last, port, self.connect_seconds)


def _connected(address: str, port: int, seconds: float) -> socket.socket:
    reached = socket.create_connection((address, port), seconds)
    try:
        _check_reached(reached, address)
    except BaseException:
        reached.close()
        raise
    return reached


def _check_reached(reached: socket.socket, address: str) -> None:
    peer = str(reached.getpeername()[0])
    if ip_address(peer.partition("%")[0]) != ip_address(address.partition("%")[0]):
        raise FetchRefused(f"{peer} answers instead of {address}")


@dataclass(slots=True)
class ConnectionTimer:
    """Ends a connection at a moment, however slowly the other side talks."""

    seconds: float
    over: bool = False
    _timer: Timer | None = None
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = monotonic() + self.seconds

    def watch(self, sock: socket.socket) -> None:
        """End this connection when the time is over; forget the one before."""
        self.stop()
        self._timer = Timer(max(0.0, self._end - monotonic()), self._cut, (sock,))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Let the connection be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self, sock: socket.socket) -> None:
        self.over = True
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:  # the other side was quicker
            return


def answered(connection: HTTPConnection, path: str, headers: dict[str, str]) -> HTTPResponse:
    """Ask for a path. Raises `FetchRefused` for an answer that is not HTTP, and `OSError`."""
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse()
    except HTTPException as error:
        raise FetchRefused(f"its answer is not HTTP that can be read ({type(error).__name__})") from None
