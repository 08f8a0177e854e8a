"""What the web page is given of this server."""

from starlette.routing import BaseRoute

from treering.edges.projects import ProjectSpaces
from treering.edges.surfaces.recent_calls import RecentCalls
from treering.edges.surfaces.rest.bounds import Bounds
from treering.edges.surfaces.rest.failures import status_of
from treering.edges.surfaces.rest.project_reads import ProjectReads
from treering.edges.surfaces.rest.served import ServedSpace, Stop
from treering.edges.surfaces.rest.workers import Workers
from treering.edges.surfaces.web.site import WebSite, site_routes


def routes(
    space: ServedSpace,
    spaces: ProjectSpaces,
    calls: RecentCalls,
    workers: Workers,
    bounds: Bounds,
    stop: Stop,
) -> list[BaseRoute]:
    """Return the routes of the web page: `/`, and all else below `/web`."""

    def project(name: str) -> ProjectReads:
        return ProjectReads(spaces, name, check_stop=stop.check)

    return site_routes(
        WebSite(
            space=space,
            project=project,
            project_ids=spaces.ids,
            calls=calls,
            run=workers.run,
            seconds=bounds.read_seconds,
            status_of=status_of,
            ending=lambda: stop.said,
        )
    )
