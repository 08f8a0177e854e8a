"""Answering requests over standard input that the protocol's library cannot read.

It drops such a line, and its client waits for an answer until it gives up. A client that cuts a text within an emoji
sends one: half of a surrogate pair is no Unicode.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_INVALID_REQUEST = -32600
_SURROGATE = re.compile("[\ud800-\udfff]")


@asynccontextmanager
async def readable(incoming: Any, outgoing: Any, *, release: int) -> AsyncIterator[Any]:
    """Pass on the messages of a stream that could be read, and answer a request that could not with an error.

    A line without an id is passed on: there is no request to answer. `release`: that of the package `mcp`.
    """
    sending, requests = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with sending:
            async for message in incoming:
                error = _refusal(message)
                if error is None:
                    await sending.send(message)
                else:
                    await outgoing.send(SessionMessage(_as_message(error, release)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on)
        yield requests
        tasks.cancel_scope.cancel()


def _refusal(message: Any) -> dict[str, Any] | None:
    request = _request_in(message) if isinstance(message, ValidationError) else {}
    identity = request.get("id") if "method" in request else None
    if isinstance(identity, bool) or not isinstance(identity, int | str) or _SURROGATE.search(str(identity)):
        return None
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": _INVALID_REQUEST, "message": _problem(request)}}


def _request_in(error: ValidationError) -> dict[str, Any]:
    """Return the request that could not be read; empty where the line is no JSON object."""
    for problem in error.errors(include_url=False, include_context=False):
        given = problem["input"]
        if problem["type"] == "json_invalid":
            given = _json_of(given)
        if isinstance(given, dict) and "jsonrpc" in given:
            return given
    return {}


def _json_of(line: Any) -> Any:
    try:
        return json.loads(line)
    except (TypeError, ValueError, RecursionError):
        return None


def _problem(request: dict[str, Any]) -> str:
    if _SURROGATE.search(json.dumps(request, ensure_ascii=False)):
        return (
            "The request holds half of a surrogate pair, so it is not valid Unicode. "
            "Cut texts between characters, not within one, and send it again."
        )
    return "The request is not a valid message of the protocol. Compare it with the specification of JSON-RPC 2.0."


def _as_message(data: dict[str, Any], release: int) -> Any:
    if release == 2:
        import mcp_types

        return mcp_types.JSONRPCError.model_validate(data)
    from mcp import types

    message: Any = types.JSONRPCMessage  # of release 1, a model; of release 2, a union
    return message.model_validate(data)
