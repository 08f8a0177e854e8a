"""Decides which requests an app gets: admitted by the gate, not from pages of other sites, and within the limits.

Without keys, only programs of this machine are admitted, under its loopback names.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from time import monotonic
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treering.core.errors import Denied, InvalidInput, TreeringError, Unavailable
from treering.extensions.server.callers import Bounds, Caller, CallerBounds
from treering.extensions.server.failures import (
    OF_OPENAI,
    Refusal,
    failure_response,
    for_caller,
    refusal_response,
    status_of,
    too_many_requests,
)
from treering.extensions.server.gate import SIGN_IN, Gate
from treering.extensions.server.web.view import respond_alone

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_MINUTE = 60.0
_FORGET_FROM = 1_024


def is_loopback(host: str) -> bool:
    """Return whether a host name can only mean this machine: `localhost`, or a loopback address."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RequestGuard:
    """Passes requests to an app, or refuses them.

    A web page anywhere can have its name resolve to 127.0.0.1 and so call this server from a visitor's browser
    (DNS rebinding). Such a request has the page's name in `Host`, and the page's site in `Origin`.

    Conversations with a model take long and wait for other servers. They have their own limits, so that they leave the
    capacity for other calls unchanged. A request counts once its body has arrived. `apart`: paths that are always
    accepted. `streamed`: paths whose bodies are files, stored on the disk.
    """

    def __init__(
        self, app: ASGIApp, *, bounds: Bounds, apart: frozenset[str], gate: Gate, streamed: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._gate = gate
        self._bounds = bounds
        self._apart = apart
        self._streamed = streamed
        self._bodies = IncomingBodies(bounds)
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
                answer = respond_alone("refused.html", status=status_of(error), error=for_caller(error))
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
        place = scope["state"]["slot"] = Slot(
            self._inside, self._bounds.most_at_once, allowed, talk=talk, key=caller.key
        )
        streamed = scope["path"] in self._streamed
        most = allowed.max_upload_bytes if streamed else allowed.max_body_bytes
        incoming = IncomingBody(receive, self._bodies, max_bytes=most, arrived=place.take, in_memory=not streamed)
        try:
            if int(Headers(scope=scope).get("content-length", 0)) > most:
                raise _too_large(most)
            if scope["method"] in _WITHOUT_BODY:
                place.take()
            await self._app(scope, incoming.receive, send)
        finally:
            incoming.close()
            place.leave()


class Slot:
    """The place of one request among the concurrent ones. Used only in the event loop's thread, so it needs no lock.

    It is held by the answer to the request, and by work that continues after a cancelled answer.
    """

    def __init__(self, inside: Counter[bool | str], most: int, allowed: CallerBounds, *, talk: bool, key: str) -> None:
        self._inside = inside
        self._most = most
        self._allowed = allowed
        self._talk = talk
        self._key = key
        self._taken = False
        self._holders = 1

    def hold(self) -> None:
        """Hold the place until another call of `leave`."""
        self._holders += 1

    def take(self) -> None:
        """Take the place, once. Raises `Unavailable` if there is none, `Refusal` if the key has too many."""
        if self._taken:
            return
        inside, of_key = self._inside[self._talk], self._inside[self._key]
        if inside >= self._most:
            raise Unavailable(f"{inside} requests are already running.", hint="Try again in a moment.")
        if self._key and of_key >= self._allowed.at_once:
            raise too_many_requests(
                f"{of_key} requests of this key are already running.", "Wait until one has finished."
            )
        self._inside.update((self._talk, self._key))
        self._taken = True

    def leave(self) -> None:
        """Release the place once all holders have left."""
        self._holders -= 1
        if self._holders or not self._taken:
            return
        self._taken = False
        self._inside.subtract((self._talk, self._key))
        if not self._inside[self._key]:
            del self._inside[self._key]  # a server meets many keys


def slot_of(request: object) -> Slot:
    """Return the place of an admitted HTTP request."""
    slot: Slot = request.state.slot  # type: ignore[attr-defined]  # as the MCP package passes it on
    return slot


def _is_page(scope: Scope, headers: Headers) -> bool:
    """Return whether a browser requests a page: it accepts HTML, programs do not."""
    return scope["method"] == "GET" and "text/html" in headers.get("accept", "")


def _check(headers: Headers, *, scheme: str, any_host: bool) -> None:
    """Raise `Denied` for a request that a page of another site may have made.

    `any_host`: the server has keys, which such a page cannot send, so any host name is accepted.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not any_host and not is_loopback(_name(host)):
        raise Denied(f"This server does not answer for the host {host!r}.", hint="Use 127.0.0.1 or localhost.")
    if origin is not None and origin.casefold() != f"{scheme}://{host}".casefold():
        raise Denied(
            f"Requests from pages of {origin!r} are refused.", hint="Send the request from a program, without Origin."
        )


def _check_length(headers: Headers) -> None:
    """Raise `Refusal` for a request with two lengths of its body: a proxy in front may have used the other one.

    The bytes behind one of the ends may belong to this request or to the next, so the connection ends (RFC 9112,
    section 6.3).
    """
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            InvalidInput("The request has both Content-Length and Transfer-Encoding.", hint="Send one of them."),
            headers={"Connection": "close"},
        )


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # brackets without an address between them


class RequestRates:
    """Counts the requests of keys. Used only in the event loop's thread, so it needs no lock.

    The generic cell rate algorithm (ITU-T I.371): after a minute without requests a key may send a minute's number of
    requests at once, and then one more after each share of the minute.
    """

    def __init__(self, *, time: Callable[[], float] = monotonic) -> None:
        self._time = time
        self._used_until: dict[str, float] = {}
        """The times at which the used capacity of each key is restored, by the key's id."""

    def count(self, key: str, per_minute: int | None) -> None:
        """Count a request. Raises `Refusal` (429) for one too many, which is not counted; `None` allows any number."""
        if per_minute is None:
            return
        now, share = self._time(), _MINUTE / per_minute
        used_until = max(self._used_until.get(key, now), now)
        wait = used_until + share - _MINUTE - now
        if wait > 1e-6:  # a minute's shares, added one by one, are a little more or less than a minute
            seconds = max(1, ceil(wait))
            raise too_many_requests(
                f"More than {per_minute:,} requests in a minute.",
                f"Try again in {seconds} s. `treering key create --requests-per-minute` sets the limit of a key.",
                seconds=seconds,
                requests_per_minute=per_minute,
            )
        self._used_until[key] = used_until + share
        if len(self._used_until) > _FORGET_FROM:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Forget keys that have all of their minute again."""
        self._used_until = {key: until for key, until in self._used_until.items() if until > now}


class IncomingBodies:
    """The incoming bodies of one server. Used only in the event loop's thread, so it needs no lock."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._waiting_bytes = 0

    def keep(self, size: int) -> None:
        """Count bytes of a body that is not complete. Raises `Unavailable` where too many wait already."""
        if self._waiting_bytes + size > self.bounds.most_waiting_bytes:
            raise Unavailable("Too many requests are arriving at once.", hint="Try again in a moment.")
        self._waiting_bytes += size

    def let_go(self, size: int) -> None:
        """Release the counted bytes."""
        self._waiting_bytes -= size


class IncomingBody:
    """Hands an app the messages of one request.

    `arrived` is called when the body is complete; its errors are raised when the app receives the body.
    `in_memory`: the body is buffered in memory until it is complete.
    """

    def __init__(
        self,
        receive: Receive,
        bodies: IncomingBodies,
        *,
        max_bytes: int,
        arrived: Callable[[], None],
        in_memory: bool = True,
    ) -> None:
        self._receive = receive
        self._bodies = bodies
        self._max_bytes = max_bytes
        self._in_memory = in_memory
        self._arrived = arrived
        self._began = monotonic()
        self._complete = False
        self._seen = 0
        self._kept = 0

    async def receive(self) -> Message:
        """Wait for the next message. Raises `Refusal` for a body that takes too long (408) or is too large (413).

        The connection then drops the rest of the body, so that a client that sends everything before it reads the
        answer finds the answer.
        """
        if self._complete:
            return await self._receive()
        message = await self._next()
        if self._seen > self._max_bytes:
            self._finish()
            raise _too_large(self._max_bytes)
        if message["type"] != "http.request":
            self._finish()
            return message
        if message.get("more_body", False):
            size = len(message.get("body", b"")) if self._in_memory else 0
            self._bodies.keep(size)
            self._kept += size
            return message
        self._finish()
        self._arrived()
        return message

    def close(self) -> None:
        """Forget the request: it is answered."""
        self._finish()

    async def _next(self) -> Message:
        bounds = self._bodies.bounds
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
                headers={"Connection": "close"},
            ) from error
        self._seen += len(message.get("body", b""))
        return message

    def _finish(self) -> None:
        self._complete = True
        self._bodies.let_go(self._kept)
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
