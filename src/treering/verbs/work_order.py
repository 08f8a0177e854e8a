"""The order of work: what each work item waits for."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from treering.core.characters import label
from treering.core.counting import listed_up_to
from treering.core.objects import WorkItem
from treering.ports.ledger import AsOf, Ledger, ObjectRequest

FINISHED = frozenset({"resolved", "closed", "cancelled"})
"""Statuses of work that nothing waits for any more."""
_MAX_NAMED = 3


def is_finished(item: WorkItem) -> bool:
    """Return whether no other work has to wait for an item."""
    return item.status in FINISHED or item.lifecycle_state == "archived"


def unfinished_before(ledger: Ledger, items: Iterable[WorkItem], *, as_of: AsOf = None) -> Mapping[str, list[WorkItem]]:
    """Return by id the unfinished work in sight that unfinished items depend on or are blocked by, in one read."""
    before = {
        item.id: tuple(dict.fromkeys((*item.depends_on, *item.blocked_by))) for item in items if not is_finished(item)
    }
    wanted = tuple(dict.fromkeys(chain.from_iterable(before.values())))
    if not wanted:
        return {}
    (read,) = ledger.read([ObjectRequest(objects=wanted, as_of=as_of)])
    unfinished = {one.id: one for one in read.objects.values() if isinstance(one, WorkItem) and not is_finished(one)}
    return {item: [unfinished[one] for one in ids if one in unfinished] for item, ids in before.items()}


def named_work(items: Sequence[WorkItem], *, most: int = _MAX_NAMED) -> str:
    """Return the titles of work items that are not finished, each with its status."""
    return listed_up_to(most, [f"{label(one.title)} ({one.status.replace('_', ' ')})" for one in items])


def order_warnings(ledger: Ledger, item: WorkItem) -> tuple[str, ...]:
    """Warn if work is in progress before the work that it waits for is finished."""
    before = unfinished_before(ledger, [item]).get(item.id) if item.status == "in_progress" else ()
    return (f"{label(item.title)} is in progress, but it waits for {named_work(before)}.",) if before else ()
