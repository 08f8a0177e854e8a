"""Statements as data in the payload of the source that holds their messages."""

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from treering.core.objects import Source
from treering.extensions.statements.statement import Statement

STATEMENTS = "statements"
"""The name of the statements in a payload."""
RULES = 7
"""The version of the rules. Statements of other rules are read again from the messages."""

_STATEMENTS = TypeAdapter(tuple[Statement, ...])


def dumped(statements: Iterable[Statement], fingerprint: str) -> dict[str, Any]:
    """Return statements as the payload of a source with a fingerprint stores them; empty if there are none."""
    items = _STATEMENTS.dump_python(tuple(statements), mode="json", exclude_defaults=True)
    return {STATEMENTS: {"rules": RULES, "of": fingerprint, "items": items}} if items else {}


def loaded(source: Source) -> tuple[Statement, ...] | None:
    """Return the statements stored with a source; `None` if there are none of these rules and messages.

    A merge may join the messages of one copy with the payload of another.
    """
    stored = source.payload.get(STATEMENTS)
    if not stored or (stored.get("rules"), stored.get("of")) != (RULES, source.fingerprint):
        return None
    return _STATEMENTS.validate_python(stored["items"])
