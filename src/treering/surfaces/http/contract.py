"""What the server promises, as OpenAPI: rendered from its routes and the models they take and give."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from treering.surfaces.http.callers import RouteAccess
from treering.surfaces.http.failures import Failure
from treering.version import __version__

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{model}"
_REASONS: Mapping[HTTPStatus, str] = {
    HTTPStatus.UNAUTHORIZED: "A key is needed, and none was sent that opens anything.",
    HTTPStatus.FORBIDDEN: "Denied: by the space's policy, or this server may not be asked for it.",
    HTTPStatus.NOT_FOUND: "There is no such object, space, project or path.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The path has another method.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.CONFLICT: "Somebody else was first; `details` carry what stands now.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the server takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not labelled as JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The input cannot be accepted; nothing was changed. `details` name the fields.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests of this key; try again after `Retry-After` seconds.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Stored data does not verify, or the server failed.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Try again later; `timed_out` where the call took longer than it may.",
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


@dataclass(frozen=True, slots=True)
class Route:
    """One thing the server can be asked: where, with what, and what it gives."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    """Unique: the route's id."""
    summary: str
    answer: Callable[..., Any]
    """The endpoint; it gives a response, or will."""
    access: RouteAccess
    """Who may ask it."""
    gives: tuple[type[BaseModel], ...]
    """The good answer is one of these."""
    takes: tuple[type[BaseModel], ...] = ()
    """The JSON body is one of these; nothing: there is no body."""
    examples: Mapping[str, Any] = field(default_factory=dict)
    """Bodies to copy, by what one wants."""
    takes_bytes: bool = False
    """The body is bytes of any kind."""
    description: str = ""
    parameters: tuple[Schema, ...] = ()
    links: Mapping[str, Schema] = field(default_factory=dict)
    """What can be asked next with what this route was asked and gave."""
    also: Schema = field(default_factory=dict)
    """Other content than JSON that the good answer may have, by its type."""
    good: HTTPStatus = HTTPStatus.OK
    """The status of the good answer."""
    besides: Mapping[str, Schema] = field(default_factory=dict)
    """Other answers than the good one and failures, by their status."""
    refuses: tuple[HTTPStatus, ...] = ()
    """Failures of a route without a body, beside those that every route has."""
    fails: type[BaseModel] = Failure
    """What a failure is."""
    behind: bool = False
    """Whether it asks a server behind this one."""


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
