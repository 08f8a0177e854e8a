"""Statuses and the moves between them. A move outside these tables is refused."""

from collections.abc import Mapping
from datetime import datetime

from treering.core.errors import IllegalTransition
from treering.core.objects import Knowledge, Object, WorkItem

Table = Mapping[str, frozenset[str]]


def _table(**moves: str) -> Table:
    return {status: frozenset(targets.split()) for status, targets in moves.items()}


TRANSITIONS: Mapping[str, Table] = {
    "source": _table(active="invalid archived", invalid="active archived", archived=""),
    "node": _table(active="merged archived", merged="", archived="active"),
    "knowledge": _table(
        candidate="active contested archived",
        active="contested superseded stale archived",
        contested="active superseded archived",
        stale="active superseded archived",
        superseded="archived",
        archived="active",
    ),
    "activity": _table(draft="finalized archived", finalized="archived", archived=""),
    "work_item": _table(
        open="in_progress blocked resolved cancelled",
        in_progress="open blocked resolved cancelled",
        blocked="open in_progress cancelled",
        resolved="closed open",
        closed="open",
        cancelled="open",
    ),
}

INITIAL: Mapping[str, frozenset[str]] = {
    "source": frozenset({"active", "invalid"}),
    "node": frozenset({"active"}),
    "knowledge": frozenset({"candidate", "active"}),
    "activity": frozenset({"draft", "finalized"}),
    "work_item": frozenset({"open", "in_progress", "blocked"}),
}

CURRENT: Mapping[str, frozenset[str]] = {
    "source": frozenset({"active"}),
    "node": frozenset({"active"}),
    "knowledge": frozenset({"candidate", "active", "contested"}),
    "activity": frozenset({"draft", "finalized"}),
    "work_item": frozenset({"open", "in_progress", "blocked", "resolved", "closed"}),
}
"""Statuses in which an object may be presented as how things stand, as long as it is not over (`is_over`)."""

WITHDRAWN_BY_CASCADE = frozenset({"candidate", "active", "contested"})
"""Knowledge in these statuses becomes `stale` when its last support goes. The table lets only `active` move
there on request; the cascade also takes candidates and contested claims, because leaving them presentable
without any evidence would be worse, and archiving them would hide that they can be verified again."""


def check_transition(item: Object, to: str) -> None:
    """Raise `IllegalTransition`, naming both states and the allowed ones, unless `item` may move to `to`."""
    allowed = TRANSITIONS[item.type][item.status]
    if to not in allowed:
        raise IllegalTransition(
            f"{item.type} {item.id} cannot go from {item.status!r} to {to!r}.",
            hint=f"From {item.status!r} it may go to: {', '.join(sorted(allowed)) or 'nothing'}.",
            details={"id": item.id, "from": item.status, "to": to, "allowed": sorted(allowed)},
        )


def is_current(item: Object) -> bool:
    """Tell whether the object's status lets it be presented as how things stand."""
    return item.status in CURRENT[item.type]


def is_over(item: Object, *, now: datetime) -> bool:
    """Tell whether it has ended whatever its status: knowledge past `valid_until`, and work that was archived."""
    match item:
        case Knowledge(valid_until=until):
            return until is not None and until <= now
        case WorkItem(lifecycle_state=state):
            return state == "archived"
        case _:
            return False
