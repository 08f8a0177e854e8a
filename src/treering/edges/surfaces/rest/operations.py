"""Operations on the space over HTTP: `POST /v1/review/list` and others, as far as the server grants what they need."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, Field, create_model

from treering.edges.surfaces.operations import ON_SPACES
from treering.edges.surfaces.rest.bodies import parse_body, read_body
from treering.edges.surfaces.rest.bounds import Bounds
from treering.edges.surfaces.rest.callers import Caller, RouteAccess, caller_of
from treering.edges.surfaces.rest.contract import Route
from treering.edges.surfaces.rest.served import ServedSpace
from treering.edges.surfaces.rest.workers import Workers
from treering.tools.envelope import Operation, Value


def routes(space: ServedSpace, workers: Workers, bounds: Bounds) -> Iterator[Route]:
    """Return one route per operation that the server grants."""
    for operation in ON_SPACES:
        if space.grants(operation):
            seconds = bounds.work_seconds if operation.rights.writes else bounds.read_seconds
            yield _route(operation, space, workers, seconds)


def _route(operation: Operation[Any], space: ServedSpace, workers: Workers, seconds: float) -> Route:
    model = _model(operation)

    def perform(body: bytes, caller: Caller) -> Response:
        asked = parse_body(model, body).model_dump()
        report = space.perform(operation, caller, given=asked["input"], options=asked["options"])
        return Response(report.model_dump_json(), media_type="application/json")

    async def answer(request: Request) -> Response:
        body = await read_body(request)
        return await workers.run(request.receive, partial(perform, body, caller_of(request)), seconds=seconds)

    return Route(
        method="POST",
        path=f"/v1/{operation.name.replace(' ', '/')}",
        name=operation.name.replace(" ", "_"),
        summary=operation.summary,
        answer=answer,
        access=RouteAccess("space", operation.rights, whole_space=True),
        takes=(model,),
        gives=(operation.report,),
    )


def _model(operation: Operation[Any]) -> type[BaseModel]:
    name = "".join(word.capitalize() for word in operation.name.split()) + "Request"
    fields: dict[str, Any] = {
        part: (model, _needed(model)) for part, model in (("input", operation.input), ("options", operation.options))
    }
    return create_model(name, __base__=Value, __doc__=operation.summary, **fields)


def _needed(model: type[BaseModel]) -> Any:
    needed = any(one.is_required() for one in model.model_fields.values())
    return Field() if needed else Field(default_factory=model)
