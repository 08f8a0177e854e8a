"""The model behind the chat endpoint: a server that speaks OpenAI's API, named by whoever runs this one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Literal
from urllib.parse import urlsplit

import httpx
from fastapi import Request

from treering.core.errors import InvalidInput, Unavailable
from treering.surfaces.http.failures import Refusal
from treering.surfaces.http.gate import is_own_key

ANSWER_SECONDS = 600.0

Header = tuple[bytes, bytes]

_NO_KEY: Header = (b"authorization", b"Bearer treering")
"""What a client sends that has no key of its own, but has to send some."""
_CONNECT_SECONDS = 10.0
_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length"),
    )
)
# What speaks of the connection to this server, or of pages and cookies of this machine, is not the upstream's affair.
_NOT_SENT = _HOP_BY_HOP | {"host", "accept-encoding", "expect", "cookie", "origin", "referer"}
# What speaks of the upstream's own site would be taken for this one's.
_NOT_GIVEN = _HOP_BY_HOP | {
    *("set-cookie", "location", "alt-svc", "strict-transport-security", "server", "date"),
    "content-encoding",  # it is undone here
}
_OURS = "x-treering-"
_OF_SITES = ("access-control-", "forwarded", "x-forwarded-")


@dataclass(frozen=True, slots=True)
class UpstreamPlace:
    """Where the upstream is, and how it is asked. Raises `InvalidInput` for what is not an address of an API."""

    url: str
    """What an OpenAI client has as its base URL, such as `https://api.openai.com/v1`."""
    key: str = field(default="", repr=False)
    """Sent for clients that send none."""
    seconds: float = ANSWER_SECONDS
    """How long the upstream may be silent."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits or "@" in parts.netloc or parts.query or parts.fragment:
            # The URL is not shown: it may hold a key.
            raise InvalidInput(
                "--upstream needs an http(s) URL without user name, query and fragment.",
                hint="Give the base URL of an OpenAI-compatible API, such as https://api.openai.com/v1; its key "
                "comes from an environment variable.",
            )


class Upstream:
    """Asks one upstream, and no other: a redirection is not followed, and the environment's proxies are not used."""

    def __init__(self, place: UpstreamPlace) -> None:
        self._place = place
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(place.seconds, connect=min(_CONNECT_SECONDS, place.seconds), pool=None),
            # How many requests there are at once is bounded at the door.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            follow_redirects=False,
            # One client speaks for everybody: a cookie that one answer sets must not go out with another's request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def ask(
        self, request: Request, method: Literal["GET", "POST"], path: str, body: bytes | None = None
    ) -> httpx.Response:
        """Pass a request on; return the answer, of which only the head is read yet. It has to be closed.

        Raises `Refusal`: 504 where the upstream is silent too long, 502 where it cannot be reached or sends elsewhere.
        """
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{self._place.url.rstrip('/')}/{path}{query}"
        asked = self._client.build_request(method, url, content=body, headers=self._headers(request))
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx.HTTPError as error:
            raise broken(error) from error
        if answer.is_redirect:
            await answer.aclose()
            raise _refusal(
                HTTPStatus.BAD_GATEWAY,
                "The upstream redirects to another address; redirects are not followed.",
                hint="Start the server with that address as --upstream.",
            )
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    def _headers(self, request: Request) -> list[Header]:
        sent = [(name, value) for name, value in request.headers.raw if _passes(name.decode("latin-1"), _NOT_SENT)]
        sent = [header for header in sent if header != _NO_KEY and not is_own_key(*header)]
        if self._place.key and all(name != b"authorization" for name, _ in sent):
            sent.append((b"authorization", f"Bearer {self._place.key}".encode()))
        # Chunks of a packed answer wait for each other.
        return [*sent, (b"accept-encoding", b"identity")]


def headers_of(answer: httpx.Response) -> list[Header]:
    """Return the headers of an answer that are for the client, too."""
    return [
        (name.lower(), value)
        for name, value in answer.headers.raw
        if _passes(name.decode("latin-1").casefold(), _NOT_GIVEN)
    ]


def broken(error: httpx.HTTPError) -> Refusal:
    """Tell what broke between this server and the upstream. Nothing of the request is said in it."""
    if isinstance(error, httpx.TimeoutException):
        return _refusal(HTTPStatus.GATEWAY_TIMEOUT, "The upstream did not answer in time.", hint="Try again.")
    return _refusal(
        HTTPStatus.BAD_GATEWAY,
        f"The upstream cannot be reached: {error or type(error).__name__}.",
        hint="Check that it runs, and that --upstream is its address.",
    )


def _refusal(status: HTTPStatus, message: str, *, hint: str) -> Refusal:
    return Refusal(status, Unavailable(message, hint=hint), code=status.name.casefold())


def _passes(name: str, held_back: Iterable[str]) -> bool:
    return name not in held_back and not name.startswith((_OURS, *_OF_SITES))
