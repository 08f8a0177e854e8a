"""Who is let in: programs of this machine, under its loopback names, no page of another site, and not all at once."""

import ipaddress
from collections import Counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from treering.core.errors import Denied, TreeringError, Unavailable
from treering.edges.surfaces.rest.failures import OF_OPENAI, failure_response


def is_loopback(host: str) -> bool:
    """Tell whether a host's name can only mean this machine: `localhost`, or a loopback address."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Doors:
    """Lets requests in to an app, or answers them itself.

    A page anywhere may have its name resolve to 127.0.0.1 and so speak to this server with a visitor's browser
    (DNS rebinding). Such a request carries the page's name in `Host`, and the page's site in `Origin`.

    Conversations with a model take long, and wait for others: they are counted by themselves, so that as many of
    them as are let in leave the tools as free as before.
    """

    def __init__(self, app: ASGIApp, *, most_at_once: int) -> None:
        self._app = app
        self._most_at_once = most_at_once
        self._inside: Counter[bool] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        talk = scope["path"] in OF_OPENAI
        refusal = _refusal(Headers(scope=scope)) or self._full(talk)
        if refusal:
            await failure_response(refusal, path=scope["path"])(scope, receive, send)
            return
        # Only the event loop's thread comes here: counting needs no lock.
        self._inside[talk] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside[talk] -= 1

    def _full(self, talk: bool) -> TreeringError | None:
        inside = self._inside[talk]
        if inside < self._most_at_once:
            return None
        return Unavailable(f"{inside} requests are being answered already.", hint="Try again in a moment.")


def _refusal(headers: Headers) -> TreeringError | None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if not is_loopback(_name(host)):
        return Denied(f"This server is not {host!r}.", hint="Ask it as 127.0.0.1 or localhost.")
    if origin is not None and origin.casefold() != f"http://{host}".casefold():
        return Denied(f"Pages of {origin!r} may not ask this server.", hint="Ask from a program, without Origin.")
    return None


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # brackets without an address between them
