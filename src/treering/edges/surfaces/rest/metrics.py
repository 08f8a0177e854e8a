"""What a server counts of itself, in the text form of Prometheus. Names and routes only: nothing of what is kept."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from treering.core.errors import TreeringError

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


@dataclass(frozen=True, slots=True)
class SpaceState:
    """What is told of the spaces of a server."""

    spaces_open: int
    waiting_vectors: int
    """Texts of the open spaces that are found by words, and not by meaning yet."""


class Metrics:
    """Counts requests, and asks the server's parts when it is asked itself."""

    def __init__(self, *, spaces: Callable[[], SpaceState], running: Callable[[], tuple[int, int]]) -> None:
        """Take what tells of the spaces, and how many jobs run and how many wait for a thread."""
        self._registry = CollectorRegistry()
        self._thread = CapacityLimiter(1)
        self._requests = Counter(
            "treering_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "treering_request_seconds",
            "From the head of a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._inside = Gauge("treering_requests_in_progress", "Requests being answered.", registry=self._registry)
        self._refused = Counter(
            "treering_refused", "Requests that were not let in, by the reason.", ("reason",), registry=self._registry
        )
        self._registry.register(_State(spaces, running))
        ProcessCollector(registry=self._registry)

    def begin(self) -> None:
        """Count a request that has come."""
        self._inside.inc()

    def end(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count what became of it."""
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

    def __init__(self, spaces: Callable[[], SpaceState], running: Callable[[], tuple[int, int]]) -> None:
        self._spaces = spaces
        self._running = running

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name nothing before it is asked: that would open spaces."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give the numbers of now. A space that cannot be read is told as one that is down."""
        running, waiting = self._running()
        yield GaugeMetricFamily("treering_jobs_running", "Calls that have a thread.", value=running)
        yield GaugeMetricFamily("treering_jobs_waiting", "Calls that wait for a thread.", value=waiting)
        try:
            state = self._spaces()
        except TreeringError:
            yield GaugeMetricFamily("treering_spaces_up", "Whether the spaces can be read.", value=0)
            return
        yield GaugeMetricFamily("treering_spaces_up", "Whether the spaces can be read.", value=1)
        yield GaugeMetricFamily("treering_spaces_open", "Spaces that are open.", value=state.spaces_open)
        yield GaugeMetricFamily(
            "treering_waiting_vectors", "Texts of open spaces that wait for a vector.", value=state.waiting_vectors
        )
