"""Conversations are read after their texts were embedded, so that searches need not compare their statements.

The relations between the statements are saved (`saved_links`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from treering.core.audit import AuditEvent
from treering.extensions.statements.conversations import MAX_UNREAD, Allowance, conversation_at, forget
from treering.extensions.statements.saved_links import rules_digest
from treering.ports.stores import ReadyValues
from treering.verbs.engine import Engine

if TYPE_CHECKING:
    from treering.surfaces.python.space import Space

_NAME = "conversations.read"
"""The name of the value with the event up to which conversations were read."""
_EVENTS = 200
"""Events whose conversations are read before the progress is saved, usually in less than ten seconds."""
_READING = "reading conversations"
"""The name of the work in progress reports."""


def read_ahead(space: "Space") -> None:
    """Read the conversations that changed since the last call.

    The next call continues one that was interrupted.
    """
    engine = space.engine
    if engine.ready is None:
        return
    last = engine.ledger.sequence()
    first = after = _read_up_to(engine.ready, last)
    read: set[tuple[str, str]] = set()
    while after < last and (events := list(engine.ledger.events(after=after, limit=_EVENTS))):
        changed = _conversations_of(engine, events) - read
        for scope, root in sorted(changed):
            _read(engine, scope, root)
        forget(engine)
        read |= changed
        after = events[-1].seq
        engine.progress(_READING, after - first, last - first)
        engine.ready.write(_NAME, {"rules": rules_digest(), "sequence": after})


def _read_up_to(ready: ReadyValues, last: int) -> int:
    saved = ready.read(_NAME)
    if isinstance(saved, dict) and saved["rules"] == rules_digest() and saved["sequence"] <= last:
        return int(saved["sequence"])
    return 0


def _conversations_of(engine: Engine, events: Iterable[AuditEvent]) -> set[tuple[str, str]]:
    """Return the scopes and origins of the conversations that events changed."""
    heads = engine.ledger.heads({event.target for event in events if event.target.startswith("src:")}).values()
    return {(head.scope, head.origin.partition("#")[0]) for head in heads if head.kind == "conversation"}


def _read(engine: Engine, scope: str, root: str) -> None:
    is_short = True
    while is_short:  # the links of each step are saved
        allowance = Allowance(MAX_UNREAD, saves_all=True)
        conversation_at(engine, scope=scope, root=root, allowance=allowance)
        is_short = allowance.is_short
