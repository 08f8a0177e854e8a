"""Whether data has exactly the types its JSON schema names.

Models are kind to people: "yes" is taken for true, "5" for 5. A program that sends such a thing has a fault, and
should hear of it before it relies on what was meant.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

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
