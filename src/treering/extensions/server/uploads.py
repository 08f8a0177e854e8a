"""`POST /v1/wiki/ingest/upload`: a file, or an archive of files, is sent as the body and read like a folder."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Literal, cast

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request, Response
from pydantic import Field, ValidationError
from starlette.datastructures import QueryParams

from treering.core.errors import InvalidInput, Unavailable
from treering.core.objects import invalid_fields
from treering.core.scope import ScopeGiven
from treering.extensions.server.callers import Caller, RouteAccess, caller_of
from treering.extensions.server.contract import Route, Schema, json_answer
from treering.extensions.server.failures import content_type, mislabeled, too_many_requests
from treering.extensions.server.jobs import JOB_BEGUN, PREFER, job_begun, prefers_job
from treering.extensions.server.packed_upload import UploadAdapter
from treering.extensions.server.recent_calls import RecentCalls
from treering.extensions.server.running_jobs import RunningJobs
from treering.extensions.server.served import ServerContext
from treering.extensions.server.verb_routes import SCOPE_PATTERN
from treering.ports.adapter import NoFiles
from treering.sources.formats import formats_here
from treering.verbs.engine import Engine
from treering.verbs.envelope import WRITES, Envelope, Value
from treering.verbs.ingest.report import IngestReport

UPLOAD = "/v1/wiki/ingest/upload"
"""The path of uploads, whose bodies are written to the disk instead of memory."""

_WRITING_AT_ONCE = 4
_LONGEST_NAME = 200
_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f/\\#]+$"
_SENT_UNASKED = frozenset({"", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"})
_DESCRIPTION = (
    "Files ending in .zip, .tar, .tar.gz, .tgz, .tar.zst and .tzst are unpacked in memory, file by file. An archive "
    "that is too large or contains a path outside itself is refused as a whole. Links are skipped."
)
_BOOLEAN: Schema = {"enum": ["true", "false"]}


class UploadQuery(Value):
    """The parameters of an upload, from the query string."""

    name: str = Field(
        min_length=1,
        max_length=_LONGEST_NAME,
        pattern=_NAME_PATTERN,
        description="The file's name. Its extension decides the format; the same name updates the file.",
    )
    scope: ScopeGiven | None = Field(default=None, description="The scope; the default is the same as in an envelope.")
    wait: Literal["true", "false"] = Field(default="false", description="Answer when it is embedded.")
    dry_run: Literal["true", "false"] = Field(default="false", description="Read and compare without writing.")


class UploadEndpoint:
    """Takes files that are sent, few at once."""

    def __init__(self, context: ServerContext, calls: RecentCalls, jobs: RunningJobs) -> None:
        """Take the log of recent calls, which records each upload, and the jobs of the server."""
        self._context = context
        self._calls = calls
        self._jobs = jobs
        self._under_way: Counter[str] = Counter()
        self._writing = CapacityLimiter(_WRITING_AT_ONCE)

    async def take(self, request: Request) -> Response:
        """Receive a file, and ingest it."""
        _check_label(request)
        envelope = _envelope(request.query_params)
        given = caller_of(request)
        # It may have the file read that it sends. There is no other: `_lend` leaves nothing else to read with.
        caller = replace(given, granted=replace(given.granted, reads_files=True))
        with ExitStack() as held:
            held.enter_context(self._place(given))
            stream = held.enter_context(TemporaryFile(prefix="treering-upload-"))
            await self._receive(request, stream)
            lend = partial(_lend, stream)
            if prefers_job(request) and self._jobs.takes(envelope):
                report = await self._jobs.start(envelope, caller, lend=lend, after=held)
                return job_begun(report)
            call = partial(self._call, envelope, caller, lend)
            return await self._context.run(request, call, writes=True)

    async def _receive(self, request: Request, stream: IO[bytes]) -> None:
        """Write the body to a file as it arrives. `arrival` refuses bodies that are too large or too slow.

        Raises `InvalidInput` for an empty body: a missing body is not an empty file.
        """
        async for part in request.stream():
            await run_sync(stream.write, part, limiter=self._writing)
        if not stream.tell():
            raise InvalidInput("The body is empty.", hint="Send the file's bytes as the body.")

    def _call(self, envelope: Envelope, caller: Caller, lend: Callable[[Engine], Engine]) -> Response:
        report = self._context.space.call("ingest", envelope, caller, lend=lend)
        self._calls.note("ingest", envelope)
        return json_answer(report)

    @contextmanager
    def _place(self, caller: Caller) -> Iterator[None]:
        """Count an upload until it is read. Raises `Unavailable` or `Refusal` above the limit of the server or key."""
        if self._under_way.total() >= self._context.bounds.uploads_at_once:
            raise Unavailable("Too many concurrent uploads.", hint="Try again when one has finished.")
        if caller.key and self._under_way[caller.key] >= self._context.bounds.uploads_of_a_key:
            raise too_many_requests("This key has too many concurrent uploads.", "Send one at a time.")
        self._under_way[caller.key] += 1
        try:
            yield
        finally:
            self._under_way[caller.key] -= 1
            self._under_way += Counter()  # a server meets many keys


def _check_label(request: Request) -> None:
    """Refuse content types that a browser sends from pages of other sites without a preflight request."""
    if content_type(request) in _SENT_UNASKED:
        raise mislabeled(
            request,
            "file",
            "Pages of other sites can send this type. Send the file with Content-Type: application/octet-stream; its "
            "name decides the format.",
        )


def route(context: ServerContext, calls: RecentCalls, jobs: RunningJobs) -> Route:
    """Return the route of uploads."""
    return Route(
        method="POST",
        path=UPLOAD,
        name="wiki_ingest_upload",
        summary="Read an uploaded file, or a zip or tar archive of files.",
        description=_DESCRIPTION,
        answer=UploadEndpoint(context, calls, jobs).take,
        access=RouteAccess("space", WRITES, whole_space=False),
        takes_bytes=True,
        gives=(IngestReport,),
        besides={"202": JOB_BEGUN},
        parameters=(*_PARAMETERS, PREFER),
        refuses=(
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.CONFLICT,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            HTTPStatus.UNPROCESSABLE_ENTITY,
        ),
    )


def _parameter(name: str, schema: Schema, *, required: bool = False) -> Schema:
    description = UploadQuery.model_fields[name].description
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


_PARAMETERS = (
    _parameter(
        "name",
        {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME, "pattern": _NAME_PATTERN},
        required=True,
    )
    | {"example": "notes.md"},
    _parameter("scope", {"type": "string", "pattern": SCOPE_PATTERN}),
    _parameter("wait", _BOOLEAN),
    _parameter("dry_run", _BOOLEAN),
)


def _lend(stream: IO[bytes], engine: Engine) -> Engine:
    """Return an engine that reads the upload, and no files."""
    return replace(engine, adapters={"path": UploadAdapter(cast(BinaryIO, stream), formats_here())}, files=NoFiles())


def _envelope(params: QueryParams) -> Envelope:
    """Return the call that an upload is. Raises `InvalidInput`."""
    try:
        query = UploadQuery.model_validate(dict(params))
    except ValidationError as error:
        raise invalid_fields(error, model=UploadQuery) from error
    given: dict[str, Any] = {} if query.scope is None else {"scope": query.scope}
    options = {"wait": query.wait == "true", "dry_run": query.dry_run == "true"}
    return Envelope(mode="path", input={"path": query.name}, options=options, **given)
