"""The form of the server's errors: one structure, and an HTTP status that programs can rely on."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from treering.core.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, TreeringError, Unavailable, nearest

STATUSES: Mapping[type[TreeringError], HTTPStatus] = {
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Denied: HTTPStatus.FORBIDDEN,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    Corrupt: HTTPStatus.INTERNAL_SERVER_ERROR,
}
OF_OPENAI = frozenset({"/v1/chat/completions", "/v1/models"})
"""Paths of OpenAI's API, whose failures have its structure."""

REQUEST_ID = "X-Request-Id"
"""Names a request in the log: as a proxy named it, else with a new id; every answer carries it."""

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = "1"
_PATH_SIMILARITY = 0.75
"""The minimum similarity of a suggested path; below it, similarity is chance, because paths share their beginnings."""


class Failure(BaseModel):
    """The body of every error."""

    code: str = Field(description="The kind of error, for programs; the same on every surface.")
    message: str = Field(description="What went wrong.")
    hint: str = Field(description="How to fix it; may be empty.")
    details: dict[str, Any] = Field(description="Facts for a program, such as the invalid `fields`.")


class OpenAIError(BaseModel):
    """An error in the format of OpenAI's API."""

    message: str = Field(description="What went wrong and how to fix it.")
    type: str = Field(description="`invalid_request_error`, or `api_error` if the request is not the cause.")
    param: None = Field(default=None, description="Always null.")
    code: str = Field(description="The kind of error; the `code` of Treering's errors.")


class OpenAIFailure(BaseModel):
    """The body of every error of OpenAI-compatible endpoints, except errors of the upstream."""

    error: OpenAIError


class Refusal(HTTPException):
    """A request refused for its HTTP form, or because of the server behind this one.

    `code`: the code of the error. Default: the name of the status.
    """

    def __init__(
        self, status: HTTPStatus, error: TreeringError, *, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail=error.message, headers=dict(headers or {}))
        self.failure: Failure = Failure(
            code=code or status.name.casefold(), message=error.message, hint=error.hint, details=error.details
        )


def too_many_requests(message: str, hint: str, *, seconds: int = 1, **details: Any) -> Refusal:
    """Refuse a request of a key that has sent too many (429); it may try again after some seconds."""
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        Unavailable(message, hint=hint, details=details),
        headers={"Retry-After": str(seconds)},
    )


def content_type(request: Request) -> str:
    """Return the media type of a body, without parameters; empty if the request names none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().casefold()


def mislabeled(request: Request, what: str, hint: str) -> Refusal:
    """Refuse a body for its content type (415). `what` it is, for the message."""
    label = content_type(request)
    message = f"The {what} is labelled {label!r}." if label else f"The {what} has no Content-Type."
    return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, InvalidInput(message, hint=hint))


def answer_failures(app: FastAPI) -> None:
    """Answer every failure of an app in the common structure; details of unexpected errors are only logged."""
    app.add_exception_handler(TreeringError, _told)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unforeseen)


def status_of(error: TreeringError) -> HTTPStatus:
    """Return the HTTP status of an error of Treering."""
    return next((STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES), HTTPStatus.INTERNAL_SERVER_ERROR)


def for_caller(error: TreeringError) -> TreeringError:
    """Return an error without the location of the database; the full message is logged."""
    if not error.public_message:
        return error
    _LOG.warning(error.message)
    return type(error)(error.public_message, hint=error.hint, details=error.details)


def failure_response(error: TreeringError, *, path: str) -> Response:
    """Return the response for an error of Treering, in the format of the path."""
    status = status_of(error)
    headers = {"Retry-After": _RETRY_SECONDS} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return _response(path, status, Failure(**for_caller(error).as_dict()), headers)


def refusal_response(refusal: Refusal, *, path: str) -> Response:
    """Return the response for a refusal, in the format of the path."""
    return _response(path, refusal.status_code, refusal.failure, refusal.headers or {})


def openai_error(status: int, failure: Failure) -> bytes:
    """Return a failure in the format of OpenAI's API."""
    error = OpenAIError(
        message=f"{failure.message} {failure.hint}".strip(),
        type="api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error",
        code=failure.code,
    )
    return to_json(OpenAIFailure(error=error))


def _told(request: Request, error: Exception) -> Response:
    if not isinstance(error, TreeringError):
        raise error
    return failure_response(error, path=request.url.path)


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return refusal_response(error, path=request.url.path)
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.NOT_FOUND:
        return failure_response(_no_such_place(request), path=request.url.path)
    headers = dict(error.headers or {})
    if "Allow" in headers:  # it has the methods of the path's first route only
        headers["Allow"] = _allowed(request)
    allowed = headers.get("Allow", "")
    failure = Failure(
        code=HTTPStatus(error.status_code).name.casefold(),
        message=f"{request.method} {request.url.path}: {error.detail}.",
        hint=f"Allowed: {allowed}." if allowed else "",
        details={},
    )
    return _response(request.url.path, error.status_code, failure, headers)


def _allowed(request: Request) -> str:
    """Return the methods of all routes of a path."""
    matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in matching for method in getattr(route, "methods", None) or ()}))


def _no_such_place(request: Request) -> NotFound:
    unserved: Mapping[str, str] = getattr(request.app.state, "unserved", {})
    if hint := unserved.get(request.url.path):
        return NotFound(f"{request.url.path} is not served here.", hint=hint)
    known = sorted({getattr(route, "path", "") for route in request.app.routes} - {""})
    return NotFound(
        f"There is nothing at {request.url.path}.",
        hint=nearest(request.url.path, known, similarity=_PATH_SIMILARITY, otherwise="/openapi.json lists all paths."),
        details={"known": known},
    )


def _gone(request: Request, _error: Exception) -> Response:
    # The client will not read this, but a disconnected client is not an error to log.
    return failure_response(Unavailable("The client disconnected."), path=request.url.path)


def _unforeseen(request: Request, _error: Exception) -> Response:
    failure = Failure(
        code=TreeringError.code,
        message="The server failed on this request.",
        hint="See its log. Earlier writes are saved. Please report this error.",
        details={},
    )
    # The middleware that adds the id to other answers does not see this one.
    headers = {REQUEST_ID: request.state.request_id} if hasattr(request.state, "request_id") else {}
    return _response(request.url.path, HTTPStatus.INTERNAL_SERVER_ERROR, failure, headers)


def _response(path: str, status: int, failure: Failure, headers: Mapping[str, str]) -> Response:
    body = openai_error(status, failure) if path in OF_OPENAI else to_json(failure.model_dump(), fallback=str)
    return Response(body, status_code=status, media_type="application/json", headers=dict(headers))
