"""Long conversations are read after their texts were embedded, so that searches need not read them.

The relations between their statements are saved (`saved_links`). A search reads a short conversation itself.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from treering.core.objects import Source
from treering.extensions.statements.conversations import (
    MAX_UNREAD,
    Allowance,
    conversation_at,
    forget,
)
from treering.extensions.statements.saved_links import rules_digest
from treering.ports.ledger import ObjectRequest
from treering.ports.stores import ReadyValues
from treering.system.machine import is_busy
from treering.verbs.engine import Engine

if TYPE_CHECKING:
    from treering.surfaces.python.space import Space

MIN_MESSAGES = 100
"""Messages of a conversation that takes a search a quarter of a second to read."""
_NAME = "conversations.read"
"""The name of the value with the event up to which conversations were read."""
_EVENTS = 1_000
_REST_SECONDS = 15.0
"""The maximal wait for other programs after each step of about a second."""


def read_ahead(space: "Space") -> None:
    """Read the long conversations that changed since the last call, the latest changed first. Yields to other programs.

    A call that is interrupted has saved what it has read.
    """
    engine = space.engine
    if engine.ready is None:
        return
    sequence = engine.ledger.sequence()
    for scope, root in _changed_conversations(engine, after=_read_up_to(engine.ready, sequence)):
        if _is_long(engine, scope, root):
            _read(engine, scope, root)
    engine.ready.write(_NAME, {"rules": rules_digest(), "sequence": sequence})


def _read_up_to(ready: ReadyValues, sequence: int) -> int:
    saved = ready.read(_NAME)
    if isinstance(saved, dict) and saved["rules"] == rules_digest() and saved["sequence"] <= sequence:
        return int(saved["sequence"])
    return 0


def _changed_conversations(engine: Engine, *, after: int) -> Iterator[tuple[str, str]]:
    """Return the scopes and origins of conversations that changed after an event, the latest first."""
    changed: dict[tuple[str, str], None] = {}
    while events := list(engine.ledger.events(after=after, limit=_EVENTS)):
        after = events[-1].seq
        heads = engine.ledger.heads({event.target for event in events if event.target.startswith("src:")})
        for head in sorted(heads.values()):
            if head.kind == "conversation":
                place = head.scope, head.origin.partition("#")[0]
                changed.pop(place, None)
                changed[place] = None
    return reversed(changed)


def _is_long(engine: Engine, scope: str, root: str) -> bool:
    sources = engine.ledger.sources(scope=scope, root=root).values()
    ids = tuple(one.id for one in sources if one.status == "active")
    (read,) = engine.ledger.read([ObjectRequest(objects=ids)])
    return sum(len(one.segments) for one in read.objects.values() if isinstance(one, Source)) >= MIN_MESSAGES


def _read(engine: Engine, scope: str, root: str) -> None:
    allowance = Allowance(MAX_UNREAD)
    conversation_at(engine, scope=scope, root=root, allowance=allowance)
    while allowance.is_short:
        _rest()
        allowance = Allowance(MAX_UNREAD)
        conversation_at(engine, scope=scope, root=root, allowance=allowance)
    forget(engine)


def _rest() -> None:
    until = time.monotonic() + _REST_SECONDS
    while is_busy() and time.monotonic() < until:
        time.sleep(1)
