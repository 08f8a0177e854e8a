"""Reading request bodies: bounded, JSON only, and exactly of the types the contract names."""

from http import HTTPStatus
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.edges.surfaces.rest.exactness import misfits
from treering.edges.surfaces.rest.failures import Refusal

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
