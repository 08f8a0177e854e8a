"""The decision of a graph node as text: its result, or its changes to the state."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from treering.core.patch import shortened
from treering.extensions.client.hooks.execution_history import MOST_CHARS, capped
from treering.extensions.client.hooks.memory_access import read_field

_OF_MEMORY = frozenset({"memory_client", "memory_config", "memory_session_id"})

Fields = Mapping[str, Any]
"""The public fields of an object, by name, as JSON data."""


def public_fields(holder: Any) -> Fields:
    """Return the public fields of a state or a node as JSON data, each in at most `MOST_CHARS` characters.

    The data is a copy, because nodes change the lists of a state in place.
    """
    names = [name for name in _names(holder) if not name.startswith("_") and name not in _OF_MEMORY]
    return {name: capped(read_field(holder, name)) for name in names}


def decision_text(name: str, result: Any, before: Fields, after: Fields) -> str | None:
    """Return the decision of the node `name`, or `None` if it neither returned nor changed anything.

    The decision is the returned value, or the value with which the node ends a run (pydantic-graph's `End`). If the
    node returns the next node or nothing, the decision is its change of the state: the field it is named after (`plan`
    of a `PlanNode`), else each changed field, of a list that grew only the new items; without changes, the fields of
    the next node.
    """
    if type(result).__name__ == "End" and hasattr(result, "data"):
        result = result.data
    is_node = callable(getattr(result, "run", None))
    if result is not None and not is_node:
        return f"{name}: {shortened(str(capped(result)), MOST_CHARS)}"
    changed = {field: _added(before.get(field), now) for field, now in after.items() if before.get(field) != now}
    if not changed and is_node:
        changed = dict(public_fields(result))
    of_node = _plain(name).removesuffix("node")
    own = {field: after.get(field, value) for field, value in changed.items() if _plain(field) == of_node}
    lines = [f"{field.replace('_', ' ').capitalize()}: {value}" for field, value in (own or changed).items()]
    if lines:
        return "\n".join(lines)
    return f"{name}: next {type(result).__name__}" if is_node else None


def _added(before: Any, after: Any) -> Any:
    """Return the items added to the end of a list, or, for any other change, the new value."""
    has_grown = isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before
    return after[len(before) :] if has_grown else after


def _names(holder: Any) -> list[str]:
    if isinstance(holder, Mapping):
        return [str(name) for name in holder]
    if isinstance(holder, BaseModel):
        return list(type(holder).model_fields)
    if is_dataclass(holder):
        return [field.name for field in fields(holder)]
    return list(getattr(holder, "__dict__", {}))


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()
