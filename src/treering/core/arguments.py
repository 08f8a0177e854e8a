"""Type checks of arguments of the Python API, for programs without a type checker."""

from collections.abc import Collection
from types import NoneType, UnionType
from typing import get_args

from treering.core.errors import InvalidInput


def check_type(value: object, kind: type | UnionType, *, name: str, expected: str, hint: str = "") -> None:
    """Raise `InvalidInput` if an argument has another type. `expected`: a noun phrase, such as "a number".

    Truth values are not numbers.
    """
    is_number = {*(get_args(kind) or (kind,))} <= {int, float, NoneType}
    if not isinstance(value, kind) or (is_number and isinstance(value, bool)):
        raise _wrong_type(name, value, expected, hint)


def check_count(value: object, *, name: str, most: int) -> None:
    """Raise `InvalidInput` unless an argument is a whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{name}: {value!r} is not a number from 1 to {most}.", hint="Use 5, for example.")


def check_items(values: object, kind: type | UnionType, *, name: str, expected: str, hint: str = "") -> None:
    """Raise `InvalidInput` if an argument is not a collection of values of a type.

    A text is refused, because its items would be its letters.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise _wrong_type(name, values, expected, hint)
    for at, value in enumerate(values):
        if not isinstance(value, kind):
            raise _wrong_type(f"{name}[{at}]", value, f"an item of {expected}", hint)


def _wrong_type(name: str, value: object, expected: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{name}: {type(value).__name__} is not {expected}.", hint=hint or f"Give {expected}.")
