"""The server's app: its routes, their access rules, and the form of its errors."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from anyio import CapacityLimiter, fail_after
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.server import jobs, limits, pages, uploads, verb_routes
from treering.extensions.server.callers import Bounds, Caller, RouteAccess
from treering.extensions.server.contract import Route, document, json_answer
from treering.extensions.server.failures import answer_failures, for_caller
from treering.extensions.server.gate import ACCESS as SIGN_IN_ACCESS
from treering.extensions.server.gate import SIGN_IN, SIGN_OUT, Gate, KeyRing, SignIn
from treering.extensions.server.keys import GRANTED
from treering.extensions.server.metrics import PATH as METRICS
from treering.extensions.server.metrics import Metrics, RequestObserver, RouteTemplates
from treering.extensions.server.recent_calls import RecentCalls
from treering.extensions.server.request_guard import RequestGuard
from treering.extensions.server.running_jobs import RunningJobs
from treering.extensions.server.served import (
    ALLOWED,
    Allowed,
    FurtherSpaces,
    ServedSpace,
    ServerContext,
    granted,
    served_parts,
)
from treering.extensions.server.verb_routes import PATH as MCP_PATH
from treering.extensions.server.verb_routes import McpEndpoint
from treering.extensions.server.workers import PeriodicChecks, Stop, Workers
from treering.ports.models import Embedder
from treering.spaces.wiring import open_access_keys
from treering.system.address import Address
from treering.system.machine import SystemClock
from treering.system.settings import Settings
from treering.verbs.envelope import READS, Value
from treering.version import __version__

_HEALTH, _READY = ("/health", "/healthz"), ("/ready", "/readyz")
_CONTRACT = "/openapi.json"
_READY_SECONDS = 5
_ANYBODY = RouteAccess("anybody", READS, whole_space=False)
_ADMIN = RouteAccess("space", GRANTED["admin"], whole_space=True)


@dataclass(frozen=True, slots=True)
class Serving:
    """The space to serve, the rights of callers, and the limits."""

    space: Address | str
    """The address of the space of the four tools."""
    files: Path | None = None
    """The folder below which `ingest` may read files; none: it reads no files."""
    urls: bool = False
    """Whether `ingest` may fetch pages of the web."""
    allow: frozenset[Allowed] = frozenset()
    """Rights of callers beyond reading and writing: deciding as a person, and erasing."""
    keys: Address | None = None
    """The location of the access keys that requests need; `None`: any program of this machine may call."""
    bounds: Bounds = field(default_factory=Bounds)
    """How much at once, and for how long."""
    metrics_to_all: bool = False
    """Whether `/metrics` needs no key; else it needs one with the right `admin`."""
    background: bool = True
    """Whether vectors are embedded in the background."""
    embedder: Embedder | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The values of the parts' flags, by the name of the part."""


class Health(Value):
    """The answer of a running process."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(Value):
    """The space can be opened. If there is none yet, the first write creates it."""

    status: Literal["ready"] = "ready"
    space: Literal["open", "new"]


def build_app(serving: Serving, *, stop: Stop | None = None) -> FastAPI:
    """Make the app. Spaces are opened by the first call that needs them, and closed when the app stops.

    `stop`: ends long work when the server stops. Raises the errors of opening an existing space, so that they are not
    deferred to the first call.
    """
    server = _Server(serving, stop or Stop())

    async def admit(request: Request) -> Caller:
        return await gate.admit(request, request.method)

    routes = server.routes(admit)
    # The pages that show the API to people load their scripts from elsewhere; this server is for offline, too.
    app = FastAPI(lifespan=server.lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    for one in routes:
        app.add_api_route(one.path, one.answer, methods=[one.method], response_model=None)
    app.router.routes.extend(pages.routes(server.context, server.further, server.calls, admit=admit))
    described = document(routes)
    app.router.routes.append(server.agents.route)
    app.openapi = lambda: described  # type: ignore[method-assign]  # the documented way to give one's own
    answer_failures(app)
    app.state.unserved = verb_routes.unserved_operations(server.context)
    metrics = Metrics(spaces=server.spaces, running=server.load)
    app.add_api_route(METRICS, metrics.answer, methods=["GET"], response_model=None)
    gate = server.gate(routes)
    _add_sign_in(app, SignIn(gate))
    app.add_middleware(
        RequestGuard,
        bounds=serving.bounds,
        apart=frozenset((*_HEALTH, *_READY, METRICS)),
        gate=gate,
        streamed=frozenset({uploads.UPLOAD}),
    )
    app.add_middleware(RequestObserver, templates=RouteTemplates(app.routes), metrics=metrics)
    return app


class _Server:
    """The components of an app, from its start to its end."""

    def __init__(self, serving: Serving, stop: Stop) -> None:
        self._serving = serving
        # With keys, each key limits its holder's rights.
        self._most = granted(files=serving.files, allow=ALLOWED if serving.keys else serving.allow, urls=serving.urls)
        self._space = ServedSpace(
            serving.space,
            stop=stop,
            background=serving.background,
            embedder=serving.embedder,
            files=serving.files,
            granted=self._most,
        )
        self._space.check()
        workers = Workers(_threads(serving), stop=stop, reads_at_once=1 if _computes_alone(serving) else None)
        self.context = ServerContext(self._space, workers, serving.bounds, stop, serving.background, serving.embedder)
        self.calls = RecentCalls()
        self._jobs = RunningJobs(self._space, serving.bounds, stop=stop)
        self._served = served_parts(self.context, serving.parts)
        self.further = next((one.spaces for one in self._served if one.spaces), None)
        self._ring = _key_ring(serving, self.further)
        self.agents = McpEndpoint(self.context, urls=serving.urls)
        looks = [one.look_after for one in self._served if one.look_after]
        self._checks = PeriodicChecks([self._space.look_after, *looks])

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Start background work, and stop all of it at the end."""
        for one in self._served:
            if one.warm:
                one.warm()
        if self._serving.background:
            self._checks.start()
        try:
            async with self.agents.run():
                yield
        finally:
            self.context.stop.begin()
            await self._jobs.close()
            await run_sync(self._checks.stop)
            for one in reversed(self._served):
                if one.close:
                    await one.close()
            await run_sync(self._space.close)
            if self._ring:
                await run_sync(self._ring.keys.close)

    def routes(self, admit: Callable[[Request], Awaitable[Caller]]) -> tuple[Route, ...]:
        """Return all routes of the contract. `admit` checks access again during long answers."""
        return (
            *_state_of(self._space),
            *verb_routes.routes(self.context, self.calls, self._jobs),
            uploads.route(self.context, self.calls, self._jobs),
            *jobs.routes(self.context, self._jobs, admit=admit),
            *verb_routes.operation_routes(self.context),
            *(route for one in self._served for route in one.routes),
        )

    def gate(self, routes: Iterable[Route]) -> Gate:
        """Return the gate that checks access to each path."""
        access = [
            (METRICS, _ANYBODY if self._serving.metrics_to_all else _ADMIN),
            *((one.path, one.access) for one in routes),
            (_CONTRACT, RouteAccess("any key", READS, whole_space=False)),
            (MCP_PATH, RouteAccess("space", READS, whole_space=False)),
        ]
        return Gate([*access, *SIGN_IN_ACCESS, *pages.ACCESS], anybody=Caller(self._most), ring=self._ring)

    def spaces(self) -> tuple[int, int]:
        """Return how many spaces are open, and how many of their texts wait for a vector."""
        count, waiting = self.further.count_open() if self.further else (0, 0)
        return count + self._space.is_open, waiting + self._space.pending_vectors()

    def load(self) -> tuple[int, int]:
        """Return how many calls and jobs run, and how many wait."""
        (running, waiting), (jobs_running, jobs_waiting) = self.context.workers.load(), self._jobs.load()
        return running + jobs_running, waiting + jobs_waiting


def _add_sign_in(app: FastAPI, sign_in: SignIn) -> None:
    for method, path, answer in (
        ("GET", SIGN_IN, sign_in.page),
        ("POST", SIGN_IN, sign_in.enter),
        ("POST", SIGN_OUT, sign_in.leave),
    ):
        app.add_api_route(path, answer, methods=[method], response_model=None)


def _threads(serving: Serving) -> int:
    """Return the number of threads that answer calls."""
    most = serving.bounds.worked_on_at_once
    is_file = Settings.read().space_address(serving.space).is_file
    return most if is_file else min(most, limits.MAX_DATABASE_CALL_THREADS)


def _computes_alone(serving: Serving) -> bool:
    """Return whether reads wait for no database and for no provider of models."""
    settings = Settings.read()
    is_of_provider = ":" in settings.embedder and not settings.embedder.startswith("onnx:")
    is_remote = serving.embedder is None and (is_of_provider or settings.embedder_url)
    address = settings.space_address(serving.space)
    return address.is_file and not address.options and not is_remote


def _key_ring(serving: Serving, further: FurtherSpaces | None) -> KeyRing | None:
    """Open the keys of a server. Raises `NotFound` if there are none."""
    if serving.keys is None:
        return None
    return KeyRing(
        keys=open_access_keys(serving.keys, create=False),
        clock=SystemClock(),
        place=serving.keys,
        space=Settings.read().space_address(serving.space),
        project=lambda project_id: further.address(project_id) if further else None,
        files=serving.files is not None,
        urls=serving.urls,
    )


def _state_of(space: ServedSpace) -> tuple[Route, ...]:
    # Neither waits for the worker threads, which may all be busy: these routes report whether the process is alive.
    async def health() -> Response:
        return json_answer(Health())

    thread = CapacityLimiter(1)

    async def ready() -> Response:
        try:
            with fail_after(_READY_SECONDS):
                there = await run_sync(space.is_readable, limiter=thread, abandon_on_cancel=True)
        except TreeringError as error:
            shown = for_caller(error)
            raise Unavailable(shown.message, hint=shown.hint, details=shown.as_dict()) from error
        except TimeoutError as error:
            raise Unavailable(
                f"The space did not answer within {_READY_SECONDS} s.", hint="Try again later."
            ) from error
        return json_answer(Readiness(space="open" if there else "new"))

    up, usable = "Report whether the server is up.", "Report whether the space is available."
    return (
        *(Route("GET", path, path[1:], up, health, _ANYBODY, (Health,)) for path in _HEALTH),
        *(Route("GET", path, path[1:], usable, ready, _ANYBODY, (Readiness,)) for path in _READY),
    )
