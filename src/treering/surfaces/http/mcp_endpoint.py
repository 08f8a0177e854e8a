"""The Model Context Protocol over HTTP: `POST /mcp`, for the same callers as every other route.

Each request stands for itself (the protocol's stateless form), so that several servers may answer one client, and a
server that was restarted goes on. A call that takes long tells its progress in a stream.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route as StarletteRoute

from treering.core.errors import Denied
from treering.surfaces.http.bounds import Bounds
from treering.surfaces.http.callers import Caller
from treering.surfaces.http.served import ServedSpace, Stop
from treering.surfaces.mcp.dispatcher import ToolAnswer, answer_call, error_answer
from treering.surfaces.mcp.server import Context, Watch, server_of

PATH = "/mcp"


class McpEndpoint:
    """Answers agents that speak the protocol. `run` is entered while the app lives."""

    def __init__(self, space: ServedSpace, bounds: Bounds, *, stop: Stop, urls: bool = False) -> None:
        self._space = space
        self._stop = stop
        self._urls = urls
        server = server_of(
            self._answer,
            read_seconds=bounds.read_seconds,
            work_seconds=bounds.work_seconds,
            at_once=bounds.worked_on_at_once,
            urls=urls,
        )
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=bounds.max_body_bytes
        )
        self.run = self._manager.run

    @property
    def route(self) -> StarletteRoute:
        """The route of the endpoint. It has no answers of its own to GET and DELETE: no session outlives a request."""
        return StarletteRoute(PATH, endpoint=self._manager.asgi_app, methods=["POST"])

    def _answer(self, verb: str, arguments: Mapping[str, Any], context: Context, watch: Watch) -> ToolAnswer:
        def check() -> None:
            self._stop.check_running()
            watch.check()

        caller = _caller_of(context)
        if caller is None:
            return error_answer(Denied("It is not known who calls.", hint="Call the tool over HTTP."))
        report = partial(self._space.call, caller=caller, progress=watch.report)
        return answer_call(verb, arguments, report, check=check, urls=self._urls)


def _caller_of(context: Context) -> Caller | None:
    """Return who made the request that a call came with, as the gate found it."""
    state = getattr(context.request, "state", None)
    caller = getattr(state, "caller", None)
    return caller if isinstance(caller, Caller) else None
