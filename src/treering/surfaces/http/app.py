"""The server's app: its routes, who may ask, and how failures are told."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response

from treering.core.errors import InvalidInput, TreeringError, Unavailable
from treering.ports.models import Embedder
from treering.spaces.wiring import open_access_keys, open_embedder
from treering.surfaces.http import jobs, pages, uploads, verb_routes
from treering.surfaces.http.bounds import Bounds
from treering.surfaces.http.callers import Caller, RouteAccess
from treering.surfaces.http.contract import Route, document
from treering.surfaces.http.failures import answer_failures
from treering.surfaces.http.gate import ACCESS as SIGN_IN_ACCESS
from treering.surfaces.http.gate import SIGN_IN, SIGN_OUT, Gate, KeyRing, SignIn
from treering.surfaces.http.mcp_endpoint import PATH as MCP_PATH
from treering.surfaces.http.mcp_endpoint import McpEndpoint
from treering.surfaces.http.metrics import PATH as METRICS
from treering.surfaces.http.metrics import Metrics, RequestObserver, RouteTemplates, SpaceState
from treering.surfaces.http.parts import FurtherSpaces, ServerContext, served_parts
from treering.surfaces.http.request_guard import RequestGuard
from treering.surfaces.http.running_jobs import RunningJobs
from treering.surfaces.http.served import ALLOWED, Allowed, ServedSpace, Stop, allowed, granted
from treering.surfaces.http.workers import Caretaker, Workers
from treering.surfaces.python.logs import RecentCalls
from treering.system.access_keys import GRANTED, space_name
from treering.system.address import Address
from treering.system.machine import SystemClock
from treering.system.settings import Settings
from treering.verbs.envelope import READS, Value
from treering.version import __version__


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, and within which bounds."""

    space: Address | str
    """The address of the space of the four tools."""
    files: Path | None = None
    """The folder below which `ingest` may read files; none: it reads no files."""
    urls: bool = False
    """Whether `ingest` may fetch pages of the web."""
    allow: frozenset[Allowed] = frozenset()
    """What callers may do beyond reading and writing: decide as a person, and erase."""
    keys: Address | None = None
    """Where the access keys are kept that a request needs; none: any program of this machine may ask."""
    bounds: Bounds = field(default_factory=Bounds)
    """How much at once, and for how long."""
    metrics_to_all: bool = False
    """Whether `/metrics` needs no key; else it needs one with the right `admin`."""
    background: bool = True
    """Whether vectors are made behind everyday work."""
    embedder: Embedder | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What the flags of parts chose, by the name of the part."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        space: str,
        files: Path | None,
        keys: Address | None = None,
        allow: Iterable[str] = (),
        urls: bool = False,
        parts: Mapping[str, Any] | None = None,
        bounds: Bounds | None = None,
        metrics_to_all: bool = False,
    ) -> "Serving":
        """Say what is served by what a person and the environment say.

        Raises `InvalidInput` for what is not a folder, and for a word that is not known.
        """
        if files and not files.is_dir():
            raise InvalidInput(f"{files} is not a folder.", hint="Name the folder whose files may be read.")
        return cls(
            space=settings.space_address(space or None),
            files=files,
            keys=keys,
            allow=allowed(allow),
            urls=urls,
            background=settings.background,
            # A model takes more memory than a space: one for all.
            embedder=open_embedder(settings),
            parts=parts or {},
            bounds=bounds or Bounds(),
            metrics_to_all=metrics_to_all,
        )


_HEALTH, _READY = ("/health", "/healthz"), ("/ready", "/readyz")
_CONTRACT = "/openapi.json"
_ANYBODY = RouteAccess("anybody", READS, whole_space=False)
_ADMIN = RouteAccess("space", GRANTED["admin"], whole_space=True)


class Health(Value):
    """The process is up."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(Value):
    """The space opens. Where there is none yet, the first write makes it."""

    status: Literal["ready"] = "ready"
    space: Literal["open", "new"]


def build_app(serving: Serving, *, stop: Stop | None = None) -> FastAPI:
    """Make the app. Spaces are opened by the first call that needs them, and closed when the app stops.

    `stop`: says when long work has to end, because the server is asked to. Raises what keeps a space that is there
    from being opened: better now than at every call.
    """
    stop = stop or Stop()
    # Where there are keys, they say what their holders may do.
    most = granted(files=serving.files, allow=ALLOWED if serving.keys else serving.allow, urls=serving.urls)
    space = ServedSpace(
        serving.space,
        stop=stop,
        background=serving.background,
        embedder=serving.embedder,
        files=serving.files,
        granted=most,
    )
    space.check()
    bounds = serving.bounds
    workers = Workers(bounds.worked_on_at_once, stop=stop)
    running = RunningJobs(space, bounds, stop=stop)
    context = ServerContext(space, workers, bounds, stop, serving.background, serving.embedder)
    served = served_parts(context, serving.parts)
    further = next((one.spaces for one in served if one.spaces), None)
    ring = _key_ring(serving, further)
    agents = McpEndpoint(space, bounds, stop=stop, urls=serving.urls)
    caretaker = Caretaker([space.look_after, *(one.look_after for one in served if one.look_after)])

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for one in served:
            if one.warm:
                one.warm()
        if serving.background:
            caretaker.start()
        try:
            async with agents.run():
                yield
        finally:
            stop.say()
            await running.close()
            await run_sync(caretaker.stop)
            for one in reversed(served):
                if one.close:
                    await one.close()
            await run_sync(space.close)
            if ring:
                await run_sync(ring.keys.close)

    async def admit(request: Request) -> Caller:
        return await gate.admit(request, request.method)

    calls = RecentCalls()
    routes = (
        *_state_of(space),
        *verb_routes.routes(space, workers, bounds, calls, running),
        uploads.route(uploads.UploadEndpoint(space, workers, bounds, calls, running)),
        *jobs.routes(jobs.JobsEndpoint(running, workers, bounds, admit=admit, ending=lambda: stop.said)),
        *verb_routes.operation_routes(space, workers, bounds),
        *(route for one in served for route in one.routes),
    )
    # The pages that show the API to people load their scripts from elsewhere; this server is for offline, too.
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.bounds = bounds
    app.state.workers = workers
    for one in routes:
        app.add_api_route(one.path, one.answer, methods=[one.method], response_model=None)

    app.router.routes.extend(pages.routes(space, further, calls, workers, bounds, stop, admit=admit))
    described = document(routes)
    app.router.routes.append(agents.route)
    app.openapi = lambda: described  # type: ignore[method-assign]  # the documented way to give one's own
    answer_failures(app)
    metrics = Metrics(spaces=partial(_state_of_spaces, space, further), running=partial(_load, workers, running))
    app.add_api_route(METRICS, metrics.answer, methods=["GET"], response_model=None)
    access = [
        (METRICS, _ANYBODY if serving.metrics_to_all else _ADMIN),
        *((one.path, one.access) for one in routes),
        (_CONTRACT, RouteAccess("any key", READS, whole_space=False)),
        (MCP_PATH, RouteAccess("space", READS, whole_space=False)),
    ]
    gate = Gate([*access, *SIGN_IN_ACCESS, *pages.ACCESS], anybody=Caller(most), ring=ring)
    _add_sign_in(app, SignIn(gate))
    app.add_middleware(
        RequestGuard,
        bounds=bounds,
        apart=frozenset((*_HEALTH, *_READY, METRICS)),
        gate=gate,
        streamed=frozenset({uploads.UPLOAD}),
    )
    app.add_middleware(RequestObserver, templates=RouteTemplates(app.routes), metrics=metrics)
    return app


def _state_of_spaces(space: ServedSpace, further: FurtherSpaces | None) -> SpaceState:
    count, waiting = further.count_open() if further else (0, 0)
    return SpaceState(spaces_open=count + space.is_open, waiting_vectors=waiting + space.pending_vectors())


def _load(workers: Workers, jobs: RunningJobs) -> tuple[int, int]:
    (running, waiting), (jobs_running, jobs_waiting) = workers.load(), jobs.load()
    return running + jobs_running, waiting + jobs_waiting


def _add_sign_in(app: FastAPI, sign_in: SignIn) -> None:
    app.add_api_route(SIGN_IN, sign_in.page, methods=["GET"], response_model=None)
    app.add_api_route(SIGN_IN, sign_in.enter, methods=["POST"], response_model=None)
    app.add_api_route(SIGN_OUT, sign_in.leave, methods=["POST"], response_model=None)


def _key_ring(serving: Serving, further: FurtherSpaces | None) -> KeyRing | None:
    """Open the keys of a server. Raises `NotFound` where there are none."""
    if serving.keys is None:
        return None
    space = serving.space
    if isinstance(space, str):
        space = Settings.read().space_address(space)
    return KeyRing(
        keys=open_access_keys(serving.keys, create=False),
        clock=SystemClock(),
        space=space_name(space),
        project=lambda project_id: space_name(further.address(project_id)) if further else "",
        files=serving.files is not None,
        urls=serving.urls,
    )


def _state_of(space: ServedSpace) -> tuple[Route, ...]:
    # Neither waits for the worker threads, which may all be busy: whoever asks wants to know whether the process lives.
    async def health() -> Response:
        return _answer(Health())

    thread = CapacityLimiter(1)

    async def ready() -> Response:
        try:
            there = space.is_open or await run_sync(space.check, limiter=thread)
        except TreeringError as error:
            raise Unavailable(error.message, hint=error.hint, details=error.as_dict()) from error
        return _answer(Readiness(space="open" if there else "new"))

    up, usable = "Tell whether the server is up.", "Tell whether the space can be used."
    return (
        *(Route("GET", path, path[1:], up, health, _ANYBODY, (Health,)) for path in _HEALTH),
        *(Route("GET", path, path[1:], usable, ready, _ANYBODY, (Readiness,)) for path in _READY),
    )


def _answer(value: Value) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")
