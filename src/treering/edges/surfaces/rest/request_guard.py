"""Who is let in: whom the gate admits, no page of another site, and not all at once.

Without keys, only programs of this machine, under its loopback names.
"""

import ipaddress
from collections import Counter
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from treering.core.errors import Denied, InvalidInput, TreeringError, Unavailable
from treering.edges.surfaces.rest.arrival import Arrival, Arrivals
from treering.edges.surfaces.rest.bounds import Bounds, CallerBounds
from treering.edges.surfaces.rest.callers import Caller
from treering.edges.surfaces.rest.failures import OF_OPENAI, Refusal, failure_response, refusal_response, status_of
from treering.edges.surfaces.rest.gate import SIGN_IN, Gate
from treering.edges.surfaces.rest.request_rates import RequestRates
from treering.edges.surfaces.web.rendering import respond_alone

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """Tell whether a host's name can only mean this machine: `localhost`, or a loopback address."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RequestGuard:
    """Lets requests in to an app, or answers them itself.

    A page anywhere may have its name resolve to 127.0.0.1 and so speak to this server with a visitor's browser
    (DNS rebinding). Such a request carries the page's name in `Host`, and the page's site in `Origin`.

    Conversations with a model take long, and wait for others: they are counted by themselves, so that as many of
    them as are let in leave the tools as free as before. A request is counted when its body is there, not while it
    arrives. `apart`: paths that are always let in. `streamed`: paths whose bodies are files, kept on the disk.
    """

    def __init__(
        self, app: ASGIApp, *, bounds: Bounds, apart: frozenset[str], gate: Gate, streamed: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._gate = gate
        self._bounds = bounds
        self._apart = apart
        self._streamed = streamed
        self._arrivals = Arrivals(bounds)
        self._rates = RequestRates()
        self._inside: Counter[bool | str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            _check_length(headers)
            _check(headers, scheme=scope["scheme"], any_host=self._gate.has_keys)
            caller = await self._gate.admit(HTTPConnection(scope), scope["method"])
            scope.setdefault("state", {})["caller"] = caller
            await self._let_in(scope, receive, send, caller)
        except TreeringError as error:
            answer = failure_response(error, path=scope["path"])
            if self._gate.has_keys and _is_page(scope, Headers(scope=scope)):
                answer = respond_alone("refused.html", status=status_of(error), error=error)
            await answer(scope, receive, send)
        except Refusal as refusal:
            answer = refusal_response(refusal, path=scope["path"])
            if refusal.status_code == HTTPStatus.UNAUTHORIZED and _is_page(scope, headers):
                answer = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
            await answer(scope, receive, send)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        if scope["path"] in self._apart:
            await self._app(scope, receive, send)
            return
        allowed = self._bounds.for_caller(caller)
        self._rates.count(caller.key, allowed.requests_per_minute)
        talk = scope["path"] in OF_OPENAI
        place = _Slot(self._inside, self._bounds.most_at_once, allowed, talk=talk, key=caller.key)
        streamed = scope["path"] in self._streamed
        most = allowed.max_upload_bytes if streamed else allowed.max_body_bytes
        arrival = Arrival(receive, self._arrivals, max_bytes=most, arrived=place.take, in_memory=not streamed)
        try:
            if scope["method"] in _WITHOUT_BODY:
                place.take()
            await self._app(scope, arrival.receive, send)
        finally:
            arrival.close()
            place.leave()


class _Slot:
    """The place of one request among those inside. Only the event loop's thread comes here: counting needs no lock."""

    def __init__(self, inside: Counter[bool | str], most: int, allowed: CallerBounds, *, talk: bool, key: str) -> None:
        self._inside = inside
        self._most = most
        self._allowed = allowed
        self._talk = talk
        self._key = key
        self._taken = False

    def take(self) -> None:
        """Take the place, once. Raises `Unavailable` where there is none, `Refusal` where the key has too many."""
        if self._taken:
            return
        inside, of_key = self._inside[self._talk], self._inside[self._key]
        if inside >= self._most:
            raise Unavailable(f"{inside} requests are being answered already.", hint="Try again in a moment.")
        if self._key and of_key >= self._allowed.at_once:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                Unavailable(f"{of_key} requests of this key are being answered already.", hint="Wait for one of them."),
                code="too_many_requests",
                headers={"Retry-After": "1"},
            )
        self._inside.update((self._talk, self._key))
        self._taken = True

    def leave(self) -> None:
        """Give the place up, for a request that waits."""
        if not self._taken:
            return
        self._taken = False
        self._inside.subtract((self._talk, self._key))
        if not self._inside[self._key]:
            del self._inside[self._key]  # a server meets many keys


def _is_page(scope: Scope, headers: Headers) -> bool:
    """Tell whether a person opens a page: a browser asks for HTML, programs do not."""
    return scope["method"] == "GET" and "text/html" in headers.get("accept", "")


def _check(headers: Headers, *, scheme: str, any_host: bool) -> None:
    """Raise `Denied` for a request that a page of another site may have made.

    `any_host`: the server may be called by any name: a page has no key that it could send.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not any_host and not is_loopback(_name(host)):
        raise Denied(f"This server does not answer for the host {host!r}.", hint="Use 127.0.0.1 or localhost.")
    if origin is not None and origin.casefold() != f"{scheme}://{host}".casefold():
        raise Denied(
            f"Requests from pages of {origin!r} are refused.", hint="Send the request from a program, without Origin."
        )


def _check_length(headers: Headers) -> None:
    """Raise `Refusal` for a request whose body ends at two places: a proxy in front may have read another one.

    What is behind it on the connection may be the rest of the one or another request, so the connection ends (RFC 9112,
    section 6.3).
    """
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            InvalidInput("The request has both Content-Length and Transfer-Encoding.", hint="Send one of them."),
            code="bad_request",
            headers={"Connection": "close"},
        )


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # brackets without an address between them
