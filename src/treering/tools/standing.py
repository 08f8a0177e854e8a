"""Which of some objects stand at the time of a read, for answers that name objects without searching for them."""

from collections.abc import Iterable

from treering.core.lifecycle import CURRENT, is_over
from treering.core.objects import Object
from treering.ports.ledger import AsOf, Head, ObjectRequest
from treering.tools.envelope import Call
from treering.tools.reading import time_of

_STANDING = frozenset[str]().union(*CURRENT.values())
_MAY_BE_OVER = frozenset({"knowledge", "work_item"})


def standing(call: Call, heads: Iterable[Head], moment: AsOf) -> frozenset[str]:
    """Return the ids of those of the objects that may be presented as how things stand."""
    current = [head for head in heads if head.status in CURRENT[head.type]]
    asked = tuple(head.id for head in current if head.type in _MAY_BE_OVER)
    if not asked:
        return frozenset(head.id for head in current)
    (found,) = call.engine.ledger.read([ObjectRequest(objects=asked, as_of=moment)])
    now = time_of(call, moment)
    over = {identity for identity, item in found.objects.items() if is_over(item, now=now)}
    return frozenset(head.id for head in current) - over


def told_status(status: str, *, current: bool) -> str:
    """Return a status for people: `over` stands beside one that does not say so itself."""
    return status if current or status not in _STANDING else f"{status}, over"


def over_warning(call: Call, item: Object, moment: AsOf) -> tuple[str, ...]:
    """Warn where an object that is shown is over, although its status says nothing of it."""
    if item.status not in CURRENT[item.type] or not is_over(item, now=time_of(call, moment)):
        return ()
    until = getattr(item, "valid_until", None)
    why = f"it was valid until {until:%Y-%m-%d}" if until else "it was archived"
    return (f"{item.id} is not how things stand: {why}.",)
