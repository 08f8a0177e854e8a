"""The server's API as OpenAPI, and the check of request bodies: bounded JSON with exactly the documented types."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Literal, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import from_json

from treering.core.characters import well_formed_json
from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.extensions.server.callers import RouteAccess
from treering.extensions.server.failures import Failure, content_type, mislabeled
from treering.verbs.envelope import Envelope
from treering.version import __version__

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{model}"
_REASONS: Mapping[HTTPStatus, str] = {
    HTTPStatus.UNAUTHORIZED: "The key is missing or not valid.",
    HTTPStatus.FORBIDDEN: "Denied by the space's policy, or not allowed on this server.",
    HTTPStatus.NOT_FOUND: "There is no such object, space, project or path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The path does not support this method.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.CONFLICT: "Conflict with another write; `details` contain the current state.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the server's limit.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The route does not take this Content-Type.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The input cannot be accepted; nothing was changed. `details` name the fields.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests with this key; try again after `Retry-After` seconds.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Stored data does not verify, or the server failed.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Try again later; `timed_out` if the call exceeded its time limit.",
    HTTPStatus.BAD_GATEWAY: "The upstream cannot be reached.",
    HTTPStatus.GATEWAY_TIMEOUT: "The upstream did not answer in time.",
}
_BYTES: Schema = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BEHIND = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
_WITHOUT_BODY = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
MOST_VALUES = 200_000
"""Fields and items of a body, on all levels."""
_Model = TypeVar("_Model", bound=BaseModel)
Problem = dict[str, str]


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the API: its method, path, input and output."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    """Unique: the route's id."""
    summary: str
    answer: Callable[..., Any]
    """The endpoint; it gives a response, or will."""
    access: RouteAccess
    """The access it requires."""
    gives: tuple[type[BaseModel], ...]
    """The models of the successful answer."""
    takes: tuple[type[BaseModel], ...] = ()
    """The JSON body is one of these; nothing: there is no body."""
    examples: Mapping[str, Any] = field(default_factory=dict)
    """Example bodies, by purpose."""
    takes_bytes: bool = False
    """The body is bytes of any kind."""
    description: str = ""
    parameters: tuple[Schema, ...] = ()
    links: Mapping[str, Schema] = field(default_factory=dict)
    """Routes that can be called next with the input and output of this one."""
    also: Schema = field(default_factory=dict)
    """Content other than JSON that the successful answer may have, by its type."""
    good: HTTPStatus = HTTPStatus.OK
    """The status of the successful answer."""
    besides: Mapping[str, Schema] = field(default_factory=dict)
    """Further answers besides the successful one and failures, by their status."""
    refuses: tuple[HTTPStatus, ...] = ()
    """Errors of a route without a body, in addition to those of every route."""
    fails: type[BaseModel] = Failure
    """The model of a failure."""
    behind: bool = False
    """Whether it calls an upstream server."""


def document(routes: Sequence[Route]) -> Schema:
    """Describe all routes as an OpenAPI document."""
    names, definitions = models_json_schema(
        [
            *((model, "validation") for model in _unique(one.takes for one in routes)),
            *(
                (model, "serialization")
                for model in _unique([*(one.gives for one in routes), *((one.fails,) for one in routes)])
            ),
        ],
        ref_template=_REFERENCE,
    )
    paths: Schema = {}
    for one in routes:
        paths.setdefault(one.path, {})[one.method.casefold()] = _described(one, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Treering",
            "summary": "Memory that can be checked: evidence, contradictions, gaps and history.",
            "version": __version__,
        },
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }


def _described(route: Route, names: Mapping[Any, Schema]) -> Schema:
    good: Schema = {
        "description": "Done.",
        "content": _json([names[model, "serialization"] for model in route.gives]) | dict(route.also),
    }
    if route.links:
        good["links"] = dict(route.links)
    described: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        **({"description": route.description} if route.description else {}),
        **({"parameters": list(route.parameters)} if route.parameters else {}),
        "responses": {
            str(route.good.value): good,
            **route.besides,
            **{
                str(status.value): {
                    "description": _REASONS[status],
                    "content": _json([names[route.fails, "serialization"]]),
                }
                for status in _failures(route)
            },
        },
    }
    if route.takes_bytes:
        described["requestBody"] = {"required": True, "content": _BYTES}
    if route.takes:
        content = _json([names[model, "validation"] for model in route.takes])
        if route.examples:
            shown = {what: {"value": body} for what, body in route.examples.items()}
            content["application/json"]["examples"] = shown
        described["requestBody"] = {"required": True, "content": content}
    return described


def _failures(route: Route) -> Iterator[HTTPStatus]:
    """Return the statuses of a route's failures, in their order."""
    for status in _REASONS:
        possible = status not in _BEHIND and (route.takes or status in (*_WITHOUT_BODY, *route.refuses))
        # Without an upstream even what takes no body is refused as a call that cannot be accepted.
        if possible or (route.behind and status in {*_BEHIND, HTTPStatus.UNPROCESSABLE_ENTITY}):
            yield status


def _json(choices: Sequence[Schema]) -> Schema:
    if not choices:
        return {}
    schema = choices[0] if len(choices) == 1 else {"anyOf": list(choices)}
    return {"application/json": {"schema": schema}}


def _unique(groups: Iterable[Iterable[type[BaseModel]]]) -> list[type[BaseModel]]:
    return list(dict.fromkeys(model for group in groups for model in group))


async def read_body(request: Request) -> bytes:
    """Read the body of a request.

    Refuses other content types than JSON (415); `arrival` refuses bodies that are too large (413) or too slow (408).
    """
    if content_type(request) != "application/json":
        raise mislabeled(request, "body", "Send JSON with the header Content-Type: application/json.")
    return await request.body()


def json_answer(
    value: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a model as the JSON body of an answer."""
    return Response(value.model_dump_json(), status, headers=headers, media_type="application/json")


def parse_body(model: type[_Model], body: bytes) -> _Model:
    """Read a JSON body into a model, with the types its schema names and no others.

    Raises `InvalidInput` if it is not JSON, or with each wrong field and the nearest known name.
    """
    body, replaced = well_formed_json(body)
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"The body is not JSON: {error}.", hint="Send one JSON object, in UTF-8.") from error
    _check_size(data)
    try:
        parsed = model.model_validate(data)
        if isinstance(parsed, Envelope):
            parsed.add_replaced(replaced)
    except ValidationError as error:
        raise invalid_fields(error, model=model) from error
    problems = misfits(model, data)
    if problems:
        first = problems[0]
        raise InvalidInput(
            f"{first['field']}: {first['problem']}",
            hint="See details.fields for every wrong field.",
            details={"fields": problems},
        )
    return parsed


def _check_size(data: object) -> None:
    """Raise `InvalidInput` for a body with too many values, because each of them could cause an error message."""
    values, waiting = 0, [data]
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        values += len(inner)
        if values > MOST_VALUES:
            raise InvalidInput(
                f"The body has more than {MOST_VALUES:,} values.",
                hint="Send it in several requests.",
                details={"most": MOST_VALUES},
            )
        waiting += (value for value in inner if isinstance(value, dict | list))


def misfits(model: type[BaseModel], data: Any) -> list[Problem]:
    """Return the parts of JSON data that a model accepts, but whose type differs from its schema."""
    schema = _schema(model)
    return list(_misfits(schema, data, schema, ()))


@cache
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_json_schema()


def _misfits(
    schema: Mapping[str, Any], data: Any, root: Mapping[str, Any], place: tuple[str, ...]
) -> Iterator[Problem]:
    schema = _resolved(schema, root)
    if "anyOf" in schema:
        problems = [list(_misfits(choice, data, root, place)) for choice in schema["anyOf"]]
        yield from min(problems, key=len)
        return
    wanted = schema.get("type")
    if wanted and not _TYPES[wanted](data):
        yield {"field": ".".join(place), "problem": f"Input should be of type {wanted}", "kind": "type"}
        return
    for name, part in _parts(data):
        yield from _misfits(_schema_of(schema, name), part, root, (*place, name))


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return root["$defs"][reference.rpartition("/")[2]] if reference else schema


def _parts(data: Any) -> Iterator[tuple[str, Any]]:
    match data:
        case dict():
            yield from data.items()
        case list():
            yield from ((str(place), part) for place, part in enumerate(data))


def _schema_of(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the schema of a part; an empty one, which anything matches, if there is none."""
    others = schema.get("items" if "items" in schema else "additionalProperties")
    named: Mapping[str, Any] = schema.get("properties", {}).get(name, others)
    return named if isinstance(named, dict) else {}


def _is_number(data: Any) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda data: isinstance(data, dict),
    "array": lambda data: isinstance(data, list),
    "string": lambda data: isinstance(data, str),
    "boolean": lambda data: isinstance(data, bool),
    "null": lambda data: data is None,
    "number": _is_number,
    "integer": lambda data: _is_number(data) and data == int(data),
}
