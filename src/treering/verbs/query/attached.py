"""What is attached to the nodes that a task names: it belongs to the task, whatever words it has."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from treering.core.filters import And, Compare, matches
from treering.core.objects import Activity, Knowledge, Node, Object, WorkItem
from treering.core.patch import Link
from treering.core.writing.integrity import fields_naming
from treering.ports.ledger import Altered, AsOf, Ledger, ObjectRequest, ObjectsFound, head_of
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import NamePart, TextFound, TextRequest
from treering.retrieval.index.passages import is_shown, is_withheld, passages_of, record_of
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.question import Question

# What names an object: everything attached to a node, a work item, a source.


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


_CANDIDATES = 32
_MOST_NODES = 4
_MOST_ATTACHED = 16
_SHORT = 3
"""Names of fewer characters are words of some language, too: these are matched with their case."""

_ID = re.compile(r"\bnode:[0-9a-z]{26}\b")
_KINDS = ("constraint", "decision", "procedure", "preference", "work", "fact", "summary", "activity", "done")
_DONE = frozenset({"resolved", "closed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Attached:
    """What is attached to a node that a task names."""

    node: Node
    items: Sequence[Object]
    """What matters most first: what binds, what is open, what is believed, what was done."""
    left_out: int = 0


def named_nodes(question: Question, reach: Reach, altered: Altered) -> Steps[list[Node]]:
    """Find the nodes that a task names, by id, name, slug or alias; the longest names first."""
    only = replace(reach, where=And((reach.where, Compare("type", "eq", "node"))))
    names = tuple(map(NamePart, question.terms.identifiers))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(only, _CANDIDATES, words=words, names=names)
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names))
    ids = list(dict.fromkeys(_ID.findall(question.text)))[:_MOST_NODES]
    if keys:
        found: PassagesFound = yield PassageRequest(tuple(keys))
        ids += [found.heads[key].object_id for key in keys if key in found.heads]
    if not ids:
        return []
    read: ObjectsFound = yield ObjectRequest(objects=tuple(dict.fromkeys(ids)), as_of=reach.at)
    altered |= read.altered
    nodes = [item for item in read.objects.values() if isinstance(item, Node) and is_shown(head_of(item), reach)]
    named = [(len(name), node) for node in nodes if (name := _named_in(question.text, node))]
    return [node for _, node in sorted(named, key=lambda one: (-one[0], one[1].id))][:_MOST_NODES]


def attached_to(ledger: Ledger, nodes: Sequence[Node], reach: Reach, altered: Altered) -> list[Attached]:
    """Read what names the nodes or is linked to them: knowledge, work and activities that a read may show."""
    if not nodes:
        return []
    naming = read_referring(ledger, [node.id for node in nodes], as_of=reach.at, with_links=True)
    altered |= naming.altered
    linked = {node.id: _linked(naming, node.id) for node in nodes}
    wanted = dict.fromkeys(identity for ids in linked.values() for identity in ids)
    (read,) = ledger.read([ObjectRequest(objects=tuple(wanted), as_of=reach.at)]) if wanted else (None,)
    others = read.objects if read else {}
    altered |= read.altered if read else {}
    found = []
    for node in nodes:
        near = [others[identity] for identity in linked[node.id] if identity in others]
        items = _shown([*naming.items[node.id], *near], reach)
        found.append(Attached(node, items[:_MOST_ATTACHED], max(0, len(items) - _MOST_ATTACHED)))
    return found


def _named_in(text: str, node: Node) -> str:
    """Return the longest name of a node that stands in a text as a word or words; empty where none does."""
    names = sorted({node.id, node.name, node.slug, *node.aliases}, key=lambda name: (-len(name), name))
    return next((name for name in names if name.strip() and _stands_in(text, name)), "")


def _stands_in(text: str, name: str) -> bool:
    flags = re.IGNORECASE if len(name) >= _SHORT else re.NOFLAG
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags) is not None


def _linked(naming: Referring, identity: str) -> list[str]:
    links = [link for one in naming.names_of(identity) for link in naming.links.get(one, ())]
    ends = dict.fromkeys(end for link in links for end in (link.source, link.target))
    return [end for end in ends if end.partition(":")[0] in _BELIEFS]


def _shown(items: Iterable[Object], reach: Reach) -> list[Object]:
    unique = {item.id: item for item in items if isinstance(item, Knowledge | Activity | WorkItem)}
    shown = [
        item
        for item in unique.values()
        if is_shown(head_of(item), reach)
        and not is_withheld(item, reach)
        and matches(reach.where, record_of(passages_of(item)[0]))
    ]
    newest = sorted(shown, key=lambda item: (item.updated_at, item.id), reverse=True)
    return sorted(newest, key=lambda item: _KINDS.index(_rank(item)))


def _rank(item: Object) -> str:
    match item:
        case WorkItem(status=status):
            return "done" if status in _DONE else "work"
        case Activity():
            return "activity"
        case _:
            return item.kind


_BELIEFS = frozenset({"know", "act", "work"})
