"""Read the objects that name some objects: everything attached to a node, a work item or a source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.objects import Knowledge, Node, Object
from treering.core.patch import Link
from treering.core.writing.integrity import fields_naming
from treering.ports.ledger import Altered, AsOf, Ledger, ObjectRequest
from treering.verbs.envelope import Call


@dataclass(frozen=True, slots=True)
class Referring:
    """The objects that name some targets. An object that names a node merged into a target names the target, too."""

    targets: Mapping[str, str]
    """By id of a target and of a node merged into one: the id of the target."""
    items: Mapping[str, Sequence[Object]]
    """By id of a target: the objects that name it, ordered by id."""
    links: Mapping[str, Sequence[Link]]
    """By id of a target and of a node merged into one: its links."""
    altered: Mapping[str, str] = field(default_factory=dict)

    def fields(self, item: Object, identity: str) -> tuple[str, ...]:
        """Return the fields in which one of `items` names a target."""
        return fields_naming(item, self.names_of(identity))

    def names_of(self, identity: str) -> Collection[str]:
        """Return the ids of a target and of the nodes merged into it."""
        return {one for one, target in self.targets.items() if target == identity}


def read_referring(
    ledger: Ledger, identities: Iterable[str], *, as_of: AsOf = None, with_links: bool = False
) -> Referring:
    """Read the objects that name the targets with these ids, as of a moment, and optionally their links."""
    pending = tuple(dict.fromkeys(identities))
    targets = {identity: identity for identity in pending}
    items: dict[str, dict[str, Object]] = {identity: {} for identity in pending}
    links: dict[str, Sequence[Link]] = {}
    altered: Altered = {}
    while pending:
        request = ObjectRequest(referrers=pending, links=pending if with_links else (), as_of=as_of)
        (found,) = ledger.read([request])
        altered |= found.altered
        links |= found.links
        naming = [(named, found.objects[one]) for named in pending for one in found.referrers.get(named, ())]
        for named, item in naming:
            items[targets[named]][item.id] = item
        merged = {item.id: targets[named] for named, item in naming if is_merged_into(item, named)}
        pending = tuple(identity for identity in merged if identity not in targets)
        targets |= {identity: merged[identity] for identity in pending}
    ordered = {identity: [item for _, item in sorted(found.items())] for identity, found in items.items()}
    return Referring(targets, ordered, links, altered)


def knowledge_on(call: Call, sources: Iterable[str], altered: Altered | None = None) -> list[Knowledge]:
    """Read the knowledge that cites some sources, whatever its status. Damaged objects are noted in `altered`."""
    ids = tuple(dict.fromkeys(sources))
    if not ids:
        return []
    (read,) = call.engine.ledger.read([ObjectRequest(dependents=ids)])
    if altered is not None:
        altered |= read.altered
    named = (read.objects.get(identity) for source_id in ids for identity in read.dependents.get(source_id, ()))
    return list({item.id: item for item in named if isinstance(item, Knowledge)}.values())


def is_merged_into(item: Object, identity: str) -> bool:
    """Return whether an object is a node that was merged into another."""
    return isinstance(item, Node) and item.merged_into == identity
