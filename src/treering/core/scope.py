"""Scopes: paths inside a space. A read sees its scope and the ancestors of it, never siblings or children."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from treering.core.errors import Denied, InvalidInput

ROOT = "/"
_PART = re.compile(r"[^\s/\x00-\x1f][^/\x00-\x1f]{0,127}")
_MAX_PARTS = 64


def parse_scope(text: str) -> str:
    """Check a scope and return its normal form. Raises `InvalidInput` for an invalid one."""
    if text == ROOT:
        return ROOT
    if not isinstance(text, str):
        raise _bad(text)
    parts = text.removesuffix("/").split("/")
    if not text.startswith(ROOT) or len(parts) - 1 > _MAX_PARTS:
        raise _bad(text)
    for part in parts[1:]:
        if part in {".", ".."} or not _PART.fullmatch(part):
            raise _bad(text)
    return "/".join(parts)


def lineage(scope: str) -> tuple[str, ...]:
    """Return the scope and its ancestors, root first: the scopes that a read at `scope` sees."""
    if scope == ROOT:
        return (ROOT,)
    parts = scope.split("/")[1:]
    return (ROOT, *("/" + "/".join(parts[: n + 1]) for n in range(len(parts))))


def is_within(scope: str, ancestor: str) -> bool:
    """Return whether `scope` is `ancestor` or below it."""
    return ancestor == ROOT or scope == ancestor or scope.startswith(ancestor + "/")


def sees(reader: str, scope: str, *, descend: bool = False) -> bool:
    """Return whether a read at `reader` sees objects at `scope`."""
    return is_within(reader, scope) or (descend and is_within(scope, reader))


@dataclass(frozen=True, slots=True)
class Boundary:
    """The scopes that a caller may read: `scope`, the scopes below it, and those above it up to `top`."""

    scope: str = ROOT
    top: str = ""
    """The highest scope, `scope` or one above it; empty: `scope`."""

    def holds(self, scope: str) -> bool:
        """Return whether the caller may read a scope."""
        above = self.top and is_within(self.scope, scope) and is_within(scope, self.top)
        return is_within(scope, self.scope) or bool(above)

    def require(self, scope: str) -> None:
        """Raise `Denied` for a scope named in a call that is neither the caller's nor below it."""
        if not is_within(scope, self.scope):
            raise Denied(
                f"This key is for the scope {self.scope} and scopes below it; the call names {scope}.",
                hint=f"Use {self.scope}, a scope below it, or none.",
            )


WHOLE_SPACE = Boundary()


def _bad(given: object) -> InvalidInput:
    return InvalidInput(
        f"{given!r} is not a valid scope.",
        hint="A scope is a path such as / or /repo/acme-web: it starts with '/', without '.', '..' or empty parts.",
        details={"given": given if isinstance(given, str) else repr(given)},
    )


def _validate(text: str) -> str:
    try:
        return parse_scope(text)
    except InvalidInput as error:
        raise ValueError(f"{error.message} {error.hint}") from error


def _named(given: Any) -> Any:
    """Convert a scope given as an object to a path; an empty object is the root."""
    if not isinstance(given, Mapping):
        return given
    if not given:
        return ROOT
    (name, path), *others = given.items()
    if others or name not in _NAMES or not isinstance(path, str):
        raise ValueError('a scope is a path such as /repo/acme-web, or an object with it: {} or {"path": "/…"}')
    return path


_NAMES = ("path", "scope")

Scope = Annotated[str, AfterValidator(_validate)]


BELOW_ROOT = r"(/(?!\.{1,2}(/|$))[^\s/\x00-\x1f][^/\x00-\x1f]{0,127}){1,16}/?"
"""The pattern of a scope below the root in JSON schemas, with fewer parts than are allowed."""


def scope_schema(**text: Any) -> dict[str, Any]:
    """Return the JSON schema of a scope in a call; `text` adds to the schema of its path."""
    path = {"type": "string", **text}
    named = dict.fromkeys(_NAMES, path)
    return {"anyOf": [path, {"type": "object", "properties": named, "additionalProperties": False, "maxProperties": 1}]}


ScopeGiven = Annotated[Scope, BeforeValidator(_named), WithJsonSchema(scope_schema())]
"""A scope in a call: a path, or an object with one (`{}` is the root)."""
