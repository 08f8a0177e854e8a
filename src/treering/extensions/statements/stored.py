"""Statements as data in the payload of the source that holds their messages."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from treering.extensions.statements.statement import Statement

STATEMENTS = "statements"
"""The name of the statements in a payload."""
RULES = 4
"""The version of the rules. Statements of other rules are read again from the messages."""

_STATEMENTS = TypeAdapter(tuple[Statement, ...])


def dumped(statements: Iterable[Statement]) -> dict[str, Any]:
    """Return statements as a payload stores them; empty if there are none."""
    items = _STATEMENTS.dump_python(tuple(statements), mode="json", exclude_defaults=True)
    return {STATEMENTS: {"rules": RULES, "items": items}} if items else {}


def loaded(payload: Mapping[str, Any]) -> tuple[Statement, ...] | None:
    """Return the statements in a payload; `None` if there are none of these rules."""
    stored = payload.get(STATEMENTS)
    if not stored or stored.get("rules") != RULES:
        return None
    return _STATEMENTS.validate_python(stored["items"])
