"""Jobs over HTTP: a call of `ingest` that is answered before it is done, watched, resumed and cancelled by its id."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hashlib import blake2b
from http import HTTPStatus

from anyio import sleep
from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.server.callers import Caller, RouteAccess, caller_of
from treering.extensions.server.contract import Route, Schema, json_answer
from treering.extensions.server.running_jobs import RunningJobs
from treering.extensions.server.served import ServerContext
from treering.extensions.server.workers import EVENTS
from treering.verbs.envelope import WRITES
from treering.verbs.ingest.report import ENDED, JobReport

_PATH = "/v1/jobs/{job_id}"
_ACCESS = RouteAccess("space", WRITES, whole_space=False)
_PREFERENCE = "respond-async"
_REPORT: Schema = {"application/json": {"schema": {"$ref": "#/components/schemas/JobReport"}}}
_EVENT: Schema = {
    "type": "object",
    "properties": {
        "event": {"enum": ["progress", "end"]},
        "id": {"type": "string"},
        "data": {"type": "string", "description": "A `JobReport` without its items, as JSON."},
    },
}
_LOOK_SECONDS = 0.5
_SILENT_LOOKS = 20
_MOST_LOOKS = 3_600
_MOST_STREAMS = 32
_RETRY_MS = 2_000

PREFER: Schema = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": f"`{_PREFERENCE}`: answer at once and run a call that writes as a job (RFC 7240).",
    "schema": {"type": "string"},
    "example": _PREFERENCE,
}
"""The header that requests a job."""
JOB_BEGUN: Schema = {"description": "A job was started; see `Location`.", "content": _REPORT}
"""The answer that starts a job, in the contract."""
_JOB_ID: Schema = {
    "name": "job_id",
    "in": "path",
    "required": True,
    "description": "The job's id, from the response that started it.",
    "schema": {"type": "string"},
    "example": "job:01K00000000000000000000000",
}
_LAST_EVENT: Schema = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last received event. If the job has ended with it, the status is 204.",
    "schema": {"type": "string"},
}
_UNSTORED = {"Cache-Control": "no-store"}


def prefers_job(request: Request) -> bool:
    """Return whether the client asks for a job instead of waiting for the answer (RFC 7240)."""
    given = ",".join(request.headers.getlist("prefer")).split(",")
    return any(one.partition(";")[0].strip().casefold() == _PREFERENCE for one in given)


def job_begun(report: JobReport) -> Response:
    """Return the answer that a job was started."""
    place = _PATH.format(job_id=report.job)
    headers = {"Location": place, "Preference-Applied": _PREFERENCE}
    return json_answer(report, HTTPStatus.ACCEPTED, headers)


class JobsEndpoint:
    """Answers requests about one job."""

    def __init__(
        self, context: ServerContext, jobs: RunningJobs, admit: Callable[[Request], Awaitable[Caller]]
    ) -> None:
        """`admit` checks access again during long answers."""
        self._context = context
        self._jobs = jobs
        self._admit = admit
        self._streams = 0

    async def show(self, job_id: str, request: Request) -> Response:
        """Return the state of a job."""
        return json_answer(await self._look(job_id, request, caller_of(request), max_items=None))

    async def cancel(self, job_id: str, request: Request) -> Response:
        """Cancel a job."""
        await request.body()  # so that the request counts as one
        report = await self._jobs.cancel(job_id, caller_of(request))
        return json_answer(report, HTTPStatus.OK if report.state in ENDED else HTTPStatus.ACCEPTED)

    async def resume(self, job_id: str, request: Request) -> Response:
        """Run a job again that ended before it was done."""
        await request.body()
        return job_begun(await self._jobs.resume(job_id, caller_of(request)))

    async def watch(self, job_id: str, request: Request) -> Response:
        """Stream the progress of a job.

        Each event contains the whole state, so a slow or returning reader misses only outdated ones, and the server
        stores none.
        """
        report = await self._look(job_id, request, caller_of(request), max_items=0)
        seen = request.headers.get("last-event-id", "")
        if report.state in ENDED and seen == _event_id(report):
            return Response(status_code=HTTPStatus.NO_CONTENT)  # a browser does not ask again then
        if self._streams >= _MOST_STREAMS:
            raise Unavailable("Too many clients are watching jobs already.", hint="Request the job's status instead.")
        return StreamingResponse(self._events(job_id, request, seen), media_type=EVENTS, headers=_UNSTORED)

    async def _look(self, job_id: str, request: Request, caller: Caller, *, max_items: int | None) -> JobReport:
        report = partial(self._jobs.report, job_id, caller, max_items=max_items)
        return await self._context.run(request, report, writes=False)

    async def _events(self, job_id: str, request: Request, seen: str) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield f"retry: {_RETRY_MS}\n\n".encode()
            async for part in self._changes(job_id, request, seen):
                yield part
        except (TreeringError, HTTPException):
            return  # the client retries and receives the error
        finally:
            self._streams -= 1

    async def _changes(self, job_id: str, request: Request, seen: str) -> AsyncIterator[bytes]:
        silent = 0
        for _ in range(_MOST_LOOKS):
            if self._context.stop.begun:
                return
            report = await self._look(job_id, request, await self._admit(request), max_items=0)
            event_id = _event_id(report)
            silent = 0 if event_id != seen else silent + 1
            if event_id != seen:
                yield _event(report, event_id)
            elif silent % _SILENT_LOOKS == 0:
                yield b": nothing new\n\n"
            if report.state in ENDED:
                return
            seen = event_id
            await sleep(_LOOK_SECONDS)


def routes(
    context: ServerContext, running: RunningJobs, *, admit: Callable[[Request], Awaitable[Caller]]
) -> Sequence[Route]:
    """Return the routes of jobs."""
    jobs = JobsEndpoint(context, running, admit)
    missing, conflict, unfit = HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY
    report = partial(Route, access=_ACCESS, gives=(JobReport,), parameters=(_JOB_ID,))
    ends = {"202": {"description": "The job stops at its next check.", "content": _REPORT}}
    last = {"204": {"description": "The job has ended, and its last event was already sent."}}
    watching = "Watch a job: server-sent events, each the job's report without its items."
    return (
        report("GET", _PATH, "job_show", "Progress of a job, item by item.", jobs.show, refuses=(missing,)),
        report(
            "DELETE",
            _PATH,
            "job_cancel",
            "Cancel a job. Its earlier writes stay.",
            jobs.cancel,
            besides=ends,
            refuses=(missing, conflict),
        ),
        report(
            "POST",
            f"{_PATH}/resume",
            "job_resume",
            "Resume a job that ended early.",
            jobs.resume,
            good=HTTPStatus.ACCEPTED,
            refuses=(missing, conflict, unfit),
        ),
        report(
            "GET",
            f"{_PATH}/events",
            "job_watch",
            watching,
            jobs.watch,
            gives=(),
            also={EVENTS: {"schema": _EVENT}},
            besides=last,
            parameters=(_JOB_ID, _LAST_EVENT),
            refuses=(missing,),
        ),
    )


def _event_id(report: JobReport) -> str:
    """Return the id of an event: a hash of its content, without vectors, which are also embedded after a job."""
    content = report.model_dump_json(exclude={"updated_at", "pending_vectors", "total_vectors"})
    return blake2b(content.encode(), digest_size=8).hexdigest()


def _event(report: JobReport, event_id: str) -> bytes:
    name = "end" if report.state in ENDED else "progress"
    return f"event: {name}\nid: {event_id}\ndata: {report.model_dump_json()}\n\n".encode()
