"""What a space knows of a repository beside its files: decisions, rules, facts, and work done or to be done."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from treering.core.filters import And, Compare
from treering.core.knowledge_payloads import Fact
from treering.core.lifecycle import is_current, is_over
from treering.core.objects import Activity, Knowledge, Object, WorkItem
from treering.memories.wiki.repository.files import RepositoryFiles
from treering.ports.ledger import Ledger, Selection

_STATED = ("decision", "constraint", "procedure", "preference")
_MOST = 200
"""Objects of a kind that are told of."""


@dataclass(frozen=True)
class KnownObjects:
    """Objects that a page may tell of, each kind in the order in which a reader wants it."""

    stated: Sequence[Knowledge] = ()
    """Decisions, constraints, procedures and preferences, by title."""
    facts: Sequence[Knowledge] = ()
    """Facts that rest on files of the repository, by path and title."""
    activities: Sequence[Activity] = ()
    """Newest first."""
    work: Sequence[WorkItem] = ()
    """Work that is not done, by priority and title."""

    def resting_on(self, source_ids: Collection[str]) -> list[Knowledge]:
        """Return what is stated and rests on some sources."""
        return [one for one in self.stated if _sources_of(one) & set(source_ids)]


_PRIORITY = {"urgent": 0, "high": 1, "normal": 2, "low": 3}


def read_known(ledger: Ledger, scope: str, files: RepositoryFiles, *, now: datetime) -> KnownObjects:
    """Read what is current at a scope, as far as it does not rest on files of another repository alone."""
    known = [one for one in _selected(ledger, scope, "knowledge") if isinstance(one, Knowledge)]
    current = [one for one in known if is_current(one) and not is_over(one, now=now)]
    own = [one for one in current if _is_of(one, files)]
    stated = sorted((one for one in own if one.kind in _STATED), key=lambda one: (one.title, one.id))
    facts = [one for one in own if isinstance(one.payload, Fact) and _sources_of(one)]
    done = [one for one in _selected(ledger, scope, "activity") if isinstance(one, Activity) and is_current(one)]
    work = [one for one in _selected(ledger, scope, "work_item") if isinstance(one, WorkItem) and _is_open(one, now)]
    return KnownObjects(
        stated=stated[:_MOST],
        facts=sorted(facts, key=lambda one: (_path(one, files), one.title, one.id)),
        activities=sorted(done, key=lambda one: (_when(one), one.title, one.id), reverse=True)[:_MOST],
        work=sorted(work, key=lambda one: (_PRIORITY[one.priority], one.title, one.id))[:_MOST],
    )


def facts_of(known: KnownObjects, source_ids: Mapping[str, object]) -> list[Fact]:
    """Return the facts that rest on some sources."""
    found = (one for one in known.facts if any(ref.source_id in source_ids for ref in one.evidence_refs))
    return [one.payload for one in found if isinstance(one.payload, Fact)]


def _selected(ledger: Ledger, scope: str, kind: str) -> Iterable[Object]:
    return ledger.select(Selection(scope=scope, types=(kind,), where=And((Compare("type", "eq", kind),))), altered={})


def _is_of(item: Knowledge, files: RepositoryFiles) -> bool:
    sources = _sources_of(item)
    return not sources or any(one in files.by_id for one in sources)


def _sources_of(item: Knowledge) -> set[str]:
    return {ref.source_id for ref in item.evidence_refs}


def _path(item: Knowledge, files: RepositoryFiles) -> str:
    return min((files.by_id[one].path for one in _sources_of(item) if one in files.by_id), default="")


def _is_open(item: WorkItem, now: datetime) -> bool:
    return is_current(item) and not is_over(item, now=now) and item.status in ("open", "in_progress", "blocked")


def _when(item: Activity) -> datetime:
    return item.ended_at or item.started_at or item.created_at
