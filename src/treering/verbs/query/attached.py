"""Nodes and work that a task names, with the objects attached to them, which may share no word with the task."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from treering.core.filters import And, Compare
from treering.core.objects import Activity, Knowledge, Node, Object, WorkItem
from treering.core.writing.integrity import references_of
from treering.ports.ledger import Altered, Ledger, ObjectRequest, ObjectsFound, head_of
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import NamePart, TextFound, TextRequest
from treering.retrieval.index.passages import is_shown, may_be_packed
from treering.retrieval.index.rounds import Steps
from treering.retrieval.packing.task_results import Attached
from treering.retrieval.search.question import Question
from treering.verbs.query.referring import Referring, read_referring
from treering.verbs.work_order import is_finished

_CANDIDATES = 64
_MAX_NAMED = 4
_MAX_ATTACHED = 16
_MIN_CHARS_IN_ANY_CASE = 3
"""Shorter names are matched with their case: in another case they are words of some language."""

_MIN_WORDS_OF_TITLE = 2
"""Work with a shorter title is only named by its id or its whole title: one word occurs in many tasks."""

_ID = re.compile(r"\b(?:node|work):[0-9a-z]{26}\b")
_KINDS = ("constraint", "decision", "procedure", "preference", "failed", "work", "fact", "summary", "activity", "done")
_ATTACHED_PREFIXES = frozenset({"know", "act", "work"})


def named_objects(
    question: Question, reach: Reach, altered: Altered, *, ids: Sequence[str] = ()
) -> Steps[list[Object]]:
    """Find the nodes that a task names, by id, name, slug or alias, and work, by id or title; the longest names first.

    `ids`: objects that the task is, which come first.
    """
    only = replace(reach, where=And((reach.where, Compare("type", "in", ("node", "work_item")))))
    names = tuple(map(NamePart, question.terms.identifiers))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(only, _CANDIDATES, words=words, names=names)
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names))
    wanted = [*ids, *list(dict.fromkeys(_ID.findall(question.text)))[:_MAX_NAMED]]
    if keys:
        found: PassagesFound = yield PassageRequest(tuple(keys))
        heads = [found.heads[key] for key in keys if key in found.heads]
        # Few candidates are named, so that work is only read if its title may be a name; nodes have further names.
        wanted += [one.object_id for one in heads if one.type == "node" or _titles_in(question.text, one.title)]
    if not wanted:
        return []
    read: ObjectsFound = yield ObjectRequest(objects=tuple(dict.fromkeys(wanted)), as_of=reach.at)
    altered |= read.altered
    given = [read.objects[identity] for identity in ids if identity in read.objects]
    others = (item for item in read.objects.values() if item.id not in ids)
    items = [
        item
        for item in others
        if (is_shown(head_of(item), reach) if isinstance(item, Node) else may_be_packed(item, reach))
    ]
    named = [(len(name), item) for item in items if (name := _named_in(question.text, item))]
    return [*given, *(item for _, item in sorted(named, key=lambda one: (-one[0], one[1].id)))][:_MAX_NAMED]


def attached_to(ledger: Ledger, named: Sequence[Object], reach: Reach, altered: Altered) -> list[Attached]:
    """Read the knowledge, work and activities in reach that refer to an object or are linked to it.

    For work, its own references are included, such as its dependencies.
    """
    if not named:
        return []
    naming = read_referring(ledger, [item.id for item in named], as_of=reach.at, with_links=True)
    altered |= naming.altered
    beside = {item.id: [*_linked(naming, item.id), *_own_references(item)] for item in named}
    wanted = dict.fromkeys(identity for ids in beside.values() for identity in ids)
    (read,) = ledger.read([ObjectRequest(objects=tuple(wanted), as_of=reach.at)])
    altered |= read.altered
    attached = []
    for item in named:
        near = [read.objects[identity] for identity in beside[item.id] if identity in read.objects]
        items = _shown([*naming.items[item.id], *near], reach)
        attached.append(Attached(item, items[:_MAX_ATTACHED], max(0, len(items) - _MAX_ATTACHED)))
    return attached


def _named_in(text: str, item: Object) -> str:
    """Return the longest name of an object that a text contains as whole words; empty if there is none."""
    match item:
        case Node():
            given = {item.id, item.name, item.slug, *item.aliases}
        case WorkItem():
            given = {item.id, *_titles_in(text, item.title)}
        case _:
            return ""
    names = sorted(given, key=lambda name: (-len(name), name))
    return next((name for name in names if name.strip() and _contains_word(text, name)), "")


def _titles_in(text: str, title: str) -> tuple[str, ...]:
    """Return the title of work if a text contains it and it is long enough, or if it is the whole text."""
    is_long = len(title.split()) >= _MIN_WORDS_OF_TITLE
    is_named = title.casefold() == text.strip().casefold() or (is_long and _contains_word(text, title))
    return (title,) if is_named else ()


def _contains_word(text: str, name: str) -> bool:
    flags = re.IGNORECASE if len(name) >= _MIN_CHARS_IN_ANY_CASE else re.NOFLAG
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags) is not None


def _linked(naming: Referring, identity: str) -> list[str]:
    links = [link for one in naming.names_of(identity) for link in naming.links.get(one, ())]
    ends = dict.fromkeys(end for link in links for end in (link.source, link.target))
    return [end for end in ends if end.partition(":")[0] in _ATTACHED_PREFIXES]


def _own_references(item: Object) -> list[str]:
    if not isinstance(item, WorkItem):
        return []
    refs = (item.parent_ref or "", *references_of(item))
    return [ref for ref in refs if ref.partition(":")[0] in _ATTACHED_PREFIXES]


def _shown(items: Iterable[Object], reach: Reach) -> list[Object]:
    unique = {item.id: item for item in items if isinstance(item, Knowledge | Activity | WorkItem)}
    shown = [item for item in unique.values() if may_be_packed(item, reach)]
    newest = sorted(shown, key=lambda item: (item.updated_at, item.id), reverse=True)
    return sorted(newest, key=lambda item: _KINDS.index(_rank(item)))


def _rank(item: Object) -> str:
    match item:
        case WorkItem():
            return "done" if is_finished(item) else "work"
        case Activity(outcome=outcome):
            return "failed" if outcome == "failure" else "activity"
        case _:
            return item.kind
