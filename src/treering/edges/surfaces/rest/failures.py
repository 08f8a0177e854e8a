"""How the server tells what went wrong: one shape, and an HTTP status that programs can rely on."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from treering.core.errors import (
    Conflict,
    Corrupt,
    Denied,
    InvalidInput,
    NotFound,
    TreeringError,
    Unavailable,
    nearest,
)

STATUSES: Mapping[type[TreeringError], HTTPStatus] = {
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Denied: HTTPStatus.FORBIDDEN,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    Corrupt: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_RETRY_SECONDS = "1"


class Failure(BaseModel):
    """What every answer but a good one is."""

    code: str = Field(description="The kind of error, for programs; the same on every surface.")
    message: str = Field(description="What went wrong.")
    hint: str = Field(description="What to do about it; may be empty.")
    details: dict[str, Any] = Field(description="Facts for a program, such as `fields` that are wrong.")


class Refusal(HTTPException):
    """A request refused for its form as HTTP, before anything of Treering was asked."""

    def __init__(self, status: HTTPStatus, error: TreeringError, *, code: str) -> None:
        super().__init__(status, detail=error.message)
        self.failure = Failure(code=code, message=error.message, hint=error.hint, details=error.details)


def answer_failures(app: FastAPI) -> None:
    """Have an app answer every failure in the one shape; whatever is unforeseen goes to the log only."""
    app.add_exception_handler(TreeringError, _told)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unforeseen)


def failure_response(error: TreeringError) -> Response:
    """Show an error of Treering."""
    status = next((STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES), HTTPStatus.INTERNAL_SERVER_ERROR)
    headers = {"Retry-After": _RETRY_SECONDS} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return _response(status, error.as_dict(), headers)


def _told(_request: Request, error: Exception) -> Response:
    if not isinstance(error, TreeringError):
        raise error
    return failure_response(error)


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return _response(error.status_code, error.failure.model_dump(), {})
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.NOT_FOUND:
        return failure_response(_no_such_place(request))
    allowed = (error.headers or {}).get("Allow", "")
    failure = Failure(
        code=HTTPStatus(error.status_code).name.casefold(),
        message=f"{request.method} {request.url.path}: {error.detail}.",
        hint=f"Allowed: {allowed}." if allowed else "",
        details={},
    )
    return _response(error.status_code, failure.model_dump(), error.headers or {})


def _no_such_place(request: Request) -> NotFound:
    known = sorted({getattr(route, "path", "") for route in _routes(request)} - {""})
    return NotFound(
        f"There is nothing at {request.url.path}.",
        hint=nearest(request.url.path, known),
        details={"known": known},
    )


def _routes(request: Request) -> Sequence[object]:
    app: FastAPI = request.app
    return app.routes


def _gone(_request: Request, _error: Exception) -> Response:
    # Nobody reads it; but a client that hangs up in the middle is no failure to be logged.
    return failure_response(Unavailable("The client has hung up."))


def _unforeseen(_request: Request, _error: Exception) -> Response:
    failure = Failure(
        code=TreeringError.code,
        message="The server failed on this request.",
        hint="Its log says why. What was written before stays; please report it.",
        details={},
    )
    return _response(HTTPStatus.INTERNAL_SERVER_ERROR, failure.model_dump(), {})


def _response(status: int, data: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    body = to_json(data, fallback=str)
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers))
