"""Metrics of the server in Prometheus text format. They contain names and routes, but no stored content."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from time import monotonic
from uuid import uuid4

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Mount, Route, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treering.core.errors import TreeringError
from treering.extensions.server.failures import REQUEST_ID
from treering.extensions.server.request_log import REQUESTS, RequestFields

PATH = "/metrics"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
_REFUSED = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
_LOG = logging.getLogger(REQUESTS)
_GIVEN_ID = re.compile(r"[0-9A-Fa-f-]{8,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ELSE = "other"
_HUNG_UP = 499
"""No answer, because the client has hung up (as nginx calls it)."""
_FAILED = 500


class Metrics:
    """Counts requests, and collects the state of the server's components for each scrape."""

    def __init__(self, *, spaces: Callable[[], tuple[int, int]], running: Callable[[], tuple[int, int]]) -> None:
        """`spaces` returns the numbers of open spaces and of their texts that wait to be embedded.

        `running` returns the numbers of running and of waiting jobs.
        """
        self._registry = CollectorRegistry()
        self._thread = CapacityLimiter(1)
        self._requests = Counter(
            "treering_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "treering_request_seconds",
            "Time from the head of a request to the end of its response.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._inside = Gauge("treering_requests_in_progress", "Requests being answered.", registry=self._registry)
        self._refused = Counter(
            "treering_refused", "Rejected requests by reason.", ("reason",), registry=self._registry
        )
        self._registry.register(_State(spaces, running))
        ProcessCollector(registry=self._registry)

    def begin(self) -> None:
        """Count an incoming request."""
        self._inside.inc()

    def end(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count the result of a request."""
        self._inside.dec()
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if status in _REFUSED:
            self._refused.labels(HTTPStatus(status).name.casefold()).inc()

    async def answer(self) -> Response:
        """Answer `GET /metrics`."""
        # Spaces may be in files or on a server: the event loop waits for neither.
        text = await run_sync(lambda: generate_latest(self._registry), limiter=self._thread)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


class _State(Collector):
    """Looks at the parts of a server while its metrics are read."""

    def __init__(self, spaces: Callable[[], tuple[int, int]], running: Callable[[], tuple[int, int]]) -> None:
        self._spaces = spaces
        self._running = running

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return no metrics at registration, because collecting them would open spaces."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the current values. A space that cannot be read is reported as down."""
        running, waiting = self._running()
        yield GaugeMetricFamily("treering_jobs_running", "Calls running in a thread.", value=running)
        yield GaugeMetricFamily("treering_jobs_waiting", "Calls waiting for a thread.", value=waiting)
        try:
            spaces_open, waiting_vectors = self._spaces()
        except TreeringError:
            yield GaugeMetricFamily("treering_spaces_up", "Whether the spaces can be read.", value=0)
            return
        yield GaugeMetricFamily("treering_spaces_up", "Whether the spaces can be read.", value=1)
        yield GaugeMetricFamily("treering_spaces_open", "Spaces that are open.", value=spaces_open)
        yield GaugeMetricFamily(
            "treering_waiting_vectors", "Texts of open spaces waiting to be embedded.", value=waiting_vectors
        )


class RouteTemplates:
    """Finds the template of a path: `/web/objects/{id}` for all objects."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._templates = [(compile_path(path)[0], path) for path in _paths_of(routes)]

    def of(self, path: str) -> str:
        """Return the template of a path; of an unknown one, a word."""
        return next((template for match, template in self._templates if match.match(path)), _ELSE)


def _paths_of(routes: Iterable[BaseRoute], below: str = "") -> Iterator[str]:
    for one in routes:
        if isinstance(one, Route):
            yield f"{below}{one.path}"
        elif isinstance(one, Mount):
            yield from (
                _paths_of(one.routes, f"{below}{one.path}") if one.routes else [f"{below}{one.path}/{{path:path}}"]
            )


class RequestObserver:
    """Records the result of each request to an app, including refusals."""

    def __init__(self, app: ASGIApp, *, templates: RouteTemplates, metrics: Metrics) -> None:
        self._app = app
        self._templates = templates
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
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
                # An answer of a model server keeps its id, which that server's operators ask for.
                MutableHeaders(scope=message).setdefault(REQUEST_ID, request_id)
            await send(message)

        began = monotonic()
        self._metrics.begin()
        try:
            await self._app(scope, receive, noted)
        except Exception:
            status = _FAILED  # answered by the enclosing middleware
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
            key=caller.key if caller else state.get("key_id", ""),
            request_id=state["request_id"],
        )
        _LOG.info("request", extra={"request": fields})


def _request_id(given: str) -> str:
    """Return the request id set by a proxy if its form is safe; otherwise a new one."""
    return given if _GIVEN_ID.fullmatch(given) else uuid4().hex
