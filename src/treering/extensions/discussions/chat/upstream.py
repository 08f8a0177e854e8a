"""The model behind the chat endpoint: a server that speaks OpenAI's API, and passing on what it says as it comes."""

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
                "--upstream needs an http(s) URL without a user name, query or fragment.",
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


def upstream_failure(error: httpx.HTTPError) -> Refusal:
    """Tell what broke between this server and the upstream. Nothing of the request is said in it."""
    if isinstance(error, httpx.TimeoutException):
        return _refusal(HTTPStatus.GATEWAY_TIMEOUT, "The upstream did not answer in time.", hint="Try again.")
    return _refusal(
        HTTPStatus.BAD_GATEWAY,
        f"Cannot reach the upstream: {error or type(error).__name__}.",
        hint="Check that it runs and that --upstream is its address.",
    )


def _refusal(status: HTTPStatus, message: str, *, hint: str) -> Refusal:
    return Refusal(status, Unavailable(message, hint=hint), code=status.name.casefold())


def _passes(name: str, held_back: Iterable[str]) -> bool:
    return name not in held_back and not name.startswith((_OURS, *_OF_SITES))


# Passing on what an upstream says while it says it, and hearing what it comes to.


Keep = Callable[[str], Awaitable[str]]
"""Stores what a model said, and gives what is to be told of that."""

_T = TypeVar("_T")
_DATA = b"data:"
_END = b"[DONE]"


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """Return what work gives; where the client hangs up before, end it and raise `ClientDisconnect`.

    To be called when the request's body has been read.
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
    """The answer of a model, put together from the events that tell it."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._words: list[str] = []
        self._finished = False
        self._ended = False
        self._failed = False

    def hear(self, data: bytes) -> None:
        """Take the next bytes, which may end anywhere."""
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
        """What was said, in the first of several choices; nothing where it was not said to its end."""
        return "".join(self._words) if self._finished and not self._failed else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be said."""
        return self._ended

    def _hear_line(self, line: bytes) -> None:
        if not line.startswith(_DATA):
            return
        data = line.removeprefix(_DATA).strip()
        if data == _END:
            self._finished = self._ended = True
            return
        event = _json(data)
        self._failed |= bool(event.get("error"))
        choice = _first_choice(event)
        self._finished |= bool(choice.get("finish_reason"))
        self._words.append(_content(choice.get("delta")))


def answer_of(data: bytes) -> str | None:
    """Return the text of a whole answer, of the first of several choices; nothing where it is not an answer."""
    answer = _json(data)
    choice = _first_choice(answer)
    return _content(choice["message"]) if "message" in choice and not answer.get("error") else None


class ForwardedAnswer(Response):
    """An answer that is passed on as it comes, byte for byte.

    `keep` is given what the model said, if it said all of it; the end of the answer is passed on after that. A client
    that hangs up ends the upstream's work; where the upstream breaks off, the client is told so by an event of
    OpenAI's shape.
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
            await self._kept()
            await self._answer.aclose()

    async def _pass_on(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = b""
        try:
            async for data in self._answer.aiter_bytes():
                self._heard.hear(data)
                # Before the client hears that it is the end: what was answered whole is stored, whatever happens then.
                if self._heard.ended:
                    await self._kept()
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except httpx.HTTPError as error:
            refusal = upstream_failure(error)
            last = b"\n\ndata: " + openai_error(refusal.status_code, refusal.failure) + b"\n\n"
        await self._kept()
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _kept(self) -> None:
        """Have kept once what was said."""
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
    found = [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
    return next((one for one in found if one.get("index", 0) == 0), {})


def _content(message: object) -> str:
    return text_of(message.get("content")) if isinstance(message, Mapping) else ""
