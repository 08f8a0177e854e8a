"""Fetching what stands at an address, within bounds of place, time, size and type.

Nothing is asked of a server besides GET; no cookie is kept, no proxy used, and no credentials are sent.
"""

import socket
import ssl
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from threading import Timer
from time import monotonic
from typing import Protocol

from treering.sources.reading.web_addresses import FetchRefused, WebAddress, joined

# Which addresses may be fetched from: those of the public internet, and no others.


Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host and port. Raises `OSError` where there are none."""

_WRAPPING = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("2002::/16"))
"""Addresses that carry one of IPv4 in them (NAT64, RFC 6052 and 8215; 6to4, RFC 3056), which may be any."""
_INNER = tuple(
    ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "fec0::/10", "3fff::/20")
)
"""Addresses that some versions of Python take for public: services of clouds, relays, old local ones, examples."""


def is_public(address: str) -> bool:
    """Tell whether an address is of the public internet; not one of this machine, its network or its provider."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found.teredo is not None or any(found in network for network in _WRAPPING):
            return False
    if any(found in network for network in _INNER):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


# Connections to an address that was looked at before: between looking and connecting no name is resolved again.


_MOST_TRIED = 3
"""So many addresses of a host are tried."""


@cache
def system_trust() -> ssl.SSLContext:
    """Return a context that trusts whom the system trusts; reading its certificates takes long."""
    return ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Connector:
    """Opens connections to hosts whose every address is allowed.

    A host with one address that is not is refused whole: which one is used would be chance.
    """

    allowed: Callable[[str], bool] = is_public
    resolve: Resolve = resolve
    trust: Callable[[], ssl.SSLContext] = system_trust
    """Asked by the first secure connection, and not before: most spaces fetch nothing."""
    connect_seconds: float = 10.0

    def open(self, host: str, port: int, *, secure: bool) -> HTTPConnection:
        """Connect. Raises `FetchRefused`, and `OSError` where nobody answers."""
        try:
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchRefused(f"cannot resolve {host}: {error}") from None
        inner = next((one for one in addresses if not self.allowed(one)), None)
        if inner is not None or not addresses:
            raise FetchRefused(f"{host} resolves to {inner or 'no address'}, which is not on the public internet")
        connection = HTTPConnection(host, port)
        connection.sock = self._socket(addresses, host, port, secure=secure)
        return connection

    def _socket(self, addresses: Sequence[str], host: str, port: int, *, secure: bool) -> socket.socket:
        plain = self._reached(addresses[:_MOST_TRIED], port)
        try:
            return self.trust().wrap_socket(plain, server_hostname=host) if secure else plain
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
        raise FetchRefused(f"{peer} responded instead of {address}")


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
        raise FetchRefused(f"its response is not valid HTTP ({type(error).__name__})") from None


AGENT = f"Treering/{version('treering')} (+https://pypi.org/project/treering/)"
"""How Treering names itself to servers."""

_REDIRECTS = (301, 302, 303, 307, 308)
_GONE = (404, 410)
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """How much is fetched of one address, redirects included."""

    max_bytes: int = 20_000_000
    """Of a body, as it comes and unpacked."""
    seconds: float = 60.0
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server said by which it can tell whether a page is the one that is known."""

    etag: str = ""
    modified: str = ""

    def headers(self) -> dict[str, str]:
        """Return how to ask for a page only if it is another one."""
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in asked.items() if value}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What stands at an address."""

    address: WebAddress
    """Where it was found, after redirects."""
    data: bytes
    type: str
    charset: str
    validators: Validators


@dataclass(frozen=True, slots=True)
class NotModified:
    """It is what is known already."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Nothing stands there: the server says so."""

    status: int


class Reading(Protocol):
    """The body of an answer, read piece by piece."""

    def read(self, amount: int, /) -> bytes:
        """Return at most so many bytes; none at its end."""
        ...


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches pages. `types` are the media types that are read; `None` for any."""

    connector: Connector = field(default_factory=Connector)
    bounds: FetchBounds = FetchBounds()

    def fetch(
        self, address: WebAddress, *, types: Sequence[str] | None, known: Validators | None = None
    ) -> FetchedPage | NotModified | Missing:
        """Fetch a page. Raises `FetchRefused`, whatever the reason."""
        deadline = ConnectionTimer(self.bounds.seconds)
        try:
            return self._followed(address, types, known or Validators(), deadline)
        except (FetchRefused, OSError, HTTPException, ValueError) as error:
            raise self._refused(error, deadline) from None
        finally:
            deadline.stop()

    def _followed(
        self, address: WebAddress, types: Sequence[str] | None, known: Validators, deadline: ConnectionTimer
    ) -> FetchedPage | NotModified | Missing:
        for _ in range(self.bounds.redirects + 1):
            connection = self.connector.open(address.host, address.port, secure=address.secure)
            try:
                found = self._asked(connection, address, types, known, deadline)
            finally:
                deadline.stop()
                connection.close()
            if not isinstance(found, WebAddress):
                return found
            if address.secure and not found.secure:
                raise FetchRefused(f"it redirects from https to {found.text}")
            address = found
        raise FetchRefused(f"it redirects more than {self.bounds.redirects} times")

    def _asked(
        self,
        connection: HTTPConnection,
        address: WebAddress,
        types: Sequence[str] | None,
        known: Validators,
        deadline: ConnectionTimer,
    ) -> FetchedPage | NotModified | Missing | WebAddress:
        deadline.watch(connection.sock)
        headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip, deflate", "Connection": "close", **known.headers()}
        answer = answered(connection, address.path, headers)
        if answer.status in _REDIRECTS:
            return joined(address, answer.headers.get("Location", ""))
        if answer.status == 304 and known.headers():
            return NotModified()
        if answer.status in _GONE:
            return Missing(answer.status)
        if answer.status != 200:
            raise FetchRefused(f"the server responded {answer.status} {answer.reason}".strip(), status=answer.status)
        return self._page(answer, address, types, deadline)

    def _page(
        self, answer: HTTPResponse, address: WebAddress, types: Sequence[str] | None, deadline: ConnectionTimer
    ) -> FetchedPage:
        kind = answer.headers.get_content_type() if answer.headers.get("Content-Type") else ""
        if types is not None and kind not in types:
            raise FetchRefused(f"its type {kind or 'none'} is not supported")
        data = _body(answer, answer.headers.get("Content-Encoding", ""), self.bounds.max_bytes)
        if deadline.over:
            raise FetchRefused(self._late())
        whole = answer.headers.get("Content-Length", "")
        if answer.length:  # what the server announced and did not send
            raise FetchRefused(f"it ends before the announced {whole} bytes")
        validators = Validators(_short(answer.headers.get("ETag")), _short(answer.headers.get("Last-Modified")))
        return FetchedPage(address, data, kind, answer.headers.get_content_charset() or "", validators)

    def _refused(self, error: Exception, deadline: ConnectionTimer) -> FetchRefused:
        if deadline.over:  # whatever came of it that the connection was cut
            return FetchRefused(self._late())
        return error if isinstance(error, FetchRefused) else FetchRefused(f"it cannot be read ({_said(error)})")

    def _late(self) -> str:
        return f"it takes longer than {self.bounds.seconds:g} s"


def unpacked(data: bytes, most: int) -> bytes:
    """Return gzipped bytes unpacked. Raises `FetchRefused` beyond `most` bytes, and for what is damaged."""
    return _Unpacked("gzip", most).add(data, last=True)


_MOST_VALIDATOR = 300


def _short(value: str | None) -> str:
    """Return a validator as it is kept: one that is oddly long is not."""
    return value if value and len(value) <= _MOST_VALIDATOR and value.isprintable() else ""


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _body(answer: Reading, encoding: str, most: int) -> bytes:
    came, unpacking = 0, _Unpacked(encoding.strip().lower(), most)
    parts = list[bytes]()
    while piece := answer.read(_CHUNK):
        came += len(piece)
        if came > most:
            raise FetchRefused(f"it is larger than {most:,} bytes")
        parts.append(unpacking.add(piece))
    return b"".join([*parts, unpacking.add(b"", last=True)])


class _Unpacked:
    """Unpacks a body piece by piece, and stops where it grows too large."""

    def __init__(self, encoding: str, most: int) -> None:
        if encoding not in _ENCODINGS:
            raise FetchRefused(f"its body has an unsupported compression ({encoding[:40]})")
        self._window = _ENCODINGS[encoding]
        self._unpacker = zlib.decompressobj(self._window) if self._window else None
        self._left = most
        self._most = most

    def add(self, piece: bytes, *, last: bool = False) -> bytes:
        if self._unpacker is None:
            return piece
        try:
            made = self._unpacker.decompress(piece, self._left + 1)
        except zlib.error:
            raise FetchRefused("its packed body is damaged") from None
        if self._unpacker.unused_data:
            raise FetchRefused("its packed body has more than one part")
        self._left -= len(made)
        if self._left < 0:
            raise FetchRefused(f"its body is larger than {self._most:,} bytes when decompressed")
        if last and not self._unpacker.eof:
            raise FetchRefused("its packed body ends too early")
        return made


_ENCODINGS: Mapping[str, int] = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""How bodies may be packed, and the window in which `zlib` unpacks each; 0 for as it is."""
