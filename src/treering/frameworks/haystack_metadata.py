"""The metadata of Haystack documents as its document stores summarize it: fields, types and values."""

import json
from collections.abc import Iterable
from typing import Any

from haystack import Document

_PREFIX = "meta."
_TYPES = {bool: "boolean", int: "int", float: "float"}


def field_types(documents: Iterable[Document]) -> dict[str, dict[str, str]]:
    """Return the type of each field: `keyword`, `int`, `float` or `boolean`, by its last value."""
    values = ((field, value) for document in documents for field, value in document.meta.items() if value is not None)
    return {field: {"type": _TYPES.get(type(value), "keyword")} for field, value in values}


def field_range(documents: Iterable[Document], field: str) -> dict[str, Any]:
    """Return the minimum and maximum of a field; `None` without values, or if they cannot be compared."""
    values = [value for value in _values(documents, field) if isinstance(value, str | int | float)]
    try:
        return {"min": min(values, default=None), "max": max(values, default=None)}
    except TypeError:  # numbers next to texts
        return {"min": None, "max": None}


def unique_values(documents: Iterable[Document], field: str) -> list[Any]:
    """Return the distinct values of a field, sorted as texts; `1`, `1.0` and `true` are three values."""
    values = {json.dumps(value, sort_keys=True): value for value in _values(documents, field)}
    return [value for _, value in sorted(values.items(), key=lambda one: (str(one[1]), one[0]))]


def field_name(field: str) -> str:
    """Return the name of a field without `meta.`."""
    return field.removeprefix(_PREFIX)


def _values(documents: Iterable[Document], field: str) -> list[Any]:
    values = (document.meta.get(field_name(field)) for document in documents)
    return [value for value in values if value is not None]
