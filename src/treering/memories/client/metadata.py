"""Metadata of memories: brought to JSON, to the names and to the times that filters compare."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel

from treering.core.errors import InvalidInput
from treering.core.times import render_time

ALIASES: Mapping[str, str] = {"importance": "importance_score", "tool_name": "tool"}
"""Names that hosts use, and the one that is kept and compared."""

TIMES: Mapping[str, str] = {"timestamp": "timestamp", "created_at": "timestamp"}
"""Names of times: a memory has one, when what it tells of happened."""

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
        name = str(key)
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
            f"{name}: {value!r} is not a time.", hint="Give ISO 8601, a datetime, or seconds since 1970."
        ) from error


def checked_share(name: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises `InvalidInput` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise InvalidInput(f"{name}: {value!r} is not a number from 0 to 1.", hint="Give a number such as 0.8.")


def plain_value(value: Any, *, depth: int = 0) -> Any:
    """Return a value as JSON data: models and dataclasses as objects, sets as lists, anything unknown as its text."""
    if depth > _DEEPEST:
        return _text(value)
    for fits, plain in _FORMS:
        if fits(value):
            return plain(value, depth + 1)
    return _text(value)


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip()).astimezone(UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
    raise ValueError(value)


def _text(value: Any, _depth: int = 0) -> str:
    return str(value).encode(errors="replace").decode()


def _number(value: int | float, _depth: int) -> Any:
    return value if math.isfinite(value) and abs(value) < _LARGEST else str(value)


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {_text(key): plain_value(one, depth=depth) for key, one in value.items()}


def _list(value: Any, depth: int) -> list[Any]:
    ordered = sorted(value, key=repr) if isinstance(value, Set) else value
    return [plain_value(one, depth=depth) for one in ordered]


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_FORMS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, int], Any]]] = (
    (lambda value: value is None or isinstance(value, bool), lambda value, _: value),
    (_is(Enum), lambda value, depth: plain_value(value.value, depth=depth)),
    (_is(str), _text),
    (_is(int, float), _number),
    (_is(datetime), lambda value, _: render_time(value)),
    (_is(bytes, bytearray), lambda value, _: f"{len(value)} bytes"),
    (_is(Mapping), _mapping),
    (_is(BaseModel), lambda value, depth: plain_value(value.model_dump(mode="json"), depth=depth)),
    (
        lambda value: is_dataclass(value) and not isinstance(value, type),
        lambda value, depth: plain_value(asdict(value), depth=depth),
    ),
    (_is(Sequence, Set), _list),
)
