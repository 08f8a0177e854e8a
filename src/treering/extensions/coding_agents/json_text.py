"""JSON with comments, changed in place: all other text stays the same, byte for byte.

Accepts JSON, comments (`//`, `/* */`) and commas before a closing bracket, as editors do.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.errors import Conflict, InvalidInput

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|\ufeff)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"[^\s,\[\]{}\"/]+")
_MOST_DEPTH = 100
_STEP = "  "


@dataclass(frozen=True, slots=True)
class Inserted:
    """A text with one piece put in: taking `piece` out at its place gives the text of before."""

    text: str
    piece: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A value with its position in the text, and its children."""

    start: int
    end: int
    members: "Mapping[str, _Part] | None" = None
    """Of an object."""
    items: "Sequence[_Part] | None" = None
    """Of a list."""


def read_json(text: str) -> Any:
    """Parse a text. Raises `InvalidInput` if it is neither JSON nor JSON with comments."""
    return _value(text, _root(text))


def insert_member(text: str, path: Sequence[str], value: object) -> Inserted | None:
    """Insert a member at a path, with missing parent objects. Return `None` if it already has this value.

    Raises `Conflict` if it has another value, `InvalidInput` if a parent is not an object.
    """
    *above, name = path
    place, missing = _nearest(text, above)
    if missing:
        return _put_first(
            text, place, missing[0], _nested([*missing[1:], name], value), depth=len(above) - len(missing)
        )
    known = (place.members or {}).get(name)
    if known is None:
        return _put_first(text, place, name, value, depth=len(above))
    if _value(text, known) == value:
        return None
    raise Conflict(f"{'.'.join(path)} already exists with a different value.", hint="Rename or remove it.")


def insert_item(text: str, path: Sequence[str], item: object) -> Inserted | None:
    """Insert an item at the start of a list, which is created if missing. Return `None` if the list contains it.

    Raises the errors of `insert_member`.
    """
    place, missing = _nearest(text, path[:-1])
    known = None if missing else (place.members or {}).get(path[-1])
    if known is None:
        return insert_member(text, path, [item])
    if known.items is None:
        raise InvalidInput(
            f"{'.'.join(path)} is not a list.", hint="The structure of the file is unexpected. Open it and check it."
        )
    if any(_value(text, one) == item for one in known.items):
        return None
    indent = _STEP * (len(path) + 1)
    piece = f"\n{indent}{_written(item, indent)}" + ("," if known.items else f"\n{_STEP * len(path)}")
    return _inserted(text, known.start + 1, piece)


def _put_first(text: str, place: _Part, name: str, value: object, *, depth: int) -> Inserted:
    outer = _STEP * depth
    indent = outer + _STEP
    first = min((member.start for member in (place.members or {}).values()), default=None)
    piece = f"\n{indent}{json.dumps(name)}: {_written(value, indent)}" + (f"\n{outer}" if first is None else ",")
    return _inserted(text, place.start + 1, piece)


def _inserted(text: str, at: int, piece: str) -> Inserted:
    return Inserted(text[:at] + piece + text[at:], piece)


def _written(value: object, indent: str) -> str:
    return json.dumps(value, indent=_STEP, ensure_ascii=False).replace("\n", f"\n{indent}")


def _nested(names: Sequence[str], value: object) -> object:
    for name in reversed(names):
        value = {name: value}
    return value


def _nearest(text: str, path: Sequence[str]) -> tuple[_Part, Sequence[str]]:
    """Return the deepest object on a path that is there, and the names that are missing below it."""
    here = _root(text)
    for at, name in enumerate(path):
        if here.members is None:
            raise InvalidInput(
                f"{'.'.join(path[:at])} is not an object.",
                hint="The structure of the file is unexpected. Open it and check it.",
            )
        if name not in here.members:
            return here, path[at:]
        here = here.members[name]
    if here.members is None:
        raise InvalidInput(
            f"{'.'.join(path) or 'The file'} is not an object.",
            hint="The structure of the file is unexpected. Open it and check it.",
        )
    return here, ()


def _root(text: str) -> _Part:
    part = _part(text, _after_space(text, 0), 0)
    if _after_space(text, part.end) != len(text):
        raise _no_json(text, part.end)
    return part


def _part(text: str, at: int, depth: int) -> _Part:
    if depth > _MOST_DEPTH:
        raise InvalidInput("The file is nested too deeply.", hint="Check the file.")
    if text.startswith("{", at):
        return _object(text, at, depth)
    if text.startswith("[", at):
        return _list(text, at, depth)
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    if not found:
        raise _no_json(text, at)
    _loaded(text, at, found.end())
    return _Part(at, found.end())


def _object(text: str, start: int, depth: int) -> _Part:
    members: dict[str, _Part] = {}
    at = _after_space(text, start + 1)
    while not text.startswith("}", at):
        name = _STRING.match(text, at)
        if not name:
            raise _no_json(text, at)
        at = _after_space(text, name.end())
        if not text.startswith(":", at):
            raise _no_json(text, at)
        value = _part(text, _after_space(text, at + 1), depth + 1)
        members[_loaded(text, name.start(), name.end())] = value
        at = _after_comma(text, value.end, "}")
    return _Part(start, at + 1, members=members)


def _list(text: str, start: int, depth: int) -> _Part:
    items: list[_Part] = []
    at = _after_space(text, start + 1)
    while not text.startswith("]", at):
        items.append(_part(text, at, depth + 1))
        at = _after_comma(text, items[-1].end, "]")
    return _Part(start, at + 1, items=items)


def _after_comma(text: str, at: int, closing: str) -> int:
    at = _after_space(text, at)
    if text.startswith(",", at):
        return _after_space(text, at + 1)
    if text.startswith(closing, at):
        return at
    raise _no_json(text, at)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, part: _Part) -> Any:
    if part.members is not None:
        return {name: _value(text, member) for name, member in part.members.items()}
    if part.items is not None:
        return [_value(text, item) for item in part.items]
    return _loaded(text, part.start, part.end)


def _loaded(text: str, start: int, end: int) -> Any:
    try:
        return json.loads(text[start:end])
    except ValueError as error:
        raise _no_json(text, start) from error


def _no_json(text: str, at: int) -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    return InvalidInput(
        f"Line {line} is not valid JSON.", hint="Correct the file, and try again.", details={"line": line}
    )
