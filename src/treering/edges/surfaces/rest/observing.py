"""Every request in the metrics and, where that is asked for, in the log: where, how it ended, how long, by which key.

Neither holds content: a route is told as its template, a key by its id.
"""

import logging
import re
from collections.abc import Iterable
from time import monotonic
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Route, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treering.edges.surfaces.logs import REQUESTS, RequestFields
from treering.edges.surfaces.rest.failures import REQUEST_ID
from treering.edges.surfaces.rest.metrics import Metrics

_LOG = logging.getLogger(REQUESTS)
_GIVEN_ID = re.compile(r"[0-9A-Fa-f-]{8,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ELSE = "other"
_HUNG_UP = 499
"""No answer, because the client has hung up (as nginx calls it)."""
_FAILED = 500


class RouteTemplates:
    """Tells the template of a path: `/web/objects/{id}` for all objects."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._templates = [(compile_path(one.path)[0], one.path) for one in routes if isinstance(one, Route)]

    def of(self, path: str) -> str:
        """Return the template of a path; of an unknown one, a word."""
        return next((template for match, template in self._templates if match.match(path)), _ELSE)


class RequestObserver:
    """Notes what becomes of each request to an app, refusals included."""

    def __init__(self, app: ASGIApp, *, templates: RouteTemplates, metrics: Metrics) -> None:
        self._app = app
        self._templates = templates
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have one request answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope).get(REQUEST_ID, ""))
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = _HUNG_UP

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # What a model server answered keeps its id: that server's people ask for it.
                MutableHeaders(scope=message).setdefault(REQUEST_ID, request_id)
            await send(message)

        began = monotonic()
        self._metrics.begin()
        try:
            await self._app(scope, receive, noted)
        except Exception:
            status = _FAILED  # answered by what is around this
            raise
        finally:
            self._note(scope, status, monotonic() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else _ELSE
        route = self._templates.of(scope["path"])
        self._metrics.end(method=method, route=route, status=status, seconds=seconds)
        if not _LOG.isEnabledFor(logging.INFO):
            return
        state = scope["state"]
        caller = state.get("caller")
        fields = RequestFields(
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1_000, 1),
            key=caller.key if caller else "",
            request_id=state["request_id"],
        )
        _LOG.info("request", extra={"request": fields})


def _request_id(given: str) -> str:
    """Return the id that a proxy gave a request, if it is one that can hold no content; else a new one."""
    return given if _GIVEN_ID.fullmatch(given) else uuid4().hex
