"""The four tools over HTTP: `POST /v1/wiki/{verb}` with the envelope every surface takes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import and_

from fastapi import Request, Response

from treering.edges.surfaces.recent_calls import RecentCalls
from treering.edges.surfaces.rest.bodies import parse_body, read_body
from treering.edges.surfaces.rest.bounds import Bounds
from treering.edges.surfaces.rest.callers import Caller, RouteAccess, caller_of
from treering.edges.surfaces.rest.calls import call_model, call_models
from treering.edges.surfaces.rest.contract import Route
from treering.edges.surfaces.rest.jobs import JOB_BEGUN, PREFER, job_begun, prefers_job
from treering.edges.surfaces.rest.running_jobs import RunningJobs
from treering.edges.surfaces.rest.served import ServedSpace
from treering.edges.surfaces.rest.workers import Workers
from treering.tools.catalog import TOOLS
from treering.tools.envelope import Envelope, Tool
from treering.tools.rights import Rights


def routes(
    space: ServedSpace, workers: Workers, bounds: Bounds, calls: RecentCalls, jobs: RunningJobs
) -> Iterator[Route]:
    """Return one route per verb of the catalogue. `calls` is told of each call that was answered."""
    for tool in TOOLS.values():
        seconds = bounds.work_seconds if tool.rights.writes else bounds.read_seconds
        if tool.name == "ingest":
            yield _with_jobs(_route(tool, space, workers, seconds, calls), tool, workers, seconds, jobs)
        else:
            yield _route(tool, space, workers, seconds, calls)


def _route(tool: Tool, space: ServedSpace, workers: Workers, seconds: float, calls: RecentCalls) -> Route:
    def call(body: bytes, caller: Caller) -> Response:
        envelope = _checked(tool, body, caller)
        report = space.call(tool.name, envelope, caller)
        calls.note(tool.name, envelope)
        return Response(report.model_dump_json(), media_type="application/json")

    async def answer(request: Request) -> Response:
        body = await read_body(request)
        return await workers.run(request.receive, partial(call, body, caller_of(request)), seconds=seconds)

    modes = "\n".join(f"- `{mode.name}`: {mode.summary}" for mode in tool.modes.values())
    return Route(
        method="POST",
        path=f"/v1/wiki/{tool.name}",
        name=f"wiki_{tool.name}",
        summary=tool.summary.partition("\n")[0],
        description=f"{tool.summary}\n\nModes, the default one first:\n\n{modes}",
        answer=answer,
        access=RouteAccess("space", _least_of(tool), whole_space=False),
        takes=call_models(tool.name),
        gives=tuple(dict.fromkeys(mode.report for mode in tool.modes.values())),
    )


def _with_jobs(route: Route, tool: Tool, workers: Workers, seconds: float, jobs: RunningJobs) -> Route:
    """Return a route whose calls are jobs where the client does not wait."""

    async def answer(request: Request) -> Response:
        if prefers_job(request):
            body, caller = await read_body(request), caller_of(request)
            check = partial(_checked, tool, body, caller)
            envelope = await workers.run(request.receive, check, seconds=seconds)
            if jobs.takes(envelope):
                return job_begun(await jobs.start(envelope, caller, size=len(body)))
        answered: Response = await route.answer(request)
        return answered

    return replace(route, answer=answer, parameters=(*route.parameters, PREFER), besides={"202": JOB_BEGUN})


def _checked(tool: Tool, body: bytes, caller: Caller) -> Envelope:
    """Read a call. Raises `Denied` where the caller may not make it, and `InvalidInput`."""
    envelope = parse_body(Envelope, body)
    tool.require(tool.find(envelope.mode), granted=caller.granted)
    model = call_model(tool.name, envelope)
    if model:
        parse_body(model, body)
    return envelope


def _least_of(tool: Tool) -> Rights:
    """Return what all modes of a tool do; what a mode does besides is checked when it is called."""
    return reduce(and_, (mode.rights for mode in tool.modes.values()))
