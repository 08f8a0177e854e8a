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

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_JSON = "The line is not JSON. Send one JSON object of JSON-RPC 2.0 in a line, in UTF-8."


@asynccontextmanager
async def readable(incoming: Any, outgoing: Any, *, release: int) -> AsyncIterator[Any]:
    """Pass on the messages of a stream that could be read, and answer a line that could not with an error.

    An empty line and an unreadable answer are passed on: they are no requests. `release`: of the package `mcp`.
    """
    sending, requests = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with sending:
            async for message in incoming:
                error = _refusal(message) if isinstance(message, ValidationError) else None
                if error is None:
                    await sending.send(message)
                else:
                    await outgoing.send(SessionMessage(_as_message(error, release)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on)
        yield requests
        tasks.cancel_scope.cancel()


def _refusal(error: ValidationError) -> dict[str, Any] | None:
    line = _line_of(error)
    if isinstance(line, str):
        return _error(None, _PARSE_ERROR, _NO_JSON) if line.strip() else None
    if isinstance(line, dict) and "method" not in line and line.keys() & {"result", "error"}:
        return None
    identity = line.get("id") if isinstance(line, dict) else None
    if isinstance(identity, bool) or not isinstance(identity, int | str) or _SURROGATE.search(str(identity)):
        identity = None
    return _error(identity, _INVALID_REQUEST, _problem(line))


def _error(identity: int | str | None, code: int, message: str) -> dict[str, Any]:
    """Return an error answer; its id is `None` if the id of the request cannot be read."""
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


def _line_of(error: ValidationError) -> Any:
    """Return the JSON value of the line that could not be read; its text if it is no JSON."""
    problems = error.errors(include_url=False, include_context=False)
    for problem in problems:
        if problem["type"] == "json_invalid":
            return _json_of(problem["input"])
        if isinstance(problem["input"], dict) and "jsonrpc" in problem["input"]:
            return problem["input"]
    return problems[0]["input"] if len(problems[0]["loc"]) <= 1 else {}


def _json_of(line: Any) -> Any:
    try:
        return json.loads(line)
    except (TypeError, ValueError, RecursionError):
        return str(line)


def _problem(request: Any) -> str:
    if _SURROGATE.search(json.dumps(request, ensure_ascii=False)):
        return (
            "The request holds half of a surrogate pair, so it is not valid Unicode. "
            "Cut texts between characters, not within one, and send it again."
        )
    return "The request is not a valid message of the protocol. Compare it with the specification of JSON-RPC 2.0."


def _as_message(data: dict[str, Any], release: int) -> Any:
    if release == 1 and data["id"] is None:
        data = {**data, "id": ""}  # its model knows no other id
    if release == 2:
        import mcp_types

        return mcp_types.JSONRPCError.model_validate(data)
    from mcp import types

    message: Any = types.JSONRPCMessage  # of release 1, a model; of release 2, a union
    return message.model_validate(data)
