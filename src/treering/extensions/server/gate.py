"""Access control: the key of a request decides which paths of the server it may call."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qs

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.routing import compile_path

from treering.core.errors import Denied, InvalidInput, NotFound
from treering.core.patch import Author
from treering.core.scope import ROOT
from treering.extensions.server.callers import Caller, RouteAccess
from treering.extensions.server.failures import Refusal, content_type, mislabeled
from treering.extensions.server.keys import GRANTED, KEY_PREFIX, holder_of, is_key, opens, rights_of
from treering.extensions.server.web.view import HEADERS, respond_alone
from treering.ports.runtime import Clock
from treering.ports.stores import AccessKey, AccessKeys
from treering.system.address import Address
from treering.verbs.envelope import READS, Rights, require

KEY_HEADER = "X-Treering-Key"
"""Carries a key where `Authorization` is for the upstream of a chat."""

SIGN_IN = "/sign-in"

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_BEARER = "bearer "
_LOOKING_AT_ONCE = 4
SIGN_OUT = "/sign-out"
PROJECTS = "/web/projects"
ACCESS = tuple((path, RouteAccess("anybody", READS, whole_space=False)) for path in (SIGN_IN, SIGN_OUT))
_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES = 4_096
_DAYS = 30


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a server, and the spaces they may open."""

    keys: AccessKeys
    clock: Clock
    place: Address
    """The location of the keys."""
    space: Address
    project: Callable[[str], Address | None]
    """Returns the address of a project by its id. Raises `InvalidInput` for an invalid id."""
    files: bool
    """Whether writers may ingest files."""
    urls: bool = False
    """Whether writers may ingest web pages."""

    def opens(self, key: AccessKey, space: Address) -> bool:
        """Return whether a key opens a space."""
        return opens(key.space, space, self.place)


class Gate:
    """Decides which requests may proceed. Without keys every client is `anybody`; `RequestGuard` checks the origin."""

    def __init__(self, access: Iterable[tuple[str, RouteAccess]], *, anybody: Caller, ring: KeyRing | None) -> None:
        """`paths`: the paths of all routes, with the access each requires."""
        self._paths = [(compile_path(path)[0], needed) for path, needed in access]
        self._anybody = anybody
        self._ring = ring
        self._limiter = CapacityLimiter(_LOOKING_AT_ONCE)

    @property
    def has_keys(self) -> bool:
        """Return whether requests need a key."""
        return self._ring is not None

    async def admit(self, connection: HTTPConnection, method: str) -> Caller:
        """Return the caller. Raises `Refusal` without a valid key (401), `Denied`, `NotFound`.

        A path without a declared route is refused, whatever the app would answer. The key may be in the cookie of a
        signed-in user; requests that change something must then come from a page of this server, by their `Origin`.
        """
        path = connection.scope["path"]
        route = next(((match, needed) for one, needed in self._paths if (match := one.match(path))), None)
        to_anybody = route is not None and route[1].reach == "anybody"
        if self._ring is None:
            if not to_anybody:
                _check_keyless(connection.headers)
            return self._anybody
        if to_anybody:
            return Caller(READS)
        sent = sent_key(connection.headers)
        if not sent:
            sent = connection.cookies.get(cookie_name(connection.url.scheme), "")
            if sent and method not in _SAFE and "origin" not in connection.headers:
                raise Denied("A key in a cookie is accepted only for pages of this server.", hint="Send Authorization.")
        key = await self.check_key(sent)
        connection.state.key_id = key.id  # for the log, also if the request is refused
        if route is None:
            raise NotFound(f"There is nothing at {path}.", hint="See GET /openapi.json for the API.")
        match, access = route
        _check_reach(key, access, match.groupdict(), self._ring)
        caller = _caller(key, self._ring)
        _check_right(path, access.needs, key, caller)
        if access.whole_space and caller.scope != ROOT:
            raise Denied(
                f"{path} works on the whole space, and this key is for the scope {caller.scope}.",
                hint="Use a key for the whole space.",
            )
        return caller

    def opens_own_space(self, key: AccessKey) -> bool:
        """Return whether a key is for the server's own space rather than for a project."""
        return self._ring is not None and self._ring.opens(key, self._ring.space)

    async def check_key(self, sent: str) -> AccessKey:
        """Return the sent key. Raises `Refusal` if it opens nothing, `InvalidInput` on a server without keys."""
        ring = self._ring
        if ring is None:
            raise InvalidInput("This server needs no keys.", hint="Send requests from this machine, without a key.")
        # A store may be a file or a server: the event loop waits for neither.
        key = await run_sync(lambda: holder_of(sent, ring.keys, clock=ring.clock), limiter=self._limiter)
        if key is None:
            raise _unauthenticated(
                "This server needs a key, and the given key is not valid." if sent else "This server needs a key.",
                "Send 'Authorization: Bearer trk_…'. Create a key with `treering key create`; keys can "
                "expire or be revoked.",
            )
        return key


def cookie_name(scheme: str) -> str:
    """Return the name of the cookie with the key. Over TLS its prefix makes browsers accept it only from this host."""
    return "__Host-treering-key" if scheme == "https" else "treering-key"


def sent_key(headers: Headers) -> str:
    """Return the key that a client sent; empty if it sent none."""
    own = headers.get(KEY_HEADER)
    if own is not None:
        return own.strip()
    given = headers.get("authorization", "")
    return given[len(_BEARER) :].strip() if given.casefold().startswith(_BEARER) else ""


def _check_keyless(headers: Headers) -> None:
    """Raise `Refusal` for a key that is sent to a server without keys: it may be revoked, or allow less.

    Another key in `Authorization` is for the upstream of a chat. A cookie is ignored, because a browser sends it to
    every port of a machine.
    """
    if headers.get(KEY_HEADER, "").strip() or sent_key(headers).startswith(KEY_PREFIX):
        raise _unauthenticated(
            "This server was started without keys, so it cannot check the given key.",
            "Omit the key, or start the server with --keys.",
        )


def _unauthenticated(message: str, hint: str) -> Refusal:
    error = Denied(message, hint=hint)
    return Refusal(HTTPStatus.UNAUTHORIZED, error, code="unauthenticated", headers={"WWW-Authenticate": "Bearer"})


def is_own_key(name: bytes, value: bytes) -> bool:
    """Return whether a header contains a key of this server, which must not be forwarded."""
    text = value.decode("latin-1")
    return name.decode("latin-1").casefold() == "authorization" and is_key(text.partition(" ")[2].strip())


def _check_reach(key: AccessKey, access: RouteAccess, path: Mapping[str, str], ring: KeyRing) -> None:
    """Raise `Denied` for a key of another space."""
    match access.reach:
        case "space":
            is_opened = ring.opens(key, ring.space)
        case "project":
            project = _project_space(path["project_id"], ring)
            is_opened = project is not None and ring.opens(key, project)
        case _:
            is_opened = True
    if not is_opened:
        raise Denied(f"The key {key.name!r} is for another space.", hint="Use a key of this space or this project.")


def _check_right(path: str, needs: Rights, key: AccessKey, caller: Caller) -> None:
    """Raise `Denied` if a path needs a right that the key lacks."""
    missing = needs.beyond(caller.granted)
    right = next((name for name, granted in GRANTED.items() if not needs.beyond(granted)), "")
    if missing and right:
        raise Denied(
            f"{path} needs a key with the right {right}; the key {key.name!r} has the right {key.right}.",
            hint=f"Create one with `treering key create NAME --right {right}`.",
            details={"operation": path, "not_granted": list(missing)},
        )
    require(path, needs, granted=caller.granted)


def _project_space(project_id: str, ring: KeyRing) -> Address | None:
    try:
        return ring.project(project_id)
    except InvalidInput:
        return None  # no key opens an invalid id


def _caller(key: AccessKey, ring: KeyRing) -> Caller:
    return Caller(
        rights_of(key, files=ring.files, urls=ring.urls),
        Author(actor=key.name, channel=key.channel),
        key.scope,
        key=key.id,
        name=key.name,
        opens=partial(ring.opens, key),
        limits=key.limits,
        read_up_to=key.read_up_to,
    )


class SignIn:
    """Signs users in with a key, stored in a cookie that is sent only to this server and hidden from scripts."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def page(self) -> Response:
        """Show the form."""
        return respond_alone("sign_in.html", error="")

    async def enter(self, request: Request) -> Response:
        """Store a key in the cookie, and redirect to the first page. Raises `Refusal` for a key that opens nothing."""
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
    if content_type(request) != _FORM:
        raise mislabeled(request, "body", f"Send a form, {_FORM}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            error = InvalidInput("The form is too large.", hint="Send only a key.")
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
    return parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
