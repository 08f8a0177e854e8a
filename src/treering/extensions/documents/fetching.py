"""Fetching of web pages, with limits of network, time, size and type.

Only GET requests are sent, without cookies, proxies or credentials.
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

from treering.extensions.documents.web_addresses import FetchRefused, WebAddress, joined

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host and port. Raises `OSError` if there are none."""

_WRAPPING = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("2002::/16"))
"""IPv6 networks whose addresses contain any IPv4 address (NAT64, RFC 6052 and 8215; 6to4, RFC 3056)."""
_INNER = tuple(
    ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "fec0::/10", "3fff::/20")
)
"""Networks that some versions of Python treat as public: cloud services, relays, site-local addresses, examples."""
_MAX_ADDRESSES_TRIED = 3
"""The maximum number of addresses tried per host."""
_MAX_VALIDATOR_CHARS = 300
_ENCODINGS: Mapping[str, int] = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""Supported content encodings, with the window bits for `zlib`; 0 for no encoding."""


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet, and not of this machine, its network or its provider."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if parsed.teredo is not None or any(parsed in network for network in _WRAPPING):
            return False
    if any(parsed in network for network in _INNER):
        return False
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified)


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system's resolver."""
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in results))


@cache
def system_trust() -> ssl.SSLContext:
    """Return a context with the system's certificates; loading them is slow."""
    return ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Connector:
    """Opens connections to hosts whose addresses are all allowed.

    A host with any other address is refused, because the choice among its addresses is random. Names are resolved only
    once, so that the checked address is the one connected to.
    """

    allowed: Callable[[str], bool] = is_public
    resolve: Resolve = resolve
    trust: Callable[[], ssl.SSLContext] = system_trust
    """Called by the first secure connection, because most spaces fetch nothing."""
    connect_seconds: float = 10.0

    def open(self, host: str, port: int, *, secure: bool) -> HTTPConnection:
        """Connect. Raises `FetchRefused`, or `OSError` if no address responds."""
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
        plain = self._connect(addresses[:_MAX_ADDRESSES_TRIED], port)
        try:
            return self.trust().wrap_socket(plain, server_hostname=host) if secure else plain
        except BaseException:  # also an interrupt: the caller does not have it yet
            plain.close()
            raise

    def _connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Connect to the first address that responds."""
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
    except BaseException:  # also an interrupt: the caller does not have it yet
        reached.close()
        raise
    return reached


def _check_reached(reached: socket.socket, address: str) -> None:
    peer = str(reached.getpeername()[0])
    if ip_address(peer.partition("%")[0]) != ip_address(address.partition("%")[0]):
        raise FetchRefused(f"{peer} responded instead of {address}")


@dataclass(slots=True)
class ConnectionTimer:
    """Ends a connection after some time, however slowly the server sends."""

    seconds: float
    over: bool = False
    _timer: Timer | None = None
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = monotonic() + self.seconds

    def watch(self, sock: socket.socket) -> None:
        """End this connection when the time is over; stop watching the previous one."""
        self.stop()
        self._timer = Timer(max(0.0, self._end - monotonic()), self._cut, (sock,))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop watching the connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self, sock: socket.socket) -> None:
        self.over = True
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:  # the server has closed it already
            return


def answered(connection: HTTPConnection, path: str, headers: dict[str, str]) -> HTTPResponse:
    """Send a request for a path. Raises `FetchRefused` for an invalid response, and `OSError`."""
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse()
    except HTTPException:
        raise FetchRefused("its response is not valid HTTP") from None


AGENT = f"Treering/{version('treering')} (+https://pypi.org/project/treering/)"
"""The user agent that Treering sends."""

_REDIRECTS = (301, 302, 303, 307, 308)
_GONE = (404, 410)
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class FetchBounds:
    """Limits for fetching one address, including redirects."""

    max_bytes: int = 20_000_000
    """The size of a body, both compressed and decompressed."""
    seconds: float = 60.0
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of a response, for conditional requests."""

    etag: str = ""
    modified: str = ""

    def headers(self) -> dict[str, str]:
        """Return the headers of a request for a page only if it changed."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in headers.items() if value}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A fetched page."""

    address: WebAddress
    """The final address, after redirects."""
    data: bytes
    type: str
    charset: str
    validators: Validators


@dataclass(frozen=True, slots=True)
class NotModified:
    """The page did not change."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The server has no page at the address."""

    status: int


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches pages. `types` are the media types that are read; `None` for any."""

    connector: Connector = field(default_factory=Connector)
    bounds: FetchBounds = FetchBounds()

    def fetch(
        self, address: WebAddress, *, types: Sequence[str] | None, known: Validators | None = None
    ) -> FetchedPage | NotModified | Missing:
        """Fetch a page. Raises `FetchRefused` for any failure."""
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
                result = self._response(connection, address, types, known, deadline)
            finally:
                deadline.stop()
                connection.close()
            if not isinstance(result, WebAddress):
                return result
            if address.secure and not result.secure:
                raise FetchRefused(f"it redirects from https to {result.text}")
            address = result
        raise FetchRefused(f"it redirects more than {self.bounds.redirects} times")

    def _response(
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
        if answer.length:  # announced by the server, but not sent
            raise FetchRefused(f"it ends before the announced {whole} bytes")
        validators = Validators(_short(answer.headers.get("ETag")), _short(answer.headers.get("Last-Modified")))
        return FetchedPage(address, data, kind, answer.headers.get_content_charset() or "", validators)

    def _refused(self, error: Exception, deadline: ConnectionTimer) -> FetchRefused:
        if deadline.over:  # any error may result from ending the connection
            return FetchRefused(self._late())
        return error if isinstance(error, FetchRefused) else FetchRefused(f"it cannot be read ({_message(error)})")

    def _late(self) -> str:
        return f"it takes longer than {self.bounds.seconds:g} s"


def unpacked(data: bytes, most: int) -> bytes:
    """Decompress gzipped bytes. Raises `FetchRefused` beyond `most` bytes, and for damaged data."""
    return _Unpacked("gzip", most).add(data, last=True)


def _short(value: str | None) -> str:
    """Return a validator as it is stored: empty if it is too long or not printable."""
    return value if value and len(value) <= _MAX_VALIDATOR_CHARS and value.isprintable() else ""


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__


def _body(answer: HTTPResponse, encoding: str, most: int) -> bytes:
    came, unpacking = 0, _Unpacked(encoding.strip().lower(), most)
    parts = list[bytes]()
    while piece := answer.read(_CHUNK):
        came += len(piece)
        if came > most:
            raise FetchRefused(f"it is larger than {most:,} bytes")
        parts.append(unpacking.add(piece))
    return b"".join([*parts, unpacking.add(b"", last=True)])


class _Unpacked:
    """Decompresses a body piece by piece, up to a maximum size."""

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
            data = self._unpacker.decompress(piece, self._left + 1)
        except zlib.error:
            raise FetchRefused("its compressed body is damaged") from None
        if self._unpacker.unused_data:
            raise FetchRefused("its compressed body has more than one part")
        self._left -= len(data)
        if self._left < 0:
            raise FetchRefused(f"its body is larger than {self._most:,} bytes when decompressed")
        if last and not self._unpacker.eof:
            raise FetchRefused("its compressed body ends too early")
        return data
