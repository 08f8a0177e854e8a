"""The routes of the web page. All but `/` lie below `/web`, so that one check covers them."""

import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope

from treering.core.errors import NotFound, TreeringError, Unavailable
from treering.registry import brought_by_name, parts
from treering.surfaces.python.logs import RecentCalls
from treering.surfaces.web.pages.ask import ask
from treering.surfaces.web.pages.graph import graph
from treering.surfaces.web.pages.health import decide, health
from treering.surfaces.web.pages.inspect_object import inspect_object
from treering.surfaces.web.pages.timeline import LiveLine, LivePlace, live, news, parse_place, stream, timeline, work
from treering.surfaces.web.rendering import HEADERS, STATIC, error_page, read_form, respond
from treering.surfaces.web.view import PageView, ReadSpace, Rendered

HOME = "/web"
_MOST_STREAMS = 8
_REFRESH_SECONDS = 2
_PROJECT = "/projects/{project}"
_T = TypeVar("_T")

PageFunction = Callable[[PageView], Rendered]


@dataclass(frozen=True, slots=True)
class Preparing:
    """Long work before a page can be shown; work of the same key is done once."""

    key: Hashable
    work: Callable[[], object]
    template: str
    """What is shown until it is done; it is given `what`, `done` and `total`."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that a part brings, for whoever may see the whole space."""

    path: str
    show: PageFunction
    title: str = ""
    """Its name in the menu; empty: it does not stand there."""
    prepare: Callable[[PageView], Preparing] | None = None


OF_ANY_SPACE: Mapping[str, PageFunction] = {
    "/object/{identity}": inspect_object,
    "/health": health,
    "/graph": graph,
    "/timeline": timeline,
    "/work": work,
}
"""The pages that are the same for a whole space, for a project, and for one scope of a space."""
_OWN_PAGES = {"/review", "/live", "/live/events", "/projects", _PROJECT, *OF_ANY_SPACE}


class RunWork(Protocol):
    """Runs work of a request in a thread, for a bounded time."""

    async def __call__(self, receive: Receive, work: Callable[[], _T], *, seconds: float) -> _T:
        """Return what the work gives."""
        ...


class WorkUnderWay(Protocol):
    """Work that goes on, and how far it is."""

    what: str
    done: int
    total: int | None


class RunApart(Protocol):
    """Runs work that goes on when the request ends which began it."""

    async def __call__(self, key: Hashable, work: Callable[[], object]) -> WorkUnderWay | None:
        """Begin work, or join that of the same key; return `None` where it is done, else how far it is."""
        ...


@dataclass(frozen=True, slots=True)
class WebSite:
    """What the pages need of the server they are served by."""

    space: Callable[[Request], ReadSpace]
    """Gives the server's space, as whoever asks may use it."""
    project: Callable[[Request, str], ReadSpace]
    """Gives the space of a project by its id."""
    project_ids: Callable[[Request], Sequence[str]]
    """Gives the projects that whoever asks may see."""
    holder: Callable[[Request], str]
    """Gives the name of whoever signed in; empty where nobody has to."""
    admit: Callable[[Request], Awaitable[object]]
    """Asks again whether a request is let in. Raises where it is not: a page may watch for long."""
    calls: RecentCalls
    run: RunWork
    run_apart: "RunApart"
    seconds: float
    """How long making a page may take."""
    status_of: Callable[[TreeringError], int]
    """Gives the HTTP status of an error."""
    ending: Callable[[], bool]
    """Tells whether the server stops."""


def site_routes(site: WebSite) -> list[BaseRoute]:
    """Return the routes: the home page, and all else below `/web`."""
    part_pages = [*brought_by_name("pages", attrgetter("path"), taken=_OWN_PAGES)]
    pages = _Pages(site, part_pages)
    below: list[BaseRoute] = [
        Mount("/static", _StaticFiles(directory=STATIC)),
        Route("/review", pages.decide, methods=["POST"]),
        Route("/live", pages.page(partial(live, calls=site.calls))),
        Route("/live/events", pages.events),
        *(Route(one.path, pages.of_part(one)) for one in part_pages),
        Route("/projects", pages.projects),
        Route(_PROJECT, pages.page(ask)),
        *(Route(f"{_PROJECT}{path}", pages.page(function)) for path, function in OF_ANY_SPACE.items()),
        *(Route(path, pages.page(function)) for path, function in OF_ANY_SPACE.items()),
        Route("/{rest:path}", pages.page(_nowhere)),
    ]
    return [Route("/", pages.page(ask)), Mount(HOME, routes=below)]


class _Pages:
    """Answers requests for pages."""

    def __init__(self, site: WebSite, part_pages: Sequence[WebPage]) -> None:
        self._site = site
        self._token = secrets.token_urlsafe(32)
        self._streams = 0
        self._menu = _menu(part_pages)

    def page(self, function: PageFunction) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page."""

        async def answer(request: Request) -> Response:
            view = self._view(request, request.query_params)
            return await self._made(request, view, lambda: respond(self._shown(function, view), view))

        return answer

    async def projects(self, request: Request) -> Response:
        """Show the projects."""
        view = self._view(request, request.query_params)
        names = partial(self._site.project_ids, request)
        return await self._made(request, view, lambda: respond(list_projects(names()), view))

    def of_part(self, page: WebPage) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page that a part brings."""
        prepare = page.prepare
        return self.page(page.show) if prepare is None else partial(self._prepared, page, prepare)

    async def _prepared(self, page: WebPage, prepare: Callable[[PageView], Preparing], request: Request) -> Response:
        """Show a page that takes long to prepare. That is done apart: until then, show how far it is."""
        view = self._view(request, request.query_params)
        preparing = prepare(view)
        try:
            under_way = await self._site.run_apart(preparing.key, preparing.work)
        except TreeringError as error:
            return error_page(error, view, status=self._site.status_of(error))
        if under_way is None:
            return await self._made(request, view, lambda: respond(self._shown(page.show, view), view))
        told = {"what": under_way.what, "done": under_way.done, "total": under_way.total}
        response = respond(Rendered(preparing.template, told, status=202), view)
        response.headers["Refresh"] = str(_REFRESH_SECONDS)
        return response

    def _shown(self, function: PageFunction, view: PageView) -> Rendered:
        return function(view) if view.space.check() else Rendered("first_run.html")

    async def decide(self, request: Request) -> Response:
        """Take the decision of a person about a waiting patch."""
        view = self._view(request, {})
        try:
            fields = await read_form(request, token=self._token)
        except TreeringError as error:
            return error_page(error, view, status=self._site.status_of(error))
        view = self._view(request, fields)
        return await self._made(request, view, lambda: respond(decide(view), view))

    async def events(self, request: Request) -> Response:
        """Stream what is stored and recalled."""
        view = self._view(request, {})
        if self._streams >= _MOST_STREAMS:
            error = Unavailable("Too many pages are watching already.", hint="Close one of them, or reload this page.")
            return error_page(error, view, status=self._site.status_of(error))

        async def look(place: LivePlace | None) -> tuple[list[tuple[str, LiveLine]], LivePlace]:
            await self._site.admit(request)
            read = partial(news, view, self._site.calls, place)
            return await self._site.run(request.receive, read, seconds=self._site.seconds)

        async def body() -> Any:
            self._streams += 1
            try:
                async for part in stream(look, place, ending=self._site.ending):
                    yield part
            except (TreeringError, HTTPException):
                return  # the browser asks again
            finally:
                self._streams -= 1

        asked = request.headers.get("last-event-id") or request.query_params.get("after", "")
        place = parse_place(asked)
        return StreamingResponse(body(), media_type="text/event-stream", headers=dict(HEADERS))

    def _view(self, request: Request, params: Mapping[str, str]) -> PageView:
        path = dict(request.path_params)
        project = str(path.get("project", ""))
        space = self._site.project(request, project) if project else self._site.space(request)
        base = f"{HOME}{_PROJECT.format(project=project)}" if project else HOME
        section = request.url.path.removeprefix(base).strip("/").partition("/")[0]
        holder = self._site.holder(request)
        return PageView(space, base, dict(params), path, self._token, project, section, holder, self._menu)

    async def _made(self, request: Request, view: PageView, make: Callable[[], Response]) -> Response:
        try:
            return await self._site.run(request.receive, make, seconds=self._site.seconds)
        except TreeringError as error:
            return error_page(error, view, status=self._site.status_of(error))


class _StaticFiles(StaticFiles):
    """The files of the pages, with the headers of the pages."""

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        """Return a file."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update({**HEADERS, "Cache-Control": "max-age=3600"})
        return response


def _menu(part_pages: Sequence[WebPage]) -> list[tuple[str, str]]:
    """Return the paths and names of the pages that the parts bring to the menu, by name, and of the last one."""
    pages = [(page.path.strip("/"), page.title) for page in part_pages if page.title]
    further = [("projects", "Projects")] if any(part.spaces for part in parts()) else []
    return [*sorted((*pages, *further), key=lambda one: one[1]), ("live", "Live")]


def list_projects(names: Sequence[str]) -> Rendered:
    """Show the further spaces of the server."""
    return Rendered("projects.html", {"names": names, "command": ("treering", "serve", "--projects", "FOLDER")})


def _nowhere(view: PageView) -> Rendered:
    raise NotFound(f"There is no page {view.path.get('rest', '')!r}.", hint="Begin at the start page.")
