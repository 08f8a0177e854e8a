"""Which objects are current at the time of a read, for answers that name objects without a search."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from treering.core.objects import Object
from treering.core.policy import CURRENT, is_over
from treering.ports.ledger import AsOf, Head, ObjectRequest
from treering.verbs.envelope import Call
from treering.verbs.reading import time_of
from treering.verbs.trees import notes_of_objects

_MAY_EXPIRE = frozenset({"knowledge", "work_item"})


@dataclass(frozen=True, slots=True)
class CurrentObjects:
    """Which objects are current, and why others are not in the requested tree."""

    ids: frozenset[str]
    notes: Mapping[str, str]

    def __contains__(self, identity: object) -> bool:
        """Return whether an object is current."""
        return identity in self.ids

    def note(self, identity: str) -> str:
        """Return why an object is not current in the requested tree; empty if it is."""
        return self.notes.get(identity, "")


def current_objects(call: Call, heads: Iterable[Head], moment: AsOf) -> CurrentObjects:
    """Return which of the objects are current in the requested tree."""
    listed = list(heads)
    notes = notes_of_objects(call.tree, call.engine.ledger, listed)
    current = [head for head in listed if head.status in CURRENT[head.type] and head.id not in notes]
    lasting = tuple(head.id for head in current if head.type in _MAY_EXPIRE)
    if not lasting:
        return CurrentObjects(frozenset(head.id for head in current), notes)
    (found,) = call.engine.ledger.read([ObjectRequest(objects=lasting, as_of=moment)])
    now = time_of(call, moment)
    over = {identity for identity, item in found.objects.items() if is_over(item, now=now)}
    return CurrentObjects(frozenset(head.id for head in current) - over, notes)


def over_warning(call: Call, item: Object, moment: AsOf) -> tuple[str, ...]:
    """Warn if a shown object expired although its status is current."""
    if item.status not in CURRENT[item.type] or not is_over(item, now=time_of(call, moment)):
        return ()
    until = getattr(item, "valid_until", None)
    why = f"it was valid until {until:%Y-%m-%d}" if until else "it was archived"
    return (f"{item.id} is not current: {why}.",)
