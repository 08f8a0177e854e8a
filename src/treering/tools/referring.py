"""What names an object: everything attached to a node, a work item, a source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.objects import Node, Object
from treering.core.patch import Link
from treering.core.references import fields_naming
from treering.ports.ledger import Altered, AsOf, Ledger, ObjectRequest


@dataclass(frozen=True, slots=True)
class Referring:
    """What names some objects. What names a node that was merged into one of them names that one, too."""

    stands_for: Mapping[str, str]
    """By id asked for and by id of a node merged into one: the id asked for."""
    items: Mapping[str, Sequence[Object]]
    """By id asked for: the objects that name it, by id."""
    links: Mapping[str, Sequence[Link]]
    """By id asked for and by id of a node merged into one: the links there."""
    altered: Mapping[str, str] = field(default_factory=dict)

    def fields(self, item: Object, identity: str) -> tuple[str, ...]:
        """Return the fields in which one of `items` names an id asked for."""
        return fields_naming(item, self.names_of(identity))

    def names_of(self, identity: str) -> Collection[str]:
        """Return an id asked for, and those of the nodes merged into it."""
        return {one for one, whole in self.stands_for.items() if whole == identity}


def read_referring(
    ledger: Ledger, identities: Iterable[str], *, as_of: AsOf = None, with_links: bool = False
) -> Referring:
    """Read what names the objects with these ids, as it stands, or stood; with the links there, if asked."""
    asked = tuple(dict.fromkeys(identities))
    stands_for = {identity: identity for identity in asked}
    items: dict[str, dict[str, Object]] = {identity: {} for identity in asked}
    links: dict[str, Sequence[Link]] = {}
    altered: Altered = {}
    while asked:
        (found,) = ledger.read([ObjectRequest(referrers=asked, links=asked if with_links else (), as_of=as_of)])
        altered |= found.altered
        links |= found.links
        naming = [(target, found.objects[one]) for target in asked for one in found.referrers.get(target, ())]
        for target, item in naming:
            items[stands_for[target]][item.id] = item
        merged = {item.id: stands_for[target] for target, item in naming if is_merged_into(item, target)}
        asked = tuple(identity for identity in merged if identity not in stands_for)
        stands_for |= {identity: merged[identity] for identity in asked}
    ordered = {identity: [item for _, item in sorted(found.items())] for identity, found in items.items()}
    return Referring(stands_for, ordered, links, altered)


def is_merged_into(item: Object, identity: str) -> bool:
    """Tell whether an object is a node that was merged into another."""
    return isinstance(item, Node) and item.merged_into == identity
