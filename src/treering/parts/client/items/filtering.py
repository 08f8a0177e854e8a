"""Filters over memories: metadata keys joined with AND, and what sessions, ages and contexts leave out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.core.filters import METADATA, And, Compare, Filter, Not, over_lists, parse_filter
from treering.core.scope import ROOT
from treering.parts.client.items.documents import PREFIX, scope_of
from treering.parts.client.items.metadata import (
    AGENT,
    CONTEXT,
    HAPPENED,
    TIMES,
    USER,
    known_name,
    moment_text,
    plain_value,
)
from treering.ports.passages import Reach

RecallScope = Literal["session", "lineage", "agent", "user", "space"]
SCOPES: tuple[RecallScope, ...] = ("session", "lineage", "agent", "user", "space")


@dataclass(frozen=True, slots=True)
class Who:
    """Who stores and retrieves: the type of the agent, and the user it works for, where they are known."""

    agent_type: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ages:
    """How old what is retrieved may be, in seconds; `None`: no limit."""

    session_ttl: float | None = None
    """Since it was stored."""
    max_age: float | None = None
    """Since what it tells of happened."""


def metadata_filter(filters: Mapping[str, Any] | None) -> Filter:
    """Read filters over metadata: a value, a list of values, or `{"gte": …, "exists": …}` for each key.

    Raises `InvalidInput` for an unknown operator or an operand that makes no sense.
    """
    named = {f"{METADATA}{known_name(str(key))}": _operand(str(key), value) for key, value in (filters or {}).items()}
    return over_lists(parse_filter(named))


def reach_of(
    *, scope: RecallScope, session_id: str | None, who: Who, ages: Ages, where: Filter, now: datetime
) -> Reach:
    """Return what a retrieval may see. Raises `InvalidInput` where its scope needs an agent or user nobody named."""
    own = Compare("scope", "eq", scope_of(session_id))
    wide = scope in {"agent", "user", "space"} or session_id is None
    parts: list[Filter] = [
        Compare("type", "eq", "source"),
        Compare("origin", "prefix", PREFIX),
        where,
        *_young(ages, now),
    ]
    match scope:
        case "session":
            parts.append(own)
        case "agent":
            parts.append(_by(AGENT, who.agent_type, scope))
        case "user":
            parts.append(_by(USER, who.user_id, scope))
        case "lineage" | "space":
            pass
        case _:
            raise InvalidInput(f"There is no scope {scope!r}.", hint=f"Give one of: {', '.join(SCOPES)}.")
    if wide and scope != "session":
        parts.append(Not(Compare(f"{METADATA}{CONTEXT}", "exists", True)))
        return Reach(scope=ROOT, descend=True, where=And(tuple(parts)), now=now)
    return Reach(scope=scope_of(session_id), where=And(tuple(parts)), now=now)


def _young(ages: Ages, now: datetime) -> list[Filter]:
    """Return what leaves out that which is too old."""
    found: list[Filter] = []
    if ages.session_ttl is not None:
        found.append(Compare("created_at", "gte", render_time(now - timedelta(seconds=ages.session_ttl))))
    if ages.max_age is not None:
        found.append(Compare(f"{METADATA}{HAPPENED}", "gte", render_time(now - timedelta(seconds=ages.max_age))))
    return found


def _by(key: str, value: str | None, scope: str) -> Filter:
    if value is None:
        raise InvalidInput(
            f"The scope {scope!r} needs a {key}, and this client has none.",
            hint=f"Open the client with {key}=…, or filter by {key}.",
        )
    return Compare(f"{METADATA}{key}", "eq", value)


def _operand(key: str, value: Any) -> Any:
    if value is None:
        return {"exists": False}
    if isinstance(value, Mapping):
        return {_operator(name): _value(key, one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return {"in": [_value(key, one) for one in value]}
    return _value(key, value)


def _operator(name: object) -> str:
    return str(name).removeprefix("$")


def _value(key: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(key, one) for one in value]
    if key in TIMES and not isinstance(value, bool):
        return moment_text(key, value)
    return plain_value(value)
