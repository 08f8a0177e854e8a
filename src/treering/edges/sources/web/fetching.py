"""Fetching what stands at an address, within bounds of place, time, size and type.

Nothing is asked of a server besides GET; no cookie is kept, no proxy used, and no credentials are sent.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib.metadata import version
from typing import Protocol

from treering.edges.sources.web.connecting import ConnectionTimer, Connector, answered
from treering.edges.sources.web_addresses import FetchRefused, WebAddress, joined

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
                raise FetchRefused(f"it leads from https to {found.text}")
            address = found
        raise FetchRefused(f"it leads from one address to another more than {self.bounds.redirects} times")

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
            raise FetchRefused(f"the server answers {answer.status} {answer.reason}".strip(), status=answer.status)
        return self._page(answer, address, types, deadline)

    def _page(
        self, answer: HTTPResponse, address: WebAddress, types: Sequence[str] | None, deadline: ConnectionTimer
    ) -> FetchedPage:
        kind = answer.headers.get_content_type() if answer.headers.get("Content-Type") else ""
        if types is not None and kind not in types:
            raise FetchRefused(f"it is of the type {kind or 'none'}, which is not read")
        data = _body(answer, answer.headers.get("Content-Encoding", ""), self.bounds.max_bytes)
        if deadline.over:
            raise FetchRefused(self._late())
        whole = answer.headers.get("Content-Length", "")
        if answer.length:  # what the server announced and did not send
            raise FetchRefused(f"it ends before the {whole} bytes that were announced")
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
            raise FetchRefused(f"it is over {most:,} bytes")
        parts.append(unpacking.add(piece))
    return b"".join([*parts, unpacking.add(b"", last=True)])


class _Unpacked:
    """Unpacks a body piece by piece, and stops where it grows too large."""

    def __init__(self, encoding: str, most: int) -> None:
        if encoding not in _ENCODINGS:
            raise FetchRefused(f"its body is packed in a way that is not read ({encoding[:40]})")
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
            raise FetchRefused(f"its body is over {self._most:,} bytes when it is unpacked")
        if last and not self._unpacker.eof:
            raise FetchRefused("its packed body ends too early")
        return made


_ENCODINGS: Mapping[str, int] = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""How bodies may be packed, and the window in which `zlib` unpacks each; 0 for as it is."""
