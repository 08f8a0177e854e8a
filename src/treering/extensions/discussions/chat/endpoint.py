"""The chat endpoint: OpenAI's API in front of any upstream, with memory before and after."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import quote

import httpx
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from treering.core.errors import Denied, InvalidInput
from treering.core.patch import Author
from treering.core.scope import ROOT, is_within, parse_scope
from treering.extensions.discussions.chat.body import ChatBody, read_chat_body
from treering.extensions.discussions.chat.chat_memory import ChatBounds, ChatMemory, Recall, Storing
from treering.extensions.discussions.chat.client_tasks import is_client_task
from treering.extensions.discussions.chat.upstream import (
    ForwardedAnswer,
    Header,
    Keep,
    Upstream,
    UpstreamPlace,
    answer_of,
    headers_of,
    upstream_failure,
    while_connected,
)
from treering.extensions.discussions.generators.generator import MakingPlan
from treering.extensions.discussions.identity import DiscussionRef, discussion_ref
from treering.extensions.server.callers import Caller, RouteAccess, caller_of
from treering.extensions.server.contract import Route, Schema, read_body
from treering.extensions.server.failures import OpenAIFailure
from treering.extensions.server.served import ServedPart, ServerContext
from treering.extensions.server.workers import EVENTS
from treering.verbs.envelope import READS, WRITES
from treering.verbs.ingest.turns import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(ChatBounds):
    """The limits and location of memory for chats. Raises `InvalidInput` for invalid numbers and scopes."""

    within: str = ROOT
    """The scope below which discussions are stored; a request may name a scope below it."""
    tags: bool = False
    """Whether a tag in the client's first system message, or in the last user message, may name the discussion."""

    def __post_init__(self) -> None:
        ChatBounds.__post_init__(self)
        parse_scope(self.within)

    def scope(self, requested: str | None, *, caller: Caller) -> str:
        """Return the scope that a request names, or else the scope of the caller.

        A key for a scope below the common one has its scope, which is shared with the other keys for it. Another key
        has a scope of its own below the common one. Callers without a key are one person, and have the common scope.
        Raises `InvalidInput`, and `Denied` for a scope outside the common one.
        """
        if requested is None:
            common = caller.scope if is_within(caller.scope, self.within) else self.within
            scope = common if common != self.within else person_scope(common, caller.name)
        else:
            scope = caller.scope_for(parse_scope(requested))
        if not is_within(scope, self.within):
            raise Denied(
                f"The scope {scope} is not below {self.within}, the scope of this server's discussions.",
                hint="Use a scope below it, or none.",
            )
        return scope


def person_scope(scope: str, person: str) -> str:
    """Return the scope of a person's discussions within `scope`; without a person, `scope` itself."""
    return f"{scope.rstrip('/')}/{_PERSONS}/{quote(person, safe=_PLAIN)}" if person else scope


def recall_header(recall: Recall) -> str:
    """Return the header value with the result of a recall."""
    value = (
        f"recalled; hits={recall.reminder.hits}; ms={recall.milliseconds}"
        if recall.how == "recalled"
        else f"{recall.how}; reason={recall.reason}"
    )
    return f"{value}; unstored={recall.unstored}" if recall.unstored else value


def storing_header(storing: Storing) -> str:
    """Return the addition to the header value for a stored exchange, which is often empty."""
    match storing.how:
        case "late":
            return "; stored=late"
        case "lost":
            return "; stored=no"
        case "stored":
            return "; conversation=new" if storing.is_apart else ""


DISCUSSION_HEADER = "X-Treering-Discussion"
_OPEN_WEBUI_HEADER = "X-OpenWebUI-Chat-Id"
"""Open WebUI sends the chat's id in it if ENABLE_FORWARD_USER_INFO_HEADERS is set."""
SCOPE_HEADER = "X-Treering-Scope"
USER_HEADER = "X-Treering-User"
_OPEN_WEBUI_USER_HEADER = "X-OpenWebUI-User-Id"
MEMORY_HEADER = "X-Treering-Memory"

_PERSONS = "user"
_PLAIN = "@ +"
_READ_AT_ONCE = 4
_OFF = "off"
_FOREIGN_USER = "off; reason=user"
_DECLINED = "off; reason=asked"
_UNNAMED = "off; reason=unnamed"
_TASK = "off; reason=task"
_PASSED_ON = "Forwarded to the upstream; its answers and errors are returned with their status and body."


class _Forwarded(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class ChatRequest(_Forwarded):
    """A chat request of OpenAI's API. Every field is forwarded; only these are read."""

    messages: tuple[dict[str, Any], ...] = Field(description="Messages so far.")
    user: str | None = Field(default=None, description="The person; also the discussion, if no header names it.")


class ChatAnswer(_Forwarded):
    """The upstream's answer."""


class ModelList(_Forwarded):
    """The upstream's list of models."""


class ChatEndpoint:
    """Answers `/v1/chat/completions` and `/v1/models` with the upstream; fails if there is none."""

    def __init__(self, upstream: Upstream | None, memory: ChatMemory, settings: MemorySettings) -> None:
        self._upstream = upstream
        self._memory = memory
        self._settings = settings
        # Bodies with pictures are long: reading them must not block other requests.
        self._readers = CapacityLimiter(_READ_AT_ONCE)

    async def complete(self, request: Request) -> Response:
        """Answer a chat."""
        upstream = self._required_upstream()
        data = await read_body(request)
        read = partial(read_chat_body, data, tags=self._settings.tags)
        chat = await run_sync(read, limiter=self._readers)
        parsed = _parsed(request, data, chat, self._settings)
        return await while_connected(request.receive, self._answer(upstream, request, parsed))

    async def models(self, request: Request) -> Response:
        """Return the upstream's models."""
        upstream = self._required_upstream()
        return await while_connected(request.receive, self._models(upstream, request))

    def _required_upstream(self) -> Upstream:
        if self._upstream is None:
            raise InvalidInput(
                "This server has no upstream to answer a chat.",
                hint="Start it with --upstream URL, or TREERING_UPSTREAM: the base URL of an OpenAI-compatible API.",
            )
        return self._upstream

    async def _models(self, upstream: Upstream, request: Request) -> Response:
        answer = await upstream.ask(request, "GET", "models")
        return _response(answer, await _whole(answer), headers_of(answer))

    async def _answer(self, upstream: Upstream, request: Request, parsed: "_ParsedRequest") -> Response:
        body, header = parsed.body, parsed.header
        keep: Keep = _store_nothing
        if parsed.chat and parsed.place:
            recall = await asyncio.wrap_future(
                self._memory.recall(parsed.place, parsed.chat.messages, alone=parsed.alone)
            )
            header = recall_header(recall)
            keep = partial(self._keep, parsed.place, parsed.chat.messages, caller_of(request).author)
            if recall.reminder.text:
                body = await run_sync(parsed.chat.with_recalled, recall.reminder.text, limiter=self._readers)
        answer = await upstream.ask(request, "POST", "chat/completions", body)
        if answer.headers.get("content-type", "").casefold().startswith(EVENTS):
            return ForwardedAnswer(answer, _headers(answer, header), keep)
        data = await _whole(answer)
        text = answer_of(data) if answer.status_code == HTTPStatus.OK else None
        if text is not None:
            header += await keep(text)
        return _response(answer, data, _headers(answer, header))

    async def _keep(self, place: DiscussionRef, messages: Sequence[Message], author: Author | None, text: str) -> str:
        return storing_header(await asyncio.wrap_future(self._memory.keep(place, messages, text, author=author)))


@dataclass(frozen=True, slots=True)
class _ParsedRequest:
    """A request to forward, its parsed chat, and the discussion in which it is stored, if any."""

    body: bytes
    chat: ChatBody | None
    place: DiscussionRef | None
    header: str
    """The header value for requests without memory."""
    alone: bool = False
    """Whether it recalls nothing from other discussions, because only the field `user` names it, and maybe a person."""


@dataclass(frozen=True, slots=True)
class ServedChats:
    """The upstream of chats, the limits of their memory, and how memories are made."""

    upstream: UpstreamPlace | None = None
    """None: chats are not answered."""
    memory: MemorySettings = field(default_factory=MemorySettings)
    making: MakingPlan = field(default_factory=MakingPlan)


def serve_chats(context: ServerContext, chosen: ServedChats | None) -> ServedPart:
    """Serve chats with memory."""
    served = chosen or ServedChats()
    upstream = Upstream(served.upstream) if served.upstream else None
    memory = ChatMemory(
        context.space.engine,
        served.memory,
        ending=lambda: context.stop.begun,
        embedder=context.embedder,
        generator=served.making.generator,
        settings=served.making.settings,
    )

    async def close() -> None:
        if upstream:
            await upstream.close()
        await run_sync(memory.close)

    return ServedPart(
        routes=routes(ChatEndpoint(upstream, memory, served.memory)),
        warm=memory.warm if upstream else None,
        look_after=memory.take_over if upstream else None,
        close=close,
    )


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "a chat with memory": {
        "model": "gpt-5-mini",
        "messages": [{"role": "user", "content": "When do we cut releases?"}],
        "user": "releases",
    },
}
"""Example bodies, by purpose."""


def routes(chat: ChatEndpoint) -> tuple[Route, ...]:
    """Return the routes of the chat endpoint."""
    return (
        Route(
            method="POST",
            path="/v1/chat/completions",
            name="chat_completions",
            summary="Let the upstream answer a chat, with memory.",
            description=(
                "OpenAI's API, streaming too. Matching memories are given to the model, and "
                f"the messages are stored. {_PASSED_ON} The header `{MEMORY_HEADER}` of the answer reports the "
                "result; `off` in a request disables memory."
            ),
            answer=chat.complete,
            access=RouteAccess("space", WRITES, whole_space=False),
            takes=(ChatRequest,),
            examples=EXAMPLES,
            gives=(ChatAnswer,),
            also={EVENTS: {"schema": {"type": "string"}}},
            parameters=(
                _header(DISCUSSION_HEADER, "The discussion."),
                _header(SCOPE_HEADER, "Scope in which it is stored, shared by all who name it."),
                _header(USER_HEADER, "The person whose discussions are recalled; default: the key, or `user`."),
                _header(MEMORY_HEADER, "`off`: nothing is recalled and nothing stored."),
            ),
            fails=OpenAIFailure,
            behind=True,
        ),
        Route(
            method="GET",
            path="/v1/models",
            name="models",
            summary="List the upstream's models.",
            description=f"OpenAI's API. {_PASSED_ON}",
            answer=chat.models,
            access=RouteAccess("space", READS, whole_space=False),
            gives=(ModelList,),
            fails=OpenAIFailure,
            behind=True,
        ),
    )


def _header(name: str, description: str) -> Schema:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


async def _store_nothing(_text: str) -> str:
    return ""


def _parsed(request: Request, data: bytes, chat: ChatBody | None, settings: MemorySettings) -> _ParsedRequest:
    """Return the parsed request. Raises `InvalidInput` for a header or tag with an invalid id, and `Denied`."""
    requested = _header_value(request, SCOPE_HEADER)
    scope = settings.scope(requested, caller=caller_of(request))
    if chat is None:
        return _ParsedRequest(data, None, None, _OFF)
    if (_header_value(request, MEMORY_HEADER) or "").strip().casefold() == _OFF:
        return _ParsedRequest(chat.data, None, None, _DECLINED)
    name = _header_value(request, DISCUSSION_HEADER) or _header_value(request, _OPEN_WEBUI_HEADER) or _tagged(chat)
    person = _header_value(request, USER_HEADER) or _header_value(request, _OPEN_WEBUI_USER_HEADER)
    within = person_scope(scope, (person or (name and chat.user) or "").strip())
    place, header = (discussion_ref(name, within=within), _OFF) if name else _place_of_user(chat, within)
    if place and is_client_task(chat.messages):
        return _ParsedRequest(chat.data, chat, None, _TASK)
    alone = not (name or person or requested)
    return _ParsedRequest(chat.data, chat, place, header, alone)


def _place_of_user(chat: ChatBody, scope: str) -> tuple[DiscussionRef | None, str]:
    """Return the discussion named by the field `user`, and the header value if there is none."""
    if chat.user is None:
        return None, _UNNAMED
    try:
        return discussion_ref(chat.user, within=scope), _OFF
    except InvalidInput:
        # The field also has other uses, so an invalid id is not an error.
        return None, _FOREIGN_USER


def _tagged(chat: ChatBody) -> str | None:
    """Return the id in a tag. Raises `InvalidInput` for several, because one may be pasted text."""
    if len(chat.tags) > 1:
        raise InvalidInput(
            f"The message contains {len(chat.tags)} discussion ids: {', '.join(map(repr, chat.tags[:2]))}.",
            hint=f"Use one [DiscussionId] tag, or name the discussion in the header {DISCUSSION_HEADER}.",
        )
    return chat.tags[0] if chat.tags else None


def _header_value(request: Request, name: str) -> str | None:
    value = request.headers.get(name)
    return value.encode("latin-1").decode("utf-8", "replace") if value is not None else None


def _headers(answer: httpx.Response, header: str) -> list[Header]:
    return [*headers_of(answer), (MEMORY_HEADER.casefold().encode(), header.encode())]


async def _whole(answer: httpx.Response) -> bytes:
    try:
        return await answer.aread()
    except httpx.HTTPError as error:
        raise upstream_failure(error) from error
    finally:
        await answer.aclose()


def _response(answer: httpx.Response, body: bytes, headers: Sequence[Header]) -> Response:
    response = Response(body, status_code=answer.status_code)
    response.raw_headers = [*headers, (b"content-length", str(len(body)).encode())]
    return response
