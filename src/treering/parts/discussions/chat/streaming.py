"""Passing on what an upstream says while it says it, and hearing what it comes to."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import httpx
from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from treering.parts.discussions.chat.body import text_of
from treering.parts.discussions.chat.upstream import Header, broken
from treering.surfaces.http.failures import openai_error
from treering.surfaces.http.workers import wait_for_disconnect

Keep = Callable[[str], Awaitable[str]]
"""Stores what a model said, and gives what is to be told of that."""

_T = TypeVar("_T")
_DATA = b"data:"
_END = b"[DONE]"


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
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


class Heard:
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


class Passing(Response):
    """An answer that is passed on as it comes, byte for byte.

    `keep` is given what the model said, if it said all of it; the end of the answer is passed on after that. A client
    that hangs up ends the upstream's work; where the upstream breaks off, the client is told so by an event of
    OpenAI's shape.
    """

    def __init__(self, answer: httpx.Response, headers: Sequence[Header], keep: Keep) -> None:
        super().__init__(status_code=answer.status_code)
        self.raw_headers = list(headers)
        self._answer = answer
        self._keep: Keep | None = keep
        self._heard = Heard()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI calls it
        """Send it."""
        try:
            with suppress(ClientDisconnect):
                await unless_gone(receive, self._pass_on(send))
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
            refusal = broken(error)
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
