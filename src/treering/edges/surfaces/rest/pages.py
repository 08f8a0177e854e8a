"""What the web page is given of this server."""

from collections.abc import Mapping
from typing import Any

from starlette.routing import BaseRoute

from treering.edges.projects import ProjectSpaces
from treering.edges.surfaces.recent_calls import RecentCalls
from treering.edges.surfaces.rest.bounds import Bounds
from treering.edges.surfaces.rest.callers import Caller
from treering.edges.surfaces.rest.failures import status_of
from treering.edges.surfaces.rest.project_reads import ProjectReads
from treering.edges.surfaces.rest.served import ServedSpace, Stop
from treering.edges.surfaces.rest.workers import Workers
from treering.edges.surfaces.web.site import WebSite, site_routes
from treering.tools.envelope import Answer, Envelope, Operation, Report


class SpaceForPages:
    """The server's space, as one caller uses it."""

    def __init__(self, space: ServedSpace, caller: Caller) -> None:
        self._space = space
        self._caller = caller

    def check(self) -> bool:
        """Tell whether there is a space yet."""
        return self._space.check()

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb."""
        return self._space.call(verb, envelope, self._caller)

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that is no mode of a verb."""
        return self._space.perform(operation, self._caller, given=given, options=options)

    def grants(self, operation: Operation[Any]) -> bool:
        """Tell whether the caller may do all that an operation does."""
        return not operation.rights.beyond(self._caller.granted_besides)


def routes(
    space: ServedSpace,
    spaces: ProjectSpaces,
    calls: RecentCalls,
    workers: Workers,
    bounds: Bounds,
    stop: Stop,
    *,
    anybody: Caller,
) -> list[BaseRoute]:
    """Return the routes of the web page: `/`, and all else below `/web`.

    They are for servers without keys, where whoever asks is `anybody`: the gate of one with keys refuses paths that
    declare no access, as these do not.
    """

    def project(name: str) -> ProjectReads:
        return ProjectReads(spaces, name, check_stop=stop.check)

    return site_routes(
        WebSite(
            space=SpaceForPages(space, anybody),
            project=project,
            project_ids=spaces.ids,
            calls=calls,
            run=workers.run,
            seconds=bounds.read_seconds,
            status_of=status_of,
            ending=lambda: stop.said,
        )
    )
