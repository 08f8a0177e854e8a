"""Signing in with a key in a browser: the key is kept in a cookie that only this server gets, and no script reads.

The cookie is sent with no request that another site has caused (`SameSite=Strict`); the gate asks besides that what
changes something comes from a page of this server (`gate.Gate`).
"""

from http import HTTPStatus
from urllib.parse import parse_qs

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from treering.core.errors import InvalidInput
from treering.edges.surfaces.rest.callers import RouteAccess
from treering.edges.surfaces.rest.failures import Refusal
from treering.edges.surfaces.rest.gate import SIGN_IN, Gate, cookie_name
from treering.edges.surfaces.web.rendering import HEADERS, respond_alone
from treering.tools.rights import READS

SIGN_OUT = "/sign-out"
PROJECTS = "/web/projects"
ACCESS = tuple((path, RouteAccess("anybody", READS, whole_space=False)) for path in (SIGN_IN, SIGN_OUT))

_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES = 4_096
_DAYS = 30


class SignIn:
    """Takes a key from a form, and forgets it again."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def page(self) -> Response:
        """Show the form."""
        return respond_alone("sign_in.html", error="")

    async def enter(self, request: Request) -> Response:
        """Keep a key in the cookie, and lead to the first page. Raises `Refusal` for a key that opens nothing."""
        key = (await _form(request)).get("key", [""])[0].strip()
        try:
            held = await self._gate.check_key(key)
        except Refusal as refusal:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return respond_alone("sign_in.html", status=refusal.status_code, error=refusal.detail)
        first = "/" if self._gate.opens_own_space(held) else PROJECTS
        answer = RedirectResponse(first, HTTPStatus.SEE_OTHER, headers=dict(HEADERS))
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
        answer = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER, headers=dict(HEADERS))
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
