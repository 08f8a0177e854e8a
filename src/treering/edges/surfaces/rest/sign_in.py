"""Signing in with a key in a browser: the key is kept in a cookie that only this server gets, and no script reads.

The cookie is sent with no request that another site has caused (`SameSite=Strict`); the gate asks besides that what
changes something comes from a page of this server (`gate.Gate`).
"""

from http import HTTPStatus
from urllib.parse import parse_qs

from fastapi import Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from treering.core.errors import InvalidInput
from treering.edges.surfaces.rest.callers import RouteAccess
from treering.edges.surfaces.rest.failures import Refusal
from treering.edges.surfaces.rest.gate import SIGN_IN, Gate, cookie_name
from treering.tools.rights import READS

SIGN_OUT = "/sign-out"
ACCESS = tuple((path, RouteAccess("anybody", READS, whole_space=False)) for path in (SIGN_IN, SIGN_OUT))

_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES = 4_096
_DAYS = 30
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign in - Treering</title></head>
<body><main><h1>Treering</h1>
<form method="post" action="/sign-in">
<p><label>Key <input name="key" type="password" autocomplete="current-password" required autofocus></label></p>
<p><button>Sign in</button></p></form>
<p>Make a key with <code>treering key create NAME --person</code>.</p></main></body></html>
"""


class SignIn:
    """Takes a key from a form, and forgets it again."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def page(self) -> Response:
        """Show the form."""
        return HTMLResponse(_PAGE, headers=_HEADERS)

    async def enter(self, request: Request) -> Response:
        """Keep a key in the cookie, and lead to the first page. Raises `Refusal` for a key that opens nothing."""
        key = (await _form(request)).get("key", [""])[0].strip()
        await self._gate.check_key(key)
        answer = RedirectResponse("/", HTTPStatus.SEE_OTHER, headers=_HEADERS)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            cookie_name(request.url.scheme),
            key,
            max_age=_DAYS * 24 * 3_600,
            path="/",
            secure=secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def leave(self, request: Request) -> Response:
        """Forget the key."""
        answer = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER, headers=_HEADERS)
        secure = request.url.scheme == "https"
        name = cookie_name(request.url.scheme)
        answer.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
        return answer


async def _form(request: Request) -> dict[str, list[str]]:
    """Read a small form. Raises `Refusal` for anything else."""
    label = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if label != _FORM:
        raise _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body is labelled {label!r}.", f"Send a form, {_FORM}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.", "Send a key, nothing else.")
    return parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)


def _refusal(status: HTTPStatus, message: str, hint: str) -> Refusal:
    return Refusal(status, InvalidInput(message, hint=hint), code=status.name.casefold())
