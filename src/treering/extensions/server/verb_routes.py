"""The four tools over HTTP: `POST /v1/wiki/{verb}` with the envelope every surface takes, and MCP at `POST /mcp`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import Annotated, Any, Literal, cast

from fastapi import Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import BaseModel, Field, GetJsonSchemaHandler, ValidationError, WithJsonSchema, create_model
from pydantic_core import CoreSchema
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from treering.core.errors import TreeringError
from treering.core.scope import BELOW_ROOT, ROOT, ScopeGiven, scope_schema
from treering.extensions.mcp.dispatcher import ToolAnswer, answer_call, error_answer
from treering.extensions.mcp.server import CallProgress, ToolCaller, server_of
from treering.extensions.server.callers import Caller, RouteAccess, caller_of
from treering.extensions.server.contract import Route, json_answer, parse_body, read_body
from treering.extensions.server.failures import for_caller
from treering.extensions.server.jobs import JOB_BEGUN, PREFER, job_begun, prefers_job
from treering.extensions.server.recent_calls import RecentCalls
from treering.extensions.server.request_guard import slot_of
from treering.extensions.server.running_jobs import RunningJobs
from treering.extensions.server.served import ServerContext
from treering.surfaces.python.operations import EXAMPLES as OPERATION_EXAMPLES
from treering.surfaces.python.operations import ON_SPACES
from treering.verbs.catalog import EXAMPLES, TOOLS
from treering.verbs.crystallize.drafting import WorkItemFields
from treering.verbs.crystallize.knowledge import KnowledgeInput
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS, ActivityInput, LinkFields, NodeInput, WorkItemInput
from treering.verbs.envelope import Envelope, Mode, Operation, Report, Rights, TextInput, Tool, Value

SCOPE_PATTERN = f"^(/|{BELOW_ROOT})$"
_Scope = Annotated[ScopeGiven, WithJsonSchema(scope_schema(pattern=SCOPE_PATTERN))]
PATH = "/mcp"


def routes(context: ServerContext, calls: RecentCalls, jobs: RunningJobs) -> Iterator[Route]:
    """Return one route per verb of the catalogue. `calls` records each answered call."""
    for tool in TOOLS.values():
        route = _route(tool, context, calls)
        yield _with_jobs(route, tool, context, jobs) if tool.name == "ingest" else route


def _route(tool: Tool, context: ServerContext, calls: RecentCalls) -> Route:
    def call(body: bytes, caller: Caller) -> Response:
        envelope = _checked(tool, body, caller)
        report = context.space.call(tool.name, envelope, caller)
        calls.note(tool.name, envelope)
        return json_answer(report)

    async def answer(request: Request) -> Response:
        body = await read_body(request)
        return await context.run(request, partial(call, body, caller_of(request)), writes=tool.rights.writes)

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
        examples=EXAMPLES[tool.name],
        gives=tuple(dict.fromkeys(mode.report for mode in tool.modes.values())),
    )


def _with_jobs(route: Route, tool: Tool, context: ServerContext, jobs: RunningJobs) -> Route:
    """Return a route whose calls become jobs if the client does not wait."""

    async def answer(request: Request) -> Response:
        if prefers_job(request):
            body, caller = await read_body(request), caller_of(request)
            check = partial(_checked, tool, body, caller)
            envelope = await context.run(request, check, writes=True)
            if jobs.takes(envelope):
                return job_begun(await jobs.start(envelope, caller, size=len(body)))
        answered: Response = await route.answer(request)
        return answered

    return replace(route, answer=answer, parameters=(*route.parameters, PREFER), besides={"202": JOB_BEGUN})


def _checked(tool: Tool, body: bytes, caller: Caller) -> Envelope:
    """Read a call. Raises `Denied` if it exceeds the caller's rights, and `InvalidInput`."""
    envelope = parse_body(Envelope, body)
    tool.require(tool.find(envelope.mode), granted=caller.granted)
    model = call_model(tool.name, envelope)
    if model:
        parse_body(model, body)
    return envelope


def _least_of(tool: Tool) -> Rights:
    """Return the rights common to all modes of a tool; further rights of a mode are checked at the call."""
    return reduce(and_, (mode.rights for mode in tool.modes.values()))


class _OrText:
    """Adds to the schema of an input that it may also be plain text."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "minLength": 1}]}


class NewWorkItem(WorkItemFields):
    """Work to track, with its relations to other objects."""

    links: tuple[LinkFields, ...] = ()


class ActivityChange(ActivityInput):
    """Changes of an activity."""

    id: str = Field(min_length=1, description="The activity to change.")


class NodeChange(NodeInput):
    """Changes of a node."""

    id: str = Field(min_length=1, description="The node to change.")


class KnowledgeChange(KnowledgeInput):
    """Changes of knowledge."""

    id: str = Field(min_length=1, description="The knowledge to change.")


class WorkItemChange(WorkItemInput):
    """Changes of a work item."""

    id: str = Field(min_length=1, description="The work item to change.")


_NEW: Mapping[type[Value], type[Value]] = {**NEW_OBJECT_FIELDS, WorkItemInput: NewWorkItem}
_CHANGES: Mapping[type[Value], type[Value]] = {
    ActivityInput: ActivityChange,
    NodeInput: NodeChange,
    KnowledgeInput: KnowledgeChange,
    WorkItemInput: WorkItemChange,
}
"""Inputs with two forms: the fields of a new object without an id, or an id and the changed fields."""


def call_models(verb: str) -> tuple[type[BaseModel], ...]:
    """Return all forms a call of a verb may have."""
    return tuple(model for (of, _, _), model in _CALLS.items() if of == verb)


def call_model(verb: str, envelope: Envelope) -> type[BaseModel] | None:
    """Return the form a call should have, by its mode and by whether it names an object; none for an unknown mode."""
    mode = envelope.mode or TOOLS[verb].default
    changes = isinstance(envelope.input, Mapping) and envelope.input.get("id")
    form = "Change" if changes else "New"
    return _CALLS.get((verb, mode, "")) or _CALLS.get((verb, mode, form))


def _models(tool: Tool) -> Iterator[tuple[tuple[str, str, str], type[BaseModel]]]:
    for mode in tool.modes.values():
        given = mode.input
        forms = {"New": _NEW[given], "Change": _CHANGES[given]} if given in _NEW else {"": given}
        for form, model in forms.items():
            yield (tool.name, mode.name, form), _model(tool, mode, form, model)


def _model(tool: Tool, mode: Mode, form: str, given: type[Value]) -> type[BaseModel]:
    name = "".join(part.capitalize() for part in (tool.name, *mode.name.split("_"), form))
    is_default = mode.name == tool.default
    fields: dict[str, Any] = {
        "mode": (Literal["", mode.name], "") if is_default else (Literal[mode.name], ...),
        "scope": (_Scope, Field(default=ROOT, description=Envelope.model_fields["scope"].description)),
        "input": (Annotated[given, _OrText()] if issubclass(given, TextInput) else given, _needed(given)),
        "options": (mode.options, _needed(mode.options)),
    }
    return create_model(name, __base__=Value, __doc__=mode.summary, **fields)


def _needed(model: type[BaseModel]) -> Any:
    """Return the default of a part for pydantic: none if the part has required fields, else an empty dictionary."""
    needed = any(one.is_required() for one in model.model_fields.values())
    return Field() if needed else Field(default_factory=dict)


_CALLS = {key: model for tool in TOOLS.values() for key, model in _models(tool)}


def operation_routes(context: ServerContext) -> Iterator[Route]:
    """Return one route per operation that the server grants."""
    return (_operation_route(one, context) for one in ON_SPACES if context.space.grants(one))


def unserved_operations(context: ServerContext) -> Mapping[str, str]:
    """Return by path of each operation that the server does not grant how its operator allows it."""
    hints = ((_operation_path(one), context.space.how_to_grant(one)) for one in ON_SPACES)
    return {path: hint for path, hint in hints if hint}


def _operation_path(operation: Operation[Any]) -> str:
    return f"/v1/{operation.name.replace(' ', '/')}"


def _operation_route(operation: Operation[Any], context: ServerContext) -> Route:
    model = _operation_model(operation)

    def perform(body: bytes, caller: Caller) -> Response:
        call = parse_body(model, body).model_dump()
        report = context.space.perform(operation, caller, given=call["input"], options=call["options"])
        return json_answer(report)

    async def answer(request: Request) -> Response:
        body = await read_body(request)
        return await context.run(request, partial(perform, body, caller_of(request)), writes=operation.rights.writes)

    return Route(
        method="POST",
        path=_operation_path(operation),
        name=operation.name.replace(" ", "_"),
        summary=operation.summary,
        answer=answer,
        access=RouteAccess("space", operation.rights, whole_space=True),
        takes=(model,),
        examples=OPERATION_EXAMPLES.get(operation.name, {}),
        gives=(operation.report,),
    )


def _operation_model(operation: Operation[Any]) -> type[BaseModel]:
    name = "".join(word.capitalize() for word in operation.name.split()) + "Request"
    fields: dict[str, Any] = {
        part: (model, Field(default_factory=model) if _is_optional(model) else Field())
        for part, model in (("input", operation.input), ("options", operation.options))
    }
    return create_model(name, __base__=Value, __doc__=operation.summary, **fields)


def _is_optional(model: type[Value]) -> bool:
    """Return whether a part of a call may be left out: its model accepts no fields."""
    try:
        model()
    except ValidationError:
        return False
    return True


class McpEndpoint:
    """Answers agents that use the protocol. `run` is entered while the app lives.

    Requests are independent (the protocol's stateless form), so that several servers can answer one client, and a
    restarted server can continue. A long call reports its progress in a stream.
    """

    def __init__(self, context: ServerContext, *, urls: bool = False) -> None:
        self._context = context
        self._urls = urls
        bounds = context.bounds
        server = server_of(
            self._answer,
            read_seconds=bounds.read_seconds,
            work_seconds=bounds.work_seconds,
            run=self._run,
            urls=urls,
        )
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=bounds.max_body_bytes
        )
        self.run: Callable[[], AbstractAsyncContextManager[None]] = self._manager.run

    @property
    def route(self) -> StarletteRoute:
        """The route of the endpoint. It has no answers of its own to GET and DELETE: no session outlives a request."""
        return StarletteRoute(PATH, endpoint=self, methods=["POST"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Starlette expects an object here: it would expect a response from a function."""
        await self._manager.handle_request(scope, receive, send)

    async def _run(self, work: Callable[[], ToolAnswer], *, reads: bool, request: object) -> ToolAnswer:
        """Answer a call in one of the threads that also answer the other requests.

        A cancelled call counts as a request of its key until its thread is free.
        """
        bounds = self._context.bounds
        seconds = bounds.read_seconds if reads else bounds.work_seconds
        slot = slot_of(request)
        slot.hold()
        try:
            return await self._context.workers.run_cancellable(work, seconds=seconds, reads=reads, ended=slot.leave)
        except TreeringError as error:  # the call waited too long for a thread
            return error_answer(error)

    def _answer(self, verb: str, arguments: Mapping[str, Any], by: ToolCaller, watch: CallProgress) -> ToolAnswer:
        def check() -> None:
            self._context.stop.check_running()
            watch.check()

        caller = caller_of(cast("Request", by.request))

        def report(verb: str, envelope: Envelope) -> Report:
            try:
                return self._context.space.call(verb, envelope, caller, progress=watch.report)
            except TreeringError as error:
                shown = for_caller(error)
                if shown is error:
                    raise
                raise shown from error

        return answer_call(verb, arguments, report, check=check, urls=self._urls)
