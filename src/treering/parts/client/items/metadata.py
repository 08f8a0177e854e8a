"""Metadata of memories: brought to JSON, to the names and to the times that filters compare."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import numpy as np
from pydantic import BaseModel

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput

ALIASES: Mapping[str, str] = {"importance": "importance_score", "tool_name": "tool"}
"""Names that hosts use, and the one that is kept and compared."""

TIMES: Mapping[str, str] = {"timestamp": "timestamp", "created_at": "timestamp", "updated_at": "updated_at"}
"""Names of times. `timestamp` is when what a memory tells of happened; `created_at` says that, too."""

HAPPENED = "timestamp"
CONTEXT = "context"
"""Names the nested context a memory lies in, as long as that is not merged."""
PART_OF = "part_of"
"""Names the nested context a memory was merged from."""
SESSION = "session_id"
AGENT = "agent_type"
USER = "user_id"
TYPE = "memory_type"

_DEEPEST = 20
_QUOTED = 200
_MILLISECONDS_FROM = 1e11  # as seconds that would be the year 5138
_LARGEST = 2**63


def known_name(name: str) -> str:
    """Return the name under which a metadata key is kept and compared."""
    return ALIASES.get(name, TIMES.get(name, name))


def normalised(given: Mapping[str, Any] | None, *, now: datetime) -> dict[str, Any]:
    """Return metadata as it is kept. What is told under an alias is kept under that name, too.

    There is always a `timestamp`: the one that is told, else `now`. Raises `InvalidInput` for a time or an importance
    that makes no sense.
    """
    kept: dict[str, Any] = {}
    for key, value in (given or {}).items():
        name = _text(key)
        plain = moment_text(name, value) if name in TIMES and value is not None else plain_value(value)
        kept[name] = plain
        if known_name(name) not in (given or {}):
            kept[known_name(name)] = plain
    if kept.get("importance_score") is not None:
        kept["importance_score"] = checked_share("importance_score", kept["importance_score"])
    kept[HAPPENED] = kept.get(HAPPENED) or render_time(now)
    return kept


def moment_text(name: str, value: Any) -> str:
    """Return a time, given in ISO 8601 or in seconds or milliseconds since 1970, in the form that is kept.

    A time without a zone is local time, as `datetime.now()` gives it. Raises `InvalidInput` for anything else.
    """
    try:
        return render_time(_moment(value))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"{name}: {_quoted(value)} is not a time.", hint="Give ISO 8601, a datetime, or seconds since 1970."
        ) from error


def checked_share(name: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises `InvalidInput` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise InvalidInput(f"{name}: {_quoted(value)} is not a number from 0 to 1.", hint="Give a number such as 0.8.")


def plain_value(value: Any, *, inside: Sequence[Any] = ()) -> Any:
    """Return a value as JSON data: models and dataclasses as objects, sets as lists, anything unknown as its text.

    `inside`: what it stands in. What stands in itself, or deeper than JSON should be, is kept as its text.
    """
    if len(inside) > _DEEPEST or any(value is one for one in inside):
        return _text(value)
    for fits, plain in _FORMS:
        if fits(value):
            return plain(value, (*inside, value))
    return _text(value)


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip()).astimezone(UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
    raise ValueError(value)


def _moment_or_text(value: datetime, inside: Sequence[Any]) -> str:
    try:
        return render_time(value)
    except (ValueError, OverflowError):  # the first and last days of the calendar have no time in UTC
        return _text(value, inside)


def _text(value: Any, _inside: Sequence[Any] = ()) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - an object of a host may raise anything where it is asked for its text
        text = f"<{type(value).__name__}>"
    return text.encode(errors="replace").decode()


def _quoted(value: Any) -> str:
    return repr(value if isinstance(value, str | int | float) else _text(value))[:_QUOTED]


def _number(value: int | float, _inside: Sequence[Any]) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if abs(value) < _LARGEST else _text(value)


def _mapping(value: Mapping[Any, Any], inside: Sequence[Any]) -> dict[str, Any]:
    return {_text(key): plain_value(one, inside=inside) for key, one in value.items()}


def _list(value: Any, inside: Sequence[Any]) -> list[Any]:
    ordered = sorted(value, key=_text) if isinstance(value, Set) else value
    return [plain_value(one, inside=inside) for one in ordered]


def _fields(value: Any, inside: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a model or a dataclass; they may hold what the model itself cannot write as JSON."""
    if isinstance(value, BaseModel):
        return _mapping({**dict(value), **(value.model_extra or {})}, inside)
    return _mapping({one.name: getattr(value, one.name, None) for one in fields(value)}, inside)


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_FORMS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Sequence[Any]], Any]]] = (
    (lambda value: value is None or isinstance(value, bool), lambda value, _: value),
    (_is(Enum), lambda value, inside: plain_value(value.value, inside=inside)),
    (_is(str), _text),
    (_is(int, float), _number),
    (_is(datetime), lambda value, inside: _moment_or_text(value, inside)),
    (_is(bytes, bytearray, memoryview), lambda value, _: f"{len(value)} bytes"),
    (_is(Mapping), _mapping),
    (lambda value: isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)), _fields),
    (_is(np.generic), lambda value, inside: plain_value(value.item(), inside=inside)),
    (_is(np.ndarray), lambda value, inside: plain_value(value.tolist(), inside=inside)),
    (_is(Sequence, Set), _list),
)
