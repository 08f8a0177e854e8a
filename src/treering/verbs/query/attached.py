"""Nodes that a task names, and the objects attached to them: they belong to the task even if they share no word."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from treering.core.filters import And, Compare
from treering.core.objects import Activity, Knowledge, Node, Object, WorkItem
from treering.ports.ledger import Altered, Ledger, ObjectRequest, ObjectsFound, head_of
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import NamePart, TextFound, TextRequest
from treering.retrieval.index.passages import is_shown, may_be_packed
from treering.retrieval.index.rounds import Steps
from treering.retrieval.packing.task_results import Attached
from treering.retrieval.search.question import Question
from treering.verbs.query.referring import Referring, read_referring

_CANDIDATES = 32
_MAX_NODES = 4
_MAX_ATTACHED = 16
_MIN_CHARS_IN_ANY_CASE = 3
"""Shorter names are matched with their case: in another case they are words of some language."""

_ID = re.compile(r"\bnode:[0-9a-z]{26}\b")
_KINDS = ("constraint", "decision", "procedure", "preference", "work", "fact", "summary", "activity", "done")
_DONE = frozenset({"resolved", "closed", "cancelled"})
_ATTACHED_PREFIXES = frozenset({"know", "act", "work"})


def named_nodes(question: Question, reach: Reach, altered: Altered) -> Steps[list[Node]]:
    """Find the nodes that a task names, by id, name, slug or alias; the longest names first."""
    only = replace(reach, where=And((reach.where, Compare("type", "eq", "node"))))
    names = tuple(map(NamePart, question.terms.identifiers))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(only, _CANDIDATES, words=words, names=names)
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names))
    ids = list(dict.fromkeys(_ID.findall(question.text)))[:_MAX_NODES]
    if keys:
        found: PassagesFound = yield PassageRequest(tuple(keys))
        ids += [found.heads[key].object_id for key in keys if key in found.heads]
    if not ids:
        return []
    read: ObjectsFound = yield ObjectRequest(objects=tuple(dict.fromkeys(ids)), as_of=reach.at)
    altered |= read.altered
    nodes = [item for item in read.objects.values() if isinstance(item, Node) and is_shown(head_of(item), reach)]
    named = [(len(name), node) for node in nodes if (name := _named_in(question.text, node))]
    return [node for _, node in sorted(named, key=lambda one: (-one[0], one[1].id))][:_MAX_NODES]


def attached_to(ledger: Ledger, nodes: Sequence[Node], reach: Reach, altered: Altered) -> list[Attached]:
    """Read the knowledge, work and activities in reach that name a node or are linked to it."""
    if not nodes:
        return []
    naming = read_referring(ledger, [node.id for node in nodes], as_of=reach.at, with_links=True)
    altered |= naming.altered
    linked = {node.id: _linked(naming, node.id) for node in nodes}
    wanted = dict.fromkeys(identity for ids in linked.values() for identity in ids)
    (read,) = ledger.read([ObjectRequest(objects=tuple(wanted), as_of=reach.at)])
    altered |= read.altered
    attached = []
    for node in nodes:
        near = [read.objects[identity] for identity in linked[node.id] if identity in read.objects]
        items = _shown([*naming.items[node.id], *near], reach)
        attached.append(Attached(node, items[:_MAX_ATTACHED], max(0, len(items) - _MAX_ATTACHED)))
    return attached


def _named_in(text: str, node: Node) -> str:
    """Return the longest name of a node that a text contains as whole words; empty if there is none."""
    names = sorted({node.id, node.name, node.slug, *node.aliases}, key=lambda name: (-len(name), name))
    return next((name for name in names if name.strip() and _contains_word(text, name)), "")


def _contains_word(text: str, name: str) -> bool:
    flags = re.IGNORECASE if len(name) >= _MIN_CHARS_IN_ANY_CASE else re.NOFLAG
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags) is not None


def _linked(naming: Referring, identity: str) -> list[str]:
    links = [link for one in naming.names_of(identity) for link in naming.links.get(one, ())]
    ends = dict.fromkeys(end for link in links for end in (link.source, link.target))
    return [end for end in ends if end.partition(":")[0] in _ATTACHED_PREFIXES]


def _shown(items: Iterable[Object], reach: Reach) -> list[Object]:
    unique = {item.id: item for item in items if isinstance(item, Knowledge | Activity | WorkItem)}
    shown = [item for item in unique.values() if may_be_packed(item, reach)]
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
