"""The decision of a graph node as text: its result, or its changes to the state."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from treering.core.patch import shortened
from treering.extensions.client.hooks.execution_history import MOST_CHARS, capped
from treering.extensions.client.hooks.memory_access import read_field

_OF_MEMORY = frozenset({"memory_client", "memory_config", "memory_session_id"})

Fields = Mapping[str, str]
"""The public fields of an object, by name, as text."""


def fields_as_text(holder: Any) -> Fields:
    """Return the public fields of a state or a node as text, each in at most `MOST_CHARS` characters.

    Lists are changed in place, so that a later comparison needs the text and not the value.
    """
    names = [name for name in _names(holder) if not name.startswith("_") and name not in _OF_MEMORY]
    return {name: str(capped(read_field(holder, name))) for name in names}


def decision_text(name: str, result: Any, before: Fields, after: Fields) -> str | None:
    """Return the decision of the node `name`, or `None` if it neither returned nor changed anything.

    The decision is the returned value, or the value with which the node ends a run (pydantic-graph's `End`). If the
    node returns the next node or nothing, the decision is its change of the state: the field it is named after (`plan`
    of a `PlanNode`), else each changed field; without changes, the fields of the next node.
    """
    if type(result).__name__ == "End" and hasattr(result, "data"):
        result = result.data
    is_node = callable(getattr(result, "run", None))
    if result is not None and not is_node:
        return f"{name}: {shortened(str(capped(result)), MOST_CHARS)}"
    changed = {field: text for field, text in after.items() if before.get(field) != text}
    if not changed and is_node:
        changed = dict(fields_as_text(result))
    own = [field for field in changed if _plain(field) == _plain(name).removesuffix("node")]
    lines = [f"{field.replace('_', ' ').capitalize()}: {changed[field]}" for field in own or changed]
    if lines:
        return "\n".join(lines)
    return f"{name}: next {type(result).__name__}" if is_node else None


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
