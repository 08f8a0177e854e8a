"""The chat endpoint: OpenAI's API in front of any upstream, with memory before and after."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

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

# Memory beside the chat endpoint: what a request may ask of it, and what a header tells of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(ChatBounds):
    """What memory may cost a chat, and where it is. Raises `InvalidInput` for numbers and scopes that make no sense."""

    within: str = ROOT
    """The scope below which discussions are kept; a request may name one below it."""
    tags: bool = False
    """Whether a tag in the client's first system message, or in the last one of the user, may name the discussion."""

    def __post_init__(self) -> None:
        ChatBounds.__post_init__(self)
        parse_scope(self.within)

    def scope(self, asked: str | None, *, caller: Caller) -> str:
        """Return the scope a request names, else that of its key where that is below the common one, else the latter.

        Raises `InvalidInput`, and `Denied` for one outside.
        """
        common = caller.scope if is_within(caller.scope, self.within) else self.within
        scope = caller.scope_for(parse_scope(asked) if asked is not None else common)
        if not is_within(scope, self.within):
            raise Denied(
                f"The scope {scope} is not below {self.within}, the scope of this server's discussions.",
                hint="Use a scope below it, or none.",
            )
        return scope


def recall_header(recall: Recall) -> str:
    """Say how recalling went."""
    how = (
        f"recalled; hits={recall.reminder.hits}; ms={recall.milliseconds}"
        if recall.how == "recalled"
        else f"{recall.how}; reason={recall.reason}"
    )
    return f"{how}; unstored={recall.unstored}" if recall.unstored else how


def storing_header(storing: Storing) -> str:
    """Say what became of an exchange, if there is anything to be told of it."""
    match storing.how:
        case "late":
            return "; stored=late"
        case "lost":
            return "; stored=no"
        case "stored":
            return "; conversation=new" if storing.is_apart else ""


DISCUSSION_HEADER = "X-Treering-Discussion"
_OPEN_WEBUI_HEADER = "X-OpenWebUI-Chat-Id"
"""Open WebUI names the chat by it, if it is told to forward who asks (ENABLE_FORWARD_USER_INFO_HEADERS)."""
SCOPE_HEADER = "X-Treering-Scope"
MEMORY_HEADER = "X-Treering-Memory"

_READ_AT_ONCE = 4
_OFF = "off"
_FOREIGN_USER = "off; reason=user"
_DECLINED = "off; reason=asked"
_UNNAMED = "off; reason=unnamed"
_TASK = "off; reason=task"
_PASSED_ON = "Forwarded to the upstream; its answers and errors are returned with their status and body."


class ChatRequest(BaseModel):
    """A chat request of OpenAI's API. Every field is forwarded; only these are read."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    messages: tuple[dict[str, Any], ...] = Field(description="Messages so far.")
    user: str | None = Field(default=None, description="The id of the discussion, if no header names it.")


class ChatAnswer(BaseModel):
    """The upstream's answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class ModelList(BaseModel):
    """The upstream's list of models."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")


class ChatEndpoint:
    """Answers `/v1/chat/completions` and `/v1/models` by asking the upstream; without one it says so."""

    def __init__(self, upstream: Upstream | None, memory: ChatMemory, settings: MemorySettings) -> None:
        self._upstream = upstream
        self._memory = memory
        self._settings = settings
        # Bodies with pictures are long: reading them holds up nobody else, and waits for no tool.
        self._readers = CapacityLimiter(_READ_AT_ONCE)

    async def complete(self, request: Request) -> Response:
        """Answer a chat."""
        upstream = self._asked_upstream()
        data = await read_body(request)
        read = partial(read_chat_body, data, tags=self._settings.tags)
        chat = await run_sync(read, limiter=self._readers)
        asked = _asked(request, data, chat, self._settings)
        return await while_connected(request.receive, self._answer(upstream, request, asked))

    async def models(self, request: Request) -> Response:
        """Tell which models there are."""
        upstream = self._asked_upstream()
        return await while_connected(request.receive, self._models(upstream, request))

    def _asked_upstream(self) -> Upstream:
        if self._upstream is None:
            raise InvalidInput(
                "This server has no upstream to answer a chat.",
                hint="Start it with --upstream URL, or TREERING_UPSTREAM: the base URL of an OpenAI-compatible API.",
            )
        return self._upstream

    async def _models(self, upstream: Upstream, request: Request) -> Response:
        answer = await upstream.ask(request, "GET", "models")
        return _response(answer, await _whole(answer), headers_of(answer))

    async def _answer(self, upstream: Upstream, request: Request, asked: "_Asked") -> Response:
        body, told = asked.body, asked.told
        keep: Keep = _forget
        if asked.chat and asked.place:
            recall = await asyncio.wrap_future(self._memory.recall(asked.place, asked.chat.messages))
            told = recall_header(recall)
            keep = partial(self._keep, asked.place, asked.chat.messages, caller_of(request).author)
            if recall.reminder.text:
                body = await run_sync(asked.chat.with_recalled, recall.reminder.text, limiter=self._readers)
        answer = await upstream.ask(request, "POST", "chat/completions", body)
        if answer.headers.get("content-type", "").casefold().startswith(EVENTS):
            return ForwardedAnswer(answer, _headers(answer, told), keep)
        data = await _whole(answer)
        said = answer_of(data) if answer.status_code == HTTPStatus.OK else None
        if said is not None:
            told += await keep(said)
        return _response(answer, data, _headers(answer, told))

    async def _keep(self, place: DiscussionRef, messages: Sequence[Message], author: Author | None, said: str) -> str:
        keeping = self._memory.keep(place, messages, said, author=author)
        return storing_header(await asyncio.wrap_future(keeping))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as it is passed on, what could be read of it, and where it is kept, if anywhere."""

    body: bytes
    chat: ChatBody | None
    place: DiscussionRef | None
    told: str
    """What is said of memory where there is none."""


@dataclass(frozen=True, slots=True)
class ServedChats:
    """What answers chats, what memory may cost them, and how their memories are made."""

    upstream: UpstreamPlace | None = None
    """None: nothing answers."""
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
"""Bodies to copy, by what one wants."""


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
                _header(SCOPE_HEADER, "Scope in which it is stored."),
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


async def _forget(_said: str) -> str:
    """Keep nothing: the conversation has no discussion."""
    return ""


def _asked(request: Request, data: bytes, chat: ChatBody | None, settings: MemorySettings) -> _Asked:
    """Say what a request asks. Raises `InvalidInput` for a header or tag that names no discussion, and `Denied`."""
    scope = settings.scope(_header_value(request, SCOPE_HEADER), caller=caller_of(request))
    if chat is None:
        return _Asked(data, None, None, _OFF)
    if (_header_value(request, MEMORY_HEADER) or "").strip().casefold() == _OFF:
        return _Asked(chat.data, None, None, _DECLINED)
    named = _header_value(request, DISCUSSION_HEADER)
    named = _header_value(request, _OPEN_WEBUI_HEADER) if named is None else named
    named = _tagged(chat) if named is None else named
    place, told = (discussion_ref(named, within=scope), _OFF) if named is not None else _place_of_user(chat, scope)
    if place and is_client_task(chat.messages):
        return _Asked(chat.data, chat, None, _TASK)
    return _Asked(chat.data, chat, place, told)


def _place_of_user(chat: ChatBody, scope: str) -> tuple[DiscussionRef | None, str]:
    """Return the discussion that the field `user` names, and what is said of memory without one."""
    if chat.user is None:
        return None, _UNNAMED
    try:
        return discussion_ref(chat.user, within=scope), _OFF
    except InvalidInput:
        # The field has uses of its own, which are not ours to refuse.
        return None, _FOREIGN_USER


def _tagged(chat: ChatBody) -> str | None:
    """Return the id that a tag names. Raises `InvalidInput` for several, of which one may be pasted text."""
    if len(chat.tags) > 1:
        raise InvalidInput(
            f"The message contains {len(chat.tags)} discussion ids: {', '.join(map(repr, chat.tags[:2]))}.",
            hint=f"Use one [DiscussionId] tag, or name the discussion in the header {DISCUSSION_HEADER}.",
        )
    return chat.tags[0] if chat.tags else None


def _header_value(request: Request, name: str) -> str | None:
    value = request.headers.get(name)
    return value.encode("latin-1").decode("utf-8", "replace") if value is not None else None


def _headers(answer: httpx.Response, told: str) -> list[Header]:
    return [*headers_of(answer), (MEMORY_HEADER.casefold().encode(), told.encode())]


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
