"""Find groups of redundant objects: duplicates, runs of similar activities, and old decisions.

Objects that a person wrote or confirmed, and evidence of current knowledge, are in no group.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypeVar

from treering.core.canonical import normalise_text, render_time
from treering.core.evidence import extended
from treering.core.objects import Activity, Decision, Knowledge, Object, Source, WorkItem
from treering.core.patch import TITLE, AddLink, Create, Link, Operation, Transition, Update, shortened
from treering.core.policy import is_current, less_trusted
from treering.extensions.consolidation.repetition import Repetition, repetitions, statement_of
from treering.ports.ledger import Selection
from treering.ports.runtime import check_interrupt
from treering.verbs.crystallize.drafting import draft_activity
from treering.verbs.envelope import Call
from treering.verbs.lint.survey import Survey
from treering.verbs.scoped_ledger import whole

_Type = TypeVar("_Type", bound=Object)
Kind = Literal["exact", "normalised", "contained", "activities", "decisions", "budget"]

_MIN_RUN = 3
"""Similar activities in a row that make a run."""
_MAX_RUN = 100
_OPEN = frozenset({"open", "in_progress", "blocked"})
_TIMES = re.compile(r" \(\d+ times\)$")
_CHANGING = re.compile(r"\b(?=\w*\d)[\w.:/-]+|\d+")
_MOST_CERTAIN = ("exact", "normalised", "contained")
_WHY: Mapping[Kind, str] = {
    "exact": "has the same text",
    "normalised": "has the same text except for case, punctuation and filler words",
    "contained": "contains all of it, and more",
}


@dataclass(frozen=True)
class Group:
    """Objects that one patch archives, and the entry that replaces them."""

    kind: Kind
    gone: tuple[Object, ...]
    why: str
    operations: tuple[Operation, ...]
    kept: Object | None = None


@dataclass
class GroupFinder:
    """Finds groups of objects that may be archived, because another entry replaces them."""

    call: Call
    seen: Survey
    objects: Mapping[str, Object]
    """All objects at and below the scope, by id."""
    protected: int = 0
    _confirmed: dict[str, bool] = field(default_factory=dict)

    def find(self, kind: str) -> Iterator[Group]:
        """Yield the groups of one kind."""
        match kind:
            case "repetitions":
                return self._repetitions()
            case "activities":
                return self._runs()
            case _:
                return self._chains()

    def is_confirmed(self, item: Object) -> bool:
        """Return whether a person wrote, changed or reviewed an object."""
        if getattr(item, "memory_source", "") in ("user_declared", "human_curated") or item.origin_channel == "user":
            return True
        if item.id not in self._confirmed:
            events = whole(self.call.engine.ledger).events_of(item.id)
            self._confirmed[item.id] = any(event.channel == "user" for event in events)
        return self._confirmed[item.id]

    @cached_property
    def relied_on(self) -> Mapping[str, int]:
        """By id of an object, the number of current statements and open work items based on it."""
        counts: dict[str, int] = defaultdict(int)
        everywhere = Selection(descend=True, types=("knowledge", "work_item"))
        for item in self.seen.ledger.select(everywhere, altered=self.seen.altered):
            for identity in dict.fromkeys(_based_on(item)):
                counts[identity] += 1
        return counts

    def _current(self, cls: type[_Type]) -> Iterator[_Type]:
        return (item for item in self.objects.values() if isinstance(item, cls) and is_current(item))

    def may_go(self, item: Object) -> bool:
        """Return whether an object may be archived at all."""
        return item.status != "contested" and not self.relied_on.get(item.id) and not self.is_confirmed(item)

    def _repetitions(self) -> Iterator[Group]:
        stating: list[Knowledge | Source] = [*self._current(Knowledge), *self._current(Source)]
        items = {item.id: item for item in stating}
        stated = [one for one in map(statement_of, stating) if one]
        pairs = sorted(
            repetitions(stated),
            key=lambda one: (_MOST_CERTAIN.index(one.how), one.gone.id, self._order(items[one.kept.id])),
        )
        chosen: dict[str, Repetition] = {}
        for one in pairs:
            check_interrupt()
            gone, kept = items[one.gone.id], items[one.kept.id]
            if gone.id in chosen or kept.id in chosen or not self._may_replace(kept, gone, one):
                continue
            if not self.may_go(gone):
                self.protected += one.how == "contained" or self.is_confirmed(kept)
                continue
            chosen[gone.id] = one
        by_kept: dict[tuple[str, Kind], list[Repetition]] = defaultdict(list)
        for one in chosen.values():
            by_kept[one.kept.id, one.how].append(one)
        for (kept_id, how), ones in by_kept.items():
            yield self._repeated(items[kept_id], [items[one.gone.id] for one in ones], how)

    def _may_replace(self, kept: Object, gone: Object, repetition: Repetition) -> bool:
        """Return whether an object may replace another that it repeats; of two equal ones, only the first may."""
        levels = self.call.engine.ledger.policy.channel_trust
        if less_trusted(kept.origin_channel, gone.origin_channel, levels) or kept.status == "contested":
            return False
        if gone.status == "active" != kept.status or (_flags(kept) and not _flags(gone)):
            return False
        return repetition.how == "contained" or self._order(kept) < self._order(gone)

    def _order(self, item: Object) -> tuple[bool, int, bool, str]:
        return not self.is_confirmed(item), -self.relied_on.get(item.id, 0), item.status != "active", item.id

    def _repeated(self, kept: Object, gone: Sequence[Object], how: Kind) -> Group:
        def operations() -> Iterator[Operation]:
            if how != "contained" and isinstance(kept, Knowledge):
                more = (ref for item in gone if isinstance(item, Knowledge) for ref in item.evidence_refs)
                refs = extended(kept.evidence_refs, more)
                if refs != kept.evidence_refs:
                    yield Update(id=kept.id, expected_revision=kept.revision, changes={"evidence_refs": refs})
            for item in gone:
                yield archived(item)
                yield AddLink(link=Link(type="similar_to", source=item.id, target=kept.id))

        return Group(how, tuple(gone), _WHY[how], tuple(operations()), kept)

    def _runs(self) -> Iterator[Group]:
        by_scope: dict[str, list[Activity]] = defaultdict(list)
        for item in self._current(Activity):
            by_scope[item.scope].append(item)
        for items in by_scope.values():
            run: list[Activity] = []
            for item in sorted(items, key=lambda one: (_when(one), one.id)):
                if run and (_signature(item) != _signature(run[0]) or len(run) == _MAX_RUN):
                    yield from self._run(run)
                    run = []
                if _signature(item) and self.may_go(item):
                    run.append(item)
            yield from self._run(run)

    def _run(self, run: Sequence[Activity]) -> Iterator[Group]:
        if len(run) >= _MIN_RUN:
            made = draft_activity(Call(self.call.engine, run[0].scope), _account(run))
            links = (AddLink(link=Link(type="part_of", source=one.id, target=made.id)) for one in run)
            operations: tuple[Operation, ...] = (Create(object=made), *map(archived, run), *links)
            yield Group("activities", tuple(run), f"{len(run)} similar activities in a row", operations, made)

    def _chains(self) -> Iterator[Group]:
        for item in self._current(Knowledge):
            if isinstance(item.payload, Decision) and item.status == "active":
                first = self._replaced_by(item.id)
                older = [one for one in self._behind(first) if one.id not in first and self.may_go(one)]
                if older:
                    why = "decisions replaced before the last one"
                    yield Group("decisions", tuple(older), why, tuple(map(archived, older)), item)

    def _replaced_by(self, identity: str) -> list[str]:
        links = self.seen.links(identity)
        return [link.target for link in links if link.type == "supersedes" and link.source == identity]

    def _behind(self, ids: Iterable[str]) -> list[Knowledge]:
        older: dict[str, Knowledge] = {}
        pending = [*ids]
        while pending:
            identity = pending.pop(0)
            item = self.objects.get(identity)
            if identity not in older and isinstance(item, Knowledge) and item.status == "superseded":
                older[identity] = item
                pending += self._replaced_by(identity)
        return [*older.values()]


def _based_on(item: Object) -> Iterator[str]:
    """Yield the ids of the objects that a current statement or open work is based on."""
    match item:
        case Knowledge(status="active" | "candidate" | "contested"):
            yield from (ref.source_id for ref in item.evidence_refs)
            yield from item.derived_from
        case WorkItem(lifecycle_state="active") if item.status in _OPEN:
            yield from (*item.source_refs, *item.related_knowledge_refs)
        case _:
            return


def archived(item: Object) -> Transition:
    """Return the operation that archives an object."""
    return Transition(id=item.id, expected_revision=item.revision, to="archived")


def _flags(item: Object) -> bool:
    return isinstance(item, Source) and bool(item.metadata.get("flags"))


def _when(item: Activity) -> datetime:
    return item.ended_at or item.started_at or item.created_at


def _signature(item: Activity) -> tuple[str, ...]:
    """Return the value that activities of a run share; empty for an activity that belongs to no run."""
    if item.status != "finalized" or _TIMES.search(item.title):
        return ()
    title = " ".join(_CHANGING.sub("#", normalise_text(item.title)).split())
    return (item.kind, item.outcome, title)


def _account(run: Sequence[Activity]) -> dict[str, Any]:
    """Return the fields of an activity that lists a whole run by day."""
    lines = (f"- {_when(one):%Y-%m-%d}: {one.title}" + (f". {one.summary}" if one.summary else "") for one in run)
    refs = ("related_node_refs", "related_work_item_refs", "source_refs", "produced_object_refs", "artifact_refs")
    return {
        "kind": run[0].kind,
        "status": "finalized",
        "title": f"{shortened(run[0].title, TITLE - 20)} ({len(run)} times)",
        "summary": "\n".join(lines),
        "started_at": render_time(min(one.started_at or _when(one) for one in run)),
        "ended_at": render_time(max(map(_when, run))),
        "outcome": run[0].outcome,
        **{name: [*dict.fromkeys(ref for one in run for ref in getattr(one, name))] for name in refs},
    }
