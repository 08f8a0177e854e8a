"""What the web page is given of this server."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute

from treering.core.errors import NotFound
from treering.surfaces.http.bounds import Bounds
from treering.surfaces.http.callers import Caller, RouteAccess, caller_of
from treering.surfaces.http.failures import status_of
from treering.surfaces.http.parts import FurtherSpaces
from treering.surfaces.http.served import ServedSpace, Stop
from treering.surfaces.http.workers import Workers
from treering.surfaces.python.logs import RecentCalls
from treering.surfaces.web.site import HOME, OF_ANY_SPACE, WebSite, site_routes
from treering.surfaces.web.view import ReadSpace
from treering.system.access_keys import space_name
from treering.verbs.envelope import READS, Answer, Envelope, Operation, Report


class SpaceForPages:
    """The server's space, as one caller uses it."""

    def __init__(self, space: ServedSpace, caller: Caller) -> None:
        self._space = space
        self._caller = caller

    @property
    def scope(self) -> str:
        """The scope the caller is confined to."""
        return self._caller.scope

    def check(self) -> bool:
        """Tell whether there is a space yet."""
        return self._space.check()

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb."""
        return self._space.call(verb, envelope, self._caller)

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that is not a mode of a verb."""
        return self._space.perform(operation, self._caller, given=given, options=options)

    def grants(self, operation: Operation[Any]) -> bool:
        """Tell whether the caller may do all that an operation does."""
        return not operation.rights.beyond(self._caller.granted_besides)


_PATIENCE = 4.0
"""Seconds that a page waits for a wiki before it shows how far the writing is."""
_OWN_SCOPE = RouteAccess("space", READS, whole_space=False)
_WHOLE_SPACE = RouteAccess("space", READS, whole_space=True)
_WHOLE_PROJECT = RouteAccess("project", READS, whole_space=True)
ACCESS = (
    (f"{HOME}/static/{{rest:path}}", RouteAccess("anybody", READS, whole_space=False)),
    (f"{HOME}/projects", RouteAccess("any key", READS, whole_space=True)),
    (f"{HOME}/projects/{{project_id}}", _WHOLE_PROJECT),
    (f"{HOME}/projects/{{project_id}}/{{rest:path}}", _WHOLE_PROJECT),
    ("/", _OWN_SCOPE),
    *((f"{HOME}{path}", _OWN_SCOPE) for path in OF_ANY_SPACE),
    (f"{HOME}/{{rest:path}}", _WHOLE_SPACE),
)
"""Who may open which page of a server with keys, the narrower paths first. What a page does is checked besides."""


def routes(
    space: ServedSpace,
    further: FurtherSpaces | None,
    calls: RecentCalls,
    workers: Workers,
    bounds: Bounds,
    stop: Stop,
    *,
    admit: Callable[[Request], Awaitable[object]],
) -> list[BaseRoute]:
    """Return the routes of the web page: `/`, and all else below `/web`."""

    def project(_request: Request, name: str) -> ReadSpace:
        if further is None:
            raise NotFound("This server keeps no projects.", hint="Begin at the start page.")
        return further.reads(name, check_stop=stop.check)

    def project_ids(request: Request) -> list[str]:
        caller = caller_of(request)
        ids = further.ids() if further else []
        return [one for one in ids if further and _opens(caller, further, one)] if caller.has_key else ids

    return site_routes(
        WebSite(
            space=lambda request: SpaceForPages(space, caller_of(request)),
            project=project,
            project_ids=project_ids,
            holder=lambda request: caller_of(request).name,
            admit=admit,
            calls=calls,
            run=workers.run,
            run_apart=partial(workers.run_apart, seconds=bounds.work_seconds, patience=_PATIENCE),
            seconds=bounds.read_seconds,
            status_of=status_of,
            ending=lambda: stop.said,
        )
    )


def _opens(caller: Caller, further: FurtherSpaces, identity: str) -> bool:
    return space_name(further.address(identity)) == caller.space
