"""The upstream of the chat endpoint: a server with OpenAI's API, whose answers are forwarded as they arrive."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import httpx
from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.discussions.chat.body import text_of
from treering.extensions.server.failures import Refusal, openai_error
from treering.extensions.server.gate import is_own_key
from treering.extensions.server.workers import wait_for_disconnect

ANSWER_SECONDS = 600.0

Header = tuple[bytes, bytes]

_NO_KEYS = frozenset({b"bearer", b"bearer treering"})
"""Values of `Authorization` from clients that have no key but always send the header."""
_CONNECT_SECONDS = 10.0
_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length"),
    )
)
# Headers about the connection to this server, or about pages and cookies of this machine, are not forwarded.
_NOT_SENT = _HOP_BY_HOP | {"host", "accept-encoding", "expect", "cookie", "origin", "referer"}
# Headers about the upstream's own site would be taken as statements about this one.
_NOT_GIVEN = _HOP_BY_HOP | {
    *("set-cookie", "location", "alt-svc", "strict-transport-security", "server", "date"),
    "content-encoding",  # the answer is decoded here
}
_OURS = "x-treering-"
_OF_SITES = ("access-control-", "forwarded", "x-forwarded-")


@dataclass(frozen=True, slots=True)
class UpstreamPlace:
    """The address of the upstream, its key and timeout. Raises `InvalidInput` if it is not the address of an API."""

    url: str
    """The base URL as OpenAI clients take it, such as `https://api.openai.com/v1`."""
    key: str = field(default="", repr=False)
    """Sent for clients that send no key."""
    seconds: float = ANSWER_SECONDS
    """The timeout for the upstream to send data."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            fits = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            fits = False
        if not fits or "@" in parts.netloc or parts.query or parts.fragment:
            # The URL is not shown: it may contain a key.
            raise InvalidInput(
                "--upstream needs an http(s) URL without a user name, query or fragment.",
                hint="Give the base URL of an OpenAI-compatible API, such as https://api.openai.com/v1; its key "
                "comes from an environment variable.",
            )


class Upstream:
    """Client of one upstream. Redirects are not followed, and proxies of the environment are not used."""

    def __init__(self, place: UpstreamPlace) -> None:
        self._place = place
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(place.seconds, connect=min(_CONNECT_SECONDS, place.seconds), pool=None),
            # The server limits the number of concurrent requests.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            trust_env=False,
            follow_redirects=False,
            # The client is shared: a cookie from one answer must not be sent with another request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    async def ask(
        self, request: Request, method: Literal["GET", "POST"], path: str, body: bytes | None = None
    ) -> httpx.Response:
        """Forward a request; return the answer with its body unread. The caller must close it.

        Raises `Refusal`: 504 if the upstream times out, 502 if it cannot be reached or redirects.
        """
        query = f"?{request.url.query}" if request.url.query else ""
        url = f"{self._place.url.rstrip('/')}/{path}{query}"
        upstream_request = self._client.build_request(method, url, content=body, headers=self._headers(request))
        try:
            answer = await self._client.send(upstream_request, stream=True)
        except httpx.HTTPError as error:
            raise upstream_failure(error) from error
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
        sent = [header for header in sent if not _is_no_key(*header) and not is_own_key(*header)]
        if self._place.key and all(name != b"authorization" for name, _ in sent):
            sent.append((b"authorization", f"Bearer {self._place.key}".encode()))
        # Chunks of a compressed answer are delayed until a block is complete.
        return [*sent, (b"accept-encoding", b"identity")]


def _is_no_key(name: bytes, value: bytes) -> bool:
    return name == b"authorization" and value.strip().lower() in _NO_KEYS


def headers_of(answer: httpx.Response) -> list[Header]:
    """Return the headers of an answer that are forwarded to the client."""
    return [
        (name.lower(), value)
        for name, value in answer.headers.raw
        if _passes(name.decode("latin-1").casefold(), _NOT_GIVEN)
    ]


def upstream_failure(error: httpx.HTTPError) -> Refusal:
    """Return the refusal for an error between this server and the upstream, without content of the request."""
    if isinstance(error, httpx.TimeoutException):
        return _refusal(HTTPStatus.GATEWAY_TIMEOUT, "The upstream did not answer in time.", hint="Try again.")
    return _refusal(
        HTTPStatus.BAD_GATEWAY,
        f"Cannot reach the upstream: {error or type(error).__name__}.",
        hint="Check that it runs and that --upstream is its address.",
    )


def _refusal(status: HTTPStatus, message: str, *, hint: str) -> Refusal:
    return Refusal(status, Unavailable(message, hint=hint))


def _passes(name: str, excluded: Iterable[str]) -> bool:
    return name not in excluded and not name.startswith((_OURS, *_OF_SITES))


Keep = Callable[[str], Awaitable[str]]
"""Stores a model's answer, and returns an addition to the header value."""

_T = TypeVar("_T")
_DATA = b"data:"
_END = b"[DONE]"


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of work; cancel it and raise `ClientDisconnect` if the client disconnects first.

    Call it after reading the request's body.
    """
    working, leaving = asyncio.create_task(work), asyncio.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


class StreamedAnswer:
    """The answer of a model, assembled from its events."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._words: list[str] = []
        self._finished = False
        self.ended = False
        """Whether the stream is complete."""
        self._failed = False

    def hear(self, data: bytes) -> None:
        """Process the next bytes, which may end anywhere."""
        first, *more = data.split(b"\n")
        self._rest.append(first)
        if not more:
            return
        lines = [b"".join(self._rest), *more[:-1]]
        self._rest = [more[-1]]
        for line in lines:
            self._hear_line(line)

    @property
    def answer(self) -> str | None:
        """The text of the first choice; `None` if it is incomplete."""
        return "".join(self._words) if self._finished and not self._failed else None

    def _hear_line(self, line: bytes) -> None:
        if not line.startswith(_DATA):
            return
        data = line.removeprefix(_DATA).strip()
        if data == _END:
            self._finished = self.ended = True
            return
        event = _json(data)
        self._failed |= bool(event.get("error"))
        choice = _first_choice(event)
        self._finished |= bool(choice.get("finish_reason"))
        self._words.append(_content(choice.get("delta")))


def answer_of(data: bytes) -> str | None:
    """Return the text of the first choice of a complete answer; `None` if it is not an answer."""
    answer = _json(data)
    choice = _first_choice(answer)
    return _content(choice["message"]) if "message" in choice and not answer.get("error") else None


class ForwardedAnswer(Response):
    """An answer that is forwarded byte for byte as it arrives.

    `keep` is called with the complete text before the end of the answer is forwarded. If the client disconnects, the
    request to the upstream ends; if the upstream breaks off, the client gets an error event in OpenAI's format.
    """

    def __init__(self, answer: httpx.Response, headers: Sequence[Header], keep: Keep) -> None:
        super().__init__(status_code=answer.status_code)
        self.raw_headers: list[Header] = list(headers)
        self._answer = answer
        self._keep: Keep | None = keep
        self._heard = StreamedAnswer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI calls it
        """Send it."""
        try:
            with suppress(ClientDisconnect):
                await while_connected(receive, self._pass_on(send))
        finally:
            await self._store()
            await self._answer.aclose()

    async def _pass_on(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = b""
        try:
            async for data in self._answer.aiter_bytes():
                self._heard.hear(data)
                # Store before the client gets the end: a complete answer is then stored whatever happens later.
                if self._heard.ended:
                    await self._store()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except httpx.HTTPError as error:
            refusal = upstream_failure(error)
            last = b"\n\ndata: " + openai_error(refusal.status_code, refusal.failure) + b"\n\n"
        await self._store()
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _store(self) -> None:
        """Store the answer once, when it is complete."""
        keep, answer = self._keep, self._heard.answer
        if keep and answer is not None:
            self._keep = None
            await keep(answer)


def _json(data: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, Mapping) else {}


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    mappings = [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
    return next((one for one in mappings if one.get("index", 0) == 0), {})


def _content(message: object) -> str:
    return text_of(message.get("content")) if isinstance(message, Mapping) else ""
