"""The web page: its routes, all but `/` below `/web` so that one check covers them, and the space it shows."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from treering.core.errors import NotFound, TreeringError, Unavailable
from treering.extensions.server.callers import Caller, RouteAccess, caller_of
from treering.extensions.server.recent_calls import RecentCalls
from treering.extensions.server.served import FurtherSpaces, ServedSpace, ServerContext
from treering.extensions.server.web.pages.ask import ask, mark
from treering.extensions.server.web.pages.graph import graph
from treering.extensions.server.web.pages.health import decide, health
from treering.extensions.server.web.pages.inspect_object import inspect_object
from treering.extensions.server.web.pages.timeline import (
    LiveLine,
    LivePlace,
    live,
    news,
    parse_place,
    stream,
    timeline,
    work,
)
from treering.extensions.server.web.view import (
    HEADERS,
    STATIC,
    PageFunction,
    PageView,
    Preparing,
    ReadSpace,
    Rendered,
    WebPage,
    error_page,
    read_form,
    respond,
)
from treering.registry import brought_by_name, extensions
from treering.verbs.envelope import READS, Answer, Envelope, Operation, Report

HOME = "/web"
_PROJECT = "/projects/{project}"
OF_ANY_SPACE: Mapping[str, PageFunction] = {
    "/object/{identity}": inspect_object,
    "/health": health,
    "/graph": graph,
    "/timeline": timeline,
    "/work": work,
}
"""The pages that are the same for a whole space, for a project, and for one scope of a space."""
_FEEDBACK = "/feedback"
_OWN_PAGES = {"/review", _FEEDBACK, "/live", "/live/events", "/projects", _PROJECT, *OF_ANY_SPACE}
_PATIENCE = 4.0
"""Seconds that a page waits for a wiki before it shows the progress."""
_MOST_STREAMS = 8
_REFRESH_SECONDS = 2
_OWN_SCOPE = RouteAccess("space", READS, whole_space=False)
_WHOLE_SPACE = RouteAccess("space", READS, whole_space=True)
_WHOLE_PROJECT = RouteAccess("project", READS, whole_space=True)
ACCESS = (
    (f"{HOME}/static/{{rest:path}}", RouteAccess("anybody", READS, whole_space=False)),
    (f"{HOME}/projects", RouteAccess("any key", READS, whole_space=True)),
    (f"{HOME}/projects/{{project_id}}", _WHOLE_PROJECT),
    (f"{HOME}/projects/{{project_id}}/{{rest:path}}", _WHOLE_PROJECT),
    ("/", _OWN_SCOPE),
    *((f"{HOME}{path}", _OWN_SCOPE) for path in (*OF_ANY_SPACE, _FEEDBACK)),
    (f"{HOME}/{{rest:path}}", _WHOLE_SPACE),
)
"""The access that each page requires on a server with keys, specific paths first. Its calls are checked separately."""


def routes(
    context: ServerContext,
    further: FurtherSpaces | None,
    calls: RecentCalls,
    *,
    admit: Callable[[Request], Awaitable[object]],
) -> list[BaseRoute]:
    """Return the routes of the web page: the start page, and all else below `/web`.

    `admit` checks access again during long answers, and raises if it is refused.
    """
    part_pages = [*brought_by_name("pages", attrgetter("path"), taken=_OWN_PAGES)]
    pages = _Pages(context, further, calls, admit, part_pages)
    below: list[BaseRoute] = [
        Route("/", _to_start),
        Mount("/static", _StaticFiles(directory=STATIC)),
        Route("/review", pages.form(decide), methods=["POST"]),
        Route(_FEEDBACK, pages.form(mark), methods=["POST"]),
        Route("/live", pages.page(partial(live, calls=calls))),
        Route("/live/events", pages.events),
        *(Route(one.path, pages.of_part(one)) for one in part_pages),
        Route("/projects", pages.projects),
        Route(_PROJECT, pages.page(ask)),
        Route(f"{_PROJECT}{_FEEDBACK}", pages.form(mark), methods=["POST"]),
        *(Route(f"{_PROJECT}{path}", pages.page(function)) for path, function in OF_ANY_SPACE.items()),
        *(Route(path, pages.page(function)) for path, function in OF_ANY_SPACE.items()),
        Route("/{rest:path}", pages.page(_nowhere)),
    ]
    return [Route("/", pages.page(ask)), Route(HOME, _to_start), Mount(HOME, routes=below)]


async def _to_start(request: Request) -> Response:
    """Lead to the start page: people type the folder that the other pages are in."""
    query = request.url.query
    return RedirectResponse(f"/?{query}" if query else "/", HTTPStatus.SEE_OTHER)


class _Pages:
    """Answers requests for pages."""

    def __init__(
        self,
        context: ServerContext,
        further: FurtherSpaces | None,
        calls: RecentCalls,
        admit: Callable[[Request], Awaitable[object]],
        part_pages: Sequence[WebPage],
    ) -> None:
        self._context = context
        self._further = further
        self._calls = calls
        self._admit = admit
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
        names = partial(self._project_ids, caller_of(request))
        return await self._made(request, view, lambda: respond(list_projects(names()), view))

    def of_part(self, page: WebPage) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page of a part."""
        prepare = page.prepare
        return self.page(page.show) if prepare is None else partial(self._prepared, page, prepare)

    async def _prepared(self, page: WebPage, prepare: Callable[[PageView], Preparing], request: Request) -> Response:
        """Show a page that takes long to prepare, or the progress of its preparation in the background."""
        view = self._view(request, request.query_params)
        preparing = prepare(view)
        try:
            under_way = await self._context.workers.run_in_background(
                preparing.key, preparing.work, seconds=self._context.bounds.work_seconds, patience=_PATIENCE
            )
        except TreeringError as error:
            return error_page(error, view)
        if under_way is None:
            return await self._made(request, view, lambda: respond(self._shown(page.show, view), view))
        progress = {"what": under_way.what, "done": under_way.done, "total": under_way.total}
        response = respond(Rendered(preparing.template, progress, status=202), view)
        response.headers["Refresh"] = str(_REFRESH_SECONDS)
        return response

    def _shown(self, function: PageFunction, view: PageView) -> Rendered:
        return function(view) if view.space.check() else Rendered("first_run.html")

    def form(self, function: PageFunction) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a form that changes something."""

        async def take(request: Request) -> Response:
            view = self._view(request, {})
            try:
                fields = await read_form(request, token=self._token)
            except TreeringError as error:
                return error_page(error, view)
            filled = replace(view, params=fields)
            return await self._made(request, filled, lambda: respond(function(filled), filled), writes=True)

        return take

    async def events(self, request: Request) -> Response:
        """Stream events of stored and recalled objects."""
        view = self._view(request, {})
        if self._streams >= _MOST_STREAMS:
            error = Unavailable("Too many pages are already watching.", hint="Close one of them, or reload this page.")
            return error_page(error, view)

        async def look(place: LivePlace | None) -> tuple[list[tuple[str, LiveLine]], LivePlace]:
            await self._admit(request)
            read = partial(news, view, self._calls, place)
            return await self._context.run(request, read, writes=False)

        async def body() -> Any:
            self._streams += 1
            try:
                async for part in stream(look, place, ending=lambda: self._context.stop.begun):
                    yield part
            except (TreeringError, HTTPException):
                return  # the browser asks again
            finally:
                self._streams -= 1

        last_event = request.headers.get("last-event-id") or request.query_params.get("after", "")
        place = parse_place(last_event)
        return StreamingResponse(body(), media_type="text/event-stream", headers=dict(HEADERS))

    def _view(self, request: Request, params: Mapping[str, str]) -> PageView:
        path = dict(request.path_params)
        project = str(path.get("project", ""))
        caller = caller_of(request)
        space = self._project(project, caller) if project else SpaceForPages(self._context.space, caller)
        base = f"{HOME}{_PROJECT.format(project=project)}" if project else HOME
        section = request.url.path.removeprefix(base).strip("/").partition("/")[0]
        return PageView(space, base, dict(params), path, self._token, project, section, caller.name, self._menu)

    def _project(self, name: str, caller: Caller) -> ReadSpace:
        if self._further is None:
            raise NotFound("This server has no projects.", hint="Go to the start page.")
        return self._further.for_pages(name, caller, check_stop=self._context.stop.check)

    def _project_ids(self, caller: Caller) -> list[str]:
        """Return the projects that a caller may see."""
        further = self._further
        if further is None:
            return []
        return [one for one in further.ids() if caller.opens(further.address(one))]

    async def _made(
        self, request: Request, view: PageView, make: Callable[[], Response], *, writes: bool = False
    ) -> Response:
        try:
            return await self._context.run(request, make, writes=writes)
        except TreeringError as error:
            return error_page(error, view)


class _StaticFiles(StaticFiles):
    """The files of the pages, with the headers of the pages."""

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        """Return a file."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update({**HEADERS, "Cache-Control": "max-age=3600"})
        return response


def _menu(part_pages: Sequence[WebPage]) -> list[tuple[str, str]]:
    """Return the paths and names of the menu entries of parts, sorted by name, followed by the last one."""
    pages = [(page.path.strip("/"), page.title) for page in part_pages if page.title]
    further = [("projects", "Projects")] if any(part.spaces for part in extensions()) else []
    return [*sorted((*pages, *further), key=lambda one: one[1]), ("live", "Live")]


def list_projects(names: Sequence[str]) -> Rendered:
    """Show the further spaces of the server."""
    return Rendered("projects.html", {"names": names, "command": ("treering", "serve", "--projects", "FOLDER")})


def _nowhere(view: PageView) -> Rendered:
    raise NotFound(f"There is no page {view.path.get('rest', '')!r}.", hint="Go to the start page.")


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
        """Return whether the space exists."""
        return self._space.check()

    def call(self, verb: str, envelope: Envelope, *, as_person: bool = False) -> Report:
        """Run a verb."""
        return self._space.call(verb, envelope, self._caller, as_person=as_person)

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that is not a mode of a verb."""
        return self._space.perform(operation, self._caller, given=given, options=options)

    def grants(self, operation: Operation[Any]) -> bool:
        """Return whether the caller has all rights of an operation."""
        return not operation.rights.beyond(self._caller.granted_besides)
