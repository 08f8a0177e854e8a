"""A read-only server for a wiki on the loopback interface."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from treering.core.errors import NotFound, Unavailable
from treering.extensions.wiki.showing import POLICY, SOURCE, STYLE, WikiBrowser, style_sheet

_ADDRESS = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost"})
_SECONDS = 30
_NO_PAGE = b"There is no such page."


@contextmanager
def wiki_server(folder: Path, *, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """Open a server for the pages of a folder; call `serve_forever` to answer requests.

    Raises `NotFound` if the folder does not exist, `Unavailable` if the port is in use.
    """
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist.", hint="Create the wiki first: treering wiki build.")
    browser = WikiBrowser(folder)
    handler = type("_Handler", (_WikiHandler,), {"browser": browser})
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), handler)
    except OSError as error:
        raise Unavailable(
            f"Cannot use port {port} of {_ADDRESS}: {error.strerror}.", hint="Choose another one with --port, or 0."
        ) from error
    with server:
        yield server


class _WikiHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    browser: ClassVar[WikiBrowser]
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer with a page or the style sheet."""
        if not self._is_for_localhost():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"This server answers to 127.0.0.1 only.", "text/plain")
            return
        address = urlsplit(self.path)
        path = address.path
        if path == STYLE:
            self._answer(HTTPStatus.OK, style_sheet(), "text/css")
            return
        if path.startswith(SOURCE):
            page = self.browser.source_html(path, parse_qs(address.query).get("lines", [""])[0])
        else:
            page = self.browser.html(path)
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, _NO_PAGE, "text/plain")
        else:
            self._answer(HTTPStatus.OK, page.encode(), "text/html")

    do_HEAD = do_GET  # noqa: N815 - the name is given by http.server

    def _is_for_localhost(self) -> bool:
        """Return whether the Host header names this machine, as protection against DNS rebinding."""
        return urlsplit(f"//{self.headers.get('Host', '')}").hostname in _NAMES

    def _answer(self, status: HTTPStatus, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library has
        """Do not log requests."""
