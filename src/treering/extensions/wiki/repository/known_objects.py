"""Knowledge, activities and open work of a space about one repository."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from treering.core.filters import And, Compare
from treering.core.objects import Activity, Fact, Knowledge, Node, Object, WorkItem
from treering.core.policy import is_current, is_over
from treering.extensions.wiki.own_pages import DESCRIBED, PREFIX
from treering.extensions.wiki.repository.files import RepositoryFiles
from treering.ports.ledger import Ledger, ObjectRequest, Selection
from treering.verbs.trees import standing_knowledge

_STATED = ("decision", "constraint", "procedure", "preference")
_Standing = Literal["in force", "in files", "proposed", "stale", "withdrawn"]
_MOST = 200
"""The maximum number of objects of each kind."""
_PRIORITY = {"urgent": 0, "high": 1, "normal": 2, "low": 3}
_FILES = ("repo:", "file:")


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A node that knowledge is about."""

    name: str
    slug: str
    sources: frozenset[str] = frozenset()
    """The ids of the files of the repository that represent it."""
    is_elsewhere: bool = False
    """Whether only files of other repositories represent it."""


@dataclass(frozen=True)
class KnownObjects:
    """Objects shown on pages, each kind in its display order."""

    stated: Sequence[Knowledge] = ()
    """Decisions, constraints, procedures and preferences in force or contested, by title."""
    in_files: Sequence[Knowledge] = ()
    """The same kinds of knowledge, stated in files of the repository and not confirmed."""
    proposed: Sequence[Knowledge] = ()
    """Other candidates, such as statements of agents and conversations."""
    stale: Sequence[Knowledge] = ()
    """Knowledge that was in force until its evidence was lost."""
    facts: Sequence[Knowledge] = ()
    """Facts that are in force or read from files, with evidence in files of the repository, by path and title."""
    described: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Accepted descriptions of edited pages, by the folder and the title of the page."""
    activities: Sequence[Activity] = ()
    """Finished ones, newest first."""
    work: Sequence[WorkItem] = ()
    """Unfinished work, by priority and title."""
    subjects: Mapping[str, KnownSubject] = field(default_factory=dict)
    """The nodes that knowledge refers to, by the id in the reference."""

    def subjects_of(self, item: Knowledge) -> list[KnownSubject]:
        """Return the nodes that an entry is about, each once."""
        return list(dict.fromkeys(self.subjects[ref] for ref in item.subject_refs if ref in self.subjects))

    def about(self, source_ids: Collection[str], matches: Callable[[KnownSubject], bool]) -> list[Knowledge]:
        """Return the knowledge with evidence in some sources, or about matching nodes."""
        return [
            one for one in self.stated if _sources_of(one) & set(source_ids) or any(map(matches, self.subjects_of(one)))
        ]


def read_known(ledger: Ledger, scope: str, files: RepositoryFiles, *, now: datetime) -> KnownObjects:
    """Read the current objects and stale knowledge of a scope, without those only about other repositories.

    Statements of a person and knowledge from conversations belong to every repository of the scope, unless they refer
    only to nodes of others.
    """
    known = [one for one in _selected(ledger, scope, "knowledge") if isinstance(one, Knowledge)]
    shown = [one for one in known if (is_current(one) or one.status == "stale") and not is_over(one, now=now)]
    current = standing_knowledge(ledger, shown)
    subjects = _subjects(ledger, current, files)
    foreign = _foreign(ledger, current, files)
    own = [one for one in current if _is_of(one, files, subjects, foreign)]
    by_standing: dict[_Standing, list[Knowledge]] = defaultdict(list)
    for one in sorted((one for one in own if one.kind in _STATED), key=lambda one: (one.title, one.id)):
        by_standing[_standing(one, files)].append(one)
    facts = [one for one in own if isinstance(one.payload, Fact) and _sources_of(one) & files.by_id.keys()]
    facts = [one for one in facts if _standing(one, files) in ("in force", "in files")]
    done = [
        one for one in _selected(ledger, scope, "activity") if isinstance(one, Activity) and one.status == "finalized"
    ]
    work = [one for one in _selected(ledger, scope, "work_item") if isinstance(one, WorkItem) and _is_open(one, now)]
    return KnownObjects(
        stated=by_standing["in force"][:_MOST],
        in_files=by_standing["in files"][:_MOST],
        proposed=by_standing["proposed"][:_MOST],
        stale=by_standing["stale"][:_MOST],
        facts=sorted(facts, key=lambda one: (_path(one, files), one.title, one.id)),
        described=dict(_descriptions(ledger, current, files)),
        activities=sorted(done, key=lambda one: (when_done(one), one.title, one.id), reverse=True)[:_MOST],
        work=sorted(work, key=lambda one: (_PRIORITY[one.priority], one.title, one.id))[:_MOST],
        subjects=subjects,
    )


def _descriptions(
    ledger: Ledger, known: Sequence[Knowledge], files: RepositoryFiles
) -> Iterator[tuple[tuple[str, str], str]]:
    """Return the descriptions that a person wrote into pages of the repository, the first of a page last."""
    facts = [one for one in known if isinstance(one.payload, Fact) and one.payload.predicate == DESCRIBED]
    accepted = [one for one in facts if is_current(one)]  # a reviewer applied them, else they would not be stored
    heads = ledger.heads(sorted({source for one in accepted for source in _sources_of(one)}))
    for one in sorted(accepted, key=lambda one: one.id, reverse=True):
        for head in (heads[source] for source in _sources_of(one) if source in heads):
            if head.origin.startswith(f"{PREFIX}{files.root}") and isinstance(one.payload, Fact):
                yield (head.origin.rpartition("/")[0].rpartition("/")[2], one.payload.subject), str(one.payload.object)


def _selected(ledger: Ledger, scope: str, kind: str) -> Iterable[Object]:
    return ledger.select(Selection(scope=scope, types=(kind,), where=And((Compare("type", "eq", kind),))), altered={})


def _standing(item: Knowledge, files: RepositoryFiles) -> _Standing:
    if item.status == "stale":
        return "stale" if item.was_active else "withdrawn"
    if item.was_active:
        return "in force"
    return "in files" if item.is_only_read and _sources_of(item) & files.by_id.keys() else "proposed"


def _is_of(
    item: Knowledge,
    files: RepositoryFiles,
    subjects: Mapping[str, KnownSubject],
    foreign: Collection[str],
) -> bool:
    sources = _sources_of(item)
    named = [subjects[ref] for ref in item.subject_refs if ref in subjects]
    if sources & files.by_id.keys() or any(_is_node_of(one, files) for one in named):
        return True
    is_elsewhere = bool(named) and all(one.is_elsewhere for one in named)
    return not is_elsewhere and (not sources or bool(sources - set(foreign)))


def _is_node_of(subject: KnownSubject, files: RepositoryFiles) -> bool:
    slug = str(files.payload.get("slug") or "")
    return bool(subject.sources) or (bool(slug) and (subject.slug == slug or subject.slug.startswith(f"{slug}/")))


def _subjects(ledger: Ledger, known: Sequence[Knowledge], files: RepositoryFiles) -> dict[str, KnownSubject]:
    """Return the nodes that knowledge refers to, by the id in the reference."""
    refs = list(dict.fromkeys(ref for one in known for ref in one.subject_refs))
    nodes = _nodes(ledger, refs)
    merged = _nodes(ledger, [one.merged_into for one in nodes.values() if one.merged_into])
    subjects: dict[str, KnownSubject] = {}
    for ref, named in nodes.items():
        node = merged.get(named.merged_into or "", named)
        tied = {link.source for link in ledger.links(node.id) if link.type == "about" and link.target == node.id}
        own = frozenset(tied & files.by_id.keys())
        others = {head.origin for head in ledger.heads(list(tied - own)).values() if head.status != "archived"}
        elsewhere = not own and any(_is_foreign(origin, files) for origin in others)
        subjects[ref] = KnownSubject(node.name, node.slug, own, elsewhere)
    return subjects


def _nodes(ledger: Ledger, ids: Sequence[str]) -> dict[str, Node]:
    (read,) = ledger.read([ObjectRequest(objects=tuple(ids))])
    return {identity: item for identity, item in read.objects.items() if isinstance(item, Node)}


def _foreign(ledger: Ledger, known: Sequence[Knowledge], files: RepositoryFiles) -> frozenset[str]:
    """Return the ids of the evidence sources that are files of other repositories or folders."""
    ids = sorted({source for one in known for source in _sources_of(one)} - files.by_id.keys())
    return frozenset(head.id for head in ledger.heads(ids).values() if _is_foreign(head.origin, files))


def _is_foreign(origin: str, files: RepositoryFiles) -> bool:
    """Return whether an origin is a file of another repository."""
    place = origin.removeprefix(PREFIX)
    is_here = place.startswith(files.root) or place == files.root.rstrip("#/")
    return place.startswith(_FILES) and not is_here


def _sources_of(item: Knowledge) -> set[str]:
    return {ref.source_id for ref in item.evidence_refs}


def _path(item: Knowledge, files: RepositoryFiles) -> str:
    return min((files.by_id[one].path for one in _sources_of(item) if one in files.by_id), default="")


def _is_open(item: WorkItem, now: datetime) -> bool:
    return is_current(item) and not is_over(item, now=now) and item.status in ("open", "in_progress", "blocked")


def when_done(item: Activity) -> datetime:
    """Return the time of an activity."""
    return item.ended_at or item.started_at or item.created_at
