"""Reading request bodies: bounded, JSON only, and exactly of the types the contract names."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.surfaces.http.failures import Refusal

MOST_VALUES = 200_000
"""Fields and items of a body, on all levels."""

_Model = TypeVar("_Model", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """Read the body of a request.

    Refuses what is not JSON by its label (415); `arrival` refuses what is too large (413) or too slow (408).
    """
    label = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if label != "application/json":
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            InvalidInput(
                f"The body is labelled {label!r}." if label else "The body has no Content-Type.",
                hint="Send JSON with the header Content-Type: application/json.",
            ),
            code="unsupported_media_type",
        )
    return await request.body()


def parse_body(model: type[_Model], body: bytes) -> _Model:
    """Read a JSON body into a model, with the types its schema names and no others.

    Raises `InvalidInput` for what is not JSON, and else names each wrong field with the nearest known name.
    """
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"The body is not JSON: {error}.", hint="Send one JSON object, in UTF-8.") from error
    _check_size(data)
    try:
        parsed = model.model_validate(data)
    except ValidationError as error:
        raise invalid_fields(error, known=_known_beside(model, error)) from error
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
    """Raise `InvalidInput` for a body of very many values: each may be wrong, and be told so."""
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


def _known_beside(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Name the fields there are beside the first unknown one, as deep as the models say."""
    place = next((item["loc"] for item in error.errors() if item["type"] == "extra_forbidden"), ())
    for name in place[:-1]:
        field = model.model_fields.get(str(name))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            break
        model = inner
    return sorted(model.model_fields)


# Whether data has exactly the types its JSON schema names.


Schema = Mapping[str, Any]
Problem = dict[str, str]


def misfits(model: type[BaseModel], data: Any) -> list[Problem]:
    """Name the parts of JSON data that a model accepts, but whose type its schema does not name."""
    schema = _schema(model)
    return list(_misfits(schema, data, schema, ()))


@cache
def _schema(model: type[BaseModel]) -> Schema:
    return model.model_json_schema()


def _misfits(schema: Schema, data: Any, root: Schema, place: tuple[str, ...]) -> Iterator[Problem]:
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


def _resolved(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    return root["$defs"][reference.rpartition("/")[2]] if reference else schema


def _parts(data: Any) -> Iterator[tuple[str, Any]]:
    match data:
        case dict():
            yield from data.items()
        case list():
            yield from ((str(place), part) for place, part in enumerate(data))


def _schema_of(schema: Schema, name: str) -> Schema:
    """Return the schema of a part; an empty one, which anything fits, where none is named."""
    others = schema.get("items" if "items" in schema else "additionalProperties")
    named: Schema = schema.get("properties", {}).get(name, others)
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
