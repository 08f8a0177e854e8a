"""Options of adapters."""

from collections.abc import Mapping
from typing import Any

from treering.core.errors import InvalidInput


def flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Read an option that is true or false. Raises `InvalidInput` for another value."""
    value = options.get(name, default)
    if isinstance(value, bool):
        return value
    raise InvalidInput(f"`{name}` must be true or false, not {value!r}.", hint=f"Give {name} as a boolean.")
