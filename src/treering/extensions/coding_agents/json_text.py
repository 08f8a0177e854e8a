"""JSON with comments, changed in place: all other text stays the same, byte for byte.

Accepts JSON, comments (`//`, `/* */`) and commas before a closing bracket, as editors do.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.errors import Conflict, InvalidInput

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/|(?:[^\S\n]|\ufeff)+", re.DOTALL)
"""Strings, and between them comments and white space."""
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])")
"""Strings, and between them commas before a closing bracket."""
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
_STEP = "  "
_LOOK = "The structure of the file is unexpected. Open it and check it."


@dataclass(frozen=True, slots=True)
class Inserted:
    """A text with one piece put in: taking `piece` out at its place gives the text of before."""

    text: str
    piece: str


def read_json(text: str) -> Any:
    """Parse a text. Raises `InvalidInput` if it is neither JSON nor JSON with comments."""
    try:
        return json.loads(_plain(text))
    except RecursionError as error:
        raise InvalidInput("The file is nested too deeply.", hint="Check the file.") from error
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise InvalidInput(
            f"Line {line} is not valid JSON.", hint="Correct the file, and try again.", details={"line": line}
        ) from error


def insert_member(text: str, path: Sequence[str], value: object) -> Inserted | None:
    """Insert a member at a path, with missing parent objects. Return `None` if it already has this value.

    Raises `Conflict` if it has another value, `InvalidInput` if a parent is not an object.
    """
    *above, last = path
    here, depth = _nearest(read_json(text), above)
    if depth == len(above) and last in here:
        if here[last] == value:
            return None
        raise Conflict(f"{'.'.join(path)} already exists with a different value.", hint="Rename or remove it.")
    name, *below = path[depth:]
    for one in reversed(below):
        value = {one: value}
    outer = _STEP * depth
    indent = outer + _STEP
    piece = f"\n{indent}{json.dumps(name)}: {_written(value, indent)}" + ("," if here else f"\n{outer}")
    return _inserted(text, path[:depth], piece)


def insert_item(text: str, path: Sequence[str], item: object) -> Inserted | None:
    """Insert an item at the start of a list, which is created if missing. Return `None` if the list contains it.

    Raises the errors of `insert_member`.
    """
    *above, last = path
    here, depth = _nearest(read_json(text), above)
    if depth < len(above) or last not in here:
        return insert_member(text, path, [item])
    items = here[last]
    if not isinstance(items, list):
        raise InvalidInput(f"{'.'.join(path)} is not a list.", hint=_LOOK)
    if item in items:
        return None
    indent = _STEP * (len(path) + 1)
    piece = f"\n{indent}{_written(item, indent)}" + ("," if items else f"\n{_STEP * len(path)}")
    return _inserted(text, path, piece)


def _nearest(value: Any, path: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return the deepest object on a path that exists, and the number of names that lead to it."""
    depth = 0
    while isinstance(value, dict):
        if depth == len(path) or path[depth] not in value:
            return value, depth
        value, depth = value[path[depth]], depth + 1
    raise InvalidInput(f"{'.'.join(path[:depth]) or 'The file'} is not an object.", hint=_LOOK)


def _inserted(text: str, path: Sequence[str], piece: str) -> Inserted:
    """Insert a piece after the opening bracket of the value at a path."""
    plain = _plain(text)
    at = _after_space(plain, 0)
    for name in path:
        at = _members(plain, at)[name]
    return Inserted(text[: at + 1] + piece + text[at + 1 :], piece)


def _written(value: object, indent: str) -> str:
    return json.dumps(value, indent=_STEP, ensure_ascii=False).replace("\n", f"\n{indent}")


def _plain(text: str) -> str:
    """Return JSON with spaces in place of comments and superfluous commas, so that all positions stay the same."""
    return _COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])


def _members(plain: str, at: int) -> dict[str, int]:
    """Return the positions of the values in an object."""
    members: dict[str, int] = {}
    at = _after_space(plain, at + 1)
    while plain[at] != "}":
        name, end = _DECODER.raw_decode(plain, at)
        members[name] = _after_space(plain, _after_space(plain, end) + 1)
        _, end = _DECODER.raw_decode(plain, members[name])
        at = _after_space(plain, end)
        at = _after_space(plain, at + 1) if plain[at] == "," else at
    return members


def _after_space(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at
