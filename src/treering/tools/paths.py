"""The paths among the values of a call."""

from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel

from treering.ports.files import FileAccess

_Model = TypeVar("_Model", bound=BaseModel)


def placed(model: _Model, files: FileAccess) -> _Model:
    """Return a model with every path in it absolute, its links resolved. Raises `Denied` for one not to be read."""
    return cast("_Model", _placed(model, files)) if _may_hold_paths(type(model)) else model


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
def _may_hold_paths(model: type[BaseModel]) -> bool:
    """Tell whether a model can hold a path; of most inputs that is known without a look at their values."""
    seen, waiting = set[Any](), list[Any]([model])
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, PurePath):
            return True
        if id(kind) not in seen:
            seen.add(id(kind))
            waiting += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                waiting += [field.annotation for field in kind.model_fields.values()]
    return False
