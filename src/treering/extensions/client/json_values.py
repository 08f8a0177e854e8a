"""Validation of values from frameworks as JSON, with errors that name the invalid value."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from treering.core.errors import InvalidInput

_DEEPEST = 200
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def check_json(value: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` naming the first value that is not JSON, by its path."""
    for path, problem in _problems(value, "", 0):
        raise InvalidInput(
            f"{path}: {problem}.",
            hint="Store text, finite numbers, true, false, null, and lists and objects of them. Write "
            "times as ISO 8601.",
            details={"field": path},
        )


def _problems(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        yield path[:_DEEPEST], f"it is nested deeper than {_DEEPEST} levels"
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _problems(one, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for at, one in enumerate(value):
            yield from _problems(one, f"{path}[{at}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, f"{value} is not a JSON number"
    elif isinstance(value, str):
        if _SURROGATE.search(value):
            yield path, "the text contains a lone surrogate, which cannot be encoded"
    elif not (value is None or isinstance(value, bool | int | float)):
        yield path, f"{type(value).__name__} cannot be represented in JSON"
