"""The paths in the input and options of a call, checked and made absolute."""

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel

from treering.ports.adapter import FileAccess

_Model = TypeVar("_Model", bound=BaseModel)


def placed(model: _Model, files: FileAccess) -> _Model:
    """Return a model with absolute paths, links resolved. Raises `Denied` for a path that may not be read."""
    return cast("_Model", _placed(model, files)) if _may_contain_paths(type(model)) else model


def _placed(value: Any, files: FileAccess) -> Any:
    match value:
        case PurePath():
            return files.place(str(value))
        case BaseModel():
            return value.model_copy(update={name: _placed(inner, files) for name, inner in value})
        case tuple() | list() | set() | frozenset():
            return type(value)(_placed(inner, files) for inner in value)
        case Mapping():
            return {_placed(key, files): _placed(inner, files) for key, inner in value.items()}
        case _:
            return value


@cache
def _may_contain_paths(model: type[BaseModel]) -> bool:
    """Return whether a model can contain a path, by the types of its fields."""
    seen, pending = set[Any](), list[Any]([model])
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, PurePath):
            return True
        if id(kind) not in seen:
            seen.add(id(kind))
            pending += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                pending += [field.annotation for field in kind.model_fields.values()]
    return False
