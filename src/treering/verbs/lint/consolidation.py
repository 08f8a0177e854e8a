"""`lint` in mode `consolidate`: what a space says twice, runs of like activities, chains of decisions, and a budget.

Nothing is deleted. What is consolidated is archived, each group by one patch that is shown, proposed or applied, and
that `revert` takes back. Never archived: what a person wrote or confirmed, and what something current rests on.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from treering.core.canonical import canonical_json, digest, normalise_text, render_time
from treering.core.errors import TreeringError
from treering.core.evidence import EvidenceRef
from treering.core.objects import Activity, Decision, Knowledge, Object, Source, WorkItem, title_of
from treering.core.patch import TITLE, AddLink, Create, Link, Operation, Receipt, Transition, Update, shortened
from treering.core.policy import less_trusted, needs_review
from treering.ports.runtime import check_between_steps, check_interrupt
from treering.retrieval.index.passages import passages_of
from treering.verbs.crystallize.drafting import draft_activity
from treering.verbs.crystallize.submission import build_patch
from treering.verbs.envelope import DECIDES, Call, Mode, Report, Value
from treering.verbs.feedback import uses
from treering.verbs.lint.repetition import Repetition, repetitions, statement_of
from treering.verbs.lint.survey import Survey, survey
from treering.verbs.scoped_ledger import whole

Kind = Literal["exact", "normalised", "contained", "activities", "decisions", "budget"]
Outcome = Literal["planned", "proposed", "applied", "known", "failed"]

_QUOTED = 500
_RUN = 3
"""Like activities in a row that make a run."""
_LONGEST_RUN = 100
_AT_ONCE = 200
"""Objects that one patch of a budget archives."""
_MEGABYTE = 1_000_000
_OPEN = frozenset({"open", "in_progress", "blocked"})
_TIMES = re.compile(r" \(\d+ times\)$")
_CHANGING = re.compile(r"\b(?=\w*\d)[\w.:/-]+|\d+")
_KEPT_OUTSIDE = frozenset({"file", "repo", "markdown", "pdf", "office", "openapi"})
"""Kinds of sources that are read from where they lie: archived, they would come back with the next run."""


class ConsolidateInput(Value):
    """The kinds of groups to look for; empty: all."""

    kinds: tuple[Literal["repetitions", "activities", "decisions"], ...] = Field(
        default=("repetitions", "activities", "decisions"), description="Groups to look for, before any budget."
    )


class ConsolidateOptions(Value):
    """Options of consolidating; without `propose` or `apply`, nothing changes."""

    propose: bool = Field(default=False, description="Propose each group for review, as a patch.")
    apply: bool = Field(default=False, description="Apply each group, as a patch; the policy may require a review.")
    limit: int = Field(default=100, ge=1, le=10_000, description="Maximum number of groups.")
    keep_passages: int | None = Field(
        default=None, ge=0, description="Archive the least used, least cited and oldest entries, down to this number."
    )
    keep_mb: float | None = Field(default=None, ge=0, description="Archive them down to this many megabytes of text.")


class Quoted(Value):
    """An object and its text, up to 500 characters."""

    id: str
    title: str
    text: str


class Consolidated(Value):
    """A consolidated group: the remaining entry, the archived entries, and the state of the patch."""

    kind: Kind
    kept: Quoted | None = None
    gone: tuple[Quoted, ...]
    why: str
    outcome: Outcome
    patch_id: str = Field(default="", description="To undo it: treering revert PATCH. While it is pending: review.")
    problem: str = ""


class BudgetReport(Value):
    """A scope compared to its budget: passages and bytes of text, before and after archiving."""

    passages: int
    bytes: int
    passages_after: int
    bytes_after: int
    protected: int
    """Objects that are never archived: written by a person, evidence of current knowledge, or stored elsewhere."""


class ConsolidateReport(Report):
    """Groups, the most certain kinds first, with counts of all groups found."""

    groups: tuple[Consolidated, ...]
    counts: dict[str, int]
    """Objects found, by kind, also those beyond the limit."""
    protected: int = 0
    """Duplicates that stay: written by a person, or evidence of current knowledge."""
    budget: BudgetReport | None = None


def consolidate(call: Call, given: ConsolidateInput, options: ConsolidateOptions) -> ConsolidateReport:
    """Find what may be said once, and show, propose or carry it out. What was decided on is not proposed again."""
    seen = survey(whole(call.engine.ledger), scope=call.scope, now=call.engine.clock.now())
    finder = _Finder(call, seen)
    found = [group for kind in dict.fromkeys(given.kinds) for group in finder.find(kind)]
    shown = found[: options.limit]
    done = [_carried_out(call, group, options) for group in shown]
    budget = None
    if options.keep_passages is not None or options.keep_mb is not None:
        gone = {item.id for group in shown for item in group.gone}
        plan = _Budget(finder, options, gone)
        done += [_carried_out(call, group, options) for group in plan.groups]
        found += plan.groups
        budget = plan.report
    counts: dict[str, int] = {}
    for group in found:
        counts[group.kind] = counts.get(group.kind, 0) + len(group.gone)
    changed = [one for one in done if one.outcome == "applied"]
    if changed:
        call.engine.vectoriser.start()
    waits = any(one.outcome == "proposed" for one in done)
    failed = any(one.outcome == "failed" for one in done)
    return ConsolidateReport(
        verb="lint",
        mode="consolidate",
        scope=call.scope,
        status="partial" if failed else "ok" if changed else "proposed" if waits else "unchanged",
        warnings=_warnings(budget, options),
        ids=tuple(dict.fromkeys(one.id for group in done for one in group.gone)),
        groups=tuple(done),
        counts=counts,
        protected=finder.protected,
        budget=budget,
    )


def _warnings(budget: BudgetReport | None, options: ConsolidateOptions) -> tuple[str, ...]:
    over = budget and (
        (options.keep_passages is not None and budget.passages_after > options.keep_passages)
        or (options.keep_mb is not None and budget.bytes_after > options.keep_mb * _MEGABYTE)
    )
    return ("Still over budget: the remaining entries are never archived (see budget.protected).",) if over else ()


@dataclass(frozen=True)
class _Group:
    """What one patch does: objects to archive, and what stands for them."""

    kind: Kind
    gone: tuple[Object, ...]
    why: str
    operations: tuple[Operation, ...]
    kept: Object | None = None


# Finding what may be consolidated.


@dataclass
class _Finder:
    call: Call
    seen: Survey
    protected: int = 0
    _confirmed: dict[str, bool] = field(default_factory=dict)

    def find(self, kind: str) -> Iterator[_Group]:
        """Yield the groups of one kind."""
        match kind:
            case "repetitions":
                return self._repetitions()
            case "activities":
                return self._runs()
            case _:
                return self._chains()

    def is_confirmed(self, item: Object) -> bool:
        """Tell whether a person wrote it, changed it or decided on it."""
        if getattr(item, "memory_source", "") in ("user_declared", "human_curated") or item.origin_channel == "user":
            return True
        if item.id not in self._confirmed:
            events = whole(self.call.engine.ledger).events_of(item.id)
            self._confirmed[item.id] = any(event.channel == "user" for event in events)
        return self._confirmed[item.id]

    @cached_property
    def relied_on(self) -> Mapping[str, int]:
        """How many current beliefs and open work items rest on an object, by its id."""
        counts: dict[str, int] = defaultdict(int)
        for item in (*self.seen.objects.values(), *self.seen.elsewhere.values()):
            for identity in dict.fromkeys(_rests_on(item)):
                counts[identity] += 1
        return counts

    def may_go(self, item: Object) -> bool:
        """Tell whether an object may be archived at all."""
        return item.status != "contested" and not self.relied_on.get(item.id) and not self.is_confirmed(item)

    # What is said twice.

    def _repetitions(self) -> Iterator[_Group]:
        stating: list[Knowledge | Source] = [*self.seen.current(Knowledge), *self.seen.current(Source)]
        items = {item.id: item for item in stating}
        stated = [one for one in map(statement_of, stating) if one]
        found = sorted(
            repetitions(stated), key=lambda one: (_SUREST.index(one.how), one.gone.id, self._order(items[one.kept.id]))
        )
        chosen: dict[str, Repetition] = {}
        for one in found:
            check_interrupt()
            gone, kept = items[one.gone.id], items[one.kept.id]
            if gone.id in chosen or kept.id in chosen or not self._stands_for(kept, gone, one):
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

    def _stands_for(self, kept: Object, gone: Object, found: Repetition) -> bool:
        """Tell whether one object may stand for another that it repeats; of two alike only one order is right."""
        levels = self.call.engine.ledger.policy.channel_trust
        if less_trusted(kept.origin_channel, gone.origin_channel, levels) or kept.status == "contested":
            return False
        if gone.status == "active" != kept.status or (_flags(kept) and not _flags(gone)):
            return False
        return found.how == "contained" or self._order(kept) < self._order(gone)

    def _order(self, item: Object) -> tuple[bool, int, bool, str]:
        return not self.is_confirmed(item), -self.relied_on.get(item.id, 0), item.status != "active", item.id

    def _repeated(self, kept: Object, gone: Sequence[Object], how: Kind) -> _Group:
        def operations() -> Iterator[Operation]:
            if how != "contained" and isinstance(kept, Knowledge):
                refs = _joined(kept, gone)
                if refs != kept.evidence_refs:
                    yield Update(id=kept.id, expected_revision=kept.revision, changes={"evidence_refs": refs})
            for item in gone:
                yield _archived(item)
                yield AddLink(link=Link(type="similar_to", source=item.id, target=kept.id))

        return _Group(how, tuple(gone), _WHY[how], tuple(operations()), kept)

    # Activities that are alike and follow each other.

    def _runs(self) -> Iterator[_Group]:
        by_scope: dict[str, list[Activity]] = defaultdict(list)
        for item in self.seen.current(Activity):
            by_scope[item.scope].append(item)
        for items in by_scope.values():
            run: list[Activity] = []
            for item in sorted(items, key=lambda one: (_when(one), one.id)):
                if run and (_likeness(item) != _likeness(run[0]) or len(run) == _LONGEST_RUN):
                    yield from self._run(run)
                    run = []
                if _likeness(item) and self.may_go(item):
                    run.append(item)
            yield from self._run(run)

    def _run(self, run: Sequence[Activity]) -> Iterator[_Group]:
        if len(run) >= _RUN:
            made = draft_activity(Call(self.call.engine, run[0].scope), _account(run))
            links = (AddLink(link=Link(type="part_of", source=one.id, target=made.id)) for one in run)
            operations: tuple[Operation, ...] = (Create(object=made), *map(_archived, run), *links)
            yield _Group("activities", tuple(run), f"{len(run)} similar activities in a row", operations, made)

    # Decisions that were replaced, and replaced again.

    def _chains(self) -> Iterator[_Group]:
        replaced: dict[str, list[str]] = defaultdict(list)
        for link in self.seen.links:
            if link.type == "supersedes":
                replaced[link.source].append(link.target)
        for item in self.seen.current(Knowledge):
            if isinstance(item.payload, Decision) and item.status == "active":
                first = replaced.get(item.id, ())
                older = [one for one in self._behind(first, replaced) if one.id not in first and self.may_go(one)]
                if older:
                    why = "decisions replaced before the last one"
                    yield _Group("decisions", tuple(older), why, tuple(map(_archived, older)), item)

    def _behind(self, ids: Iterable[str], replaced: Mapping[str, Sequence[str]]) -> list[Knowledge]:
        found: dict[str, Knowledge] = {}
        waiting = [*ids]
        while waiting:
            identity = waiting.pop(0)
            item = self.seen.objects.get(identity)
            if identity not in found and isinstance(item, Knowledge) and item.status == "superseded":
                found[identity] = item
                waiting += replaced.get(identity, ())
        return [*found.values()]


_SUREST = ("exact", "normalised", "contained")
_WHY: Mapping[Kind, str] = {
    "exact": "has the same text",
    "normalised": "has the same text except for case, punctuation and filler words",
    "contained": "contains all of it, and more",
}


def _rests_on(item: Object) -> Iterator[str]:
    """Yield the ids of what an object rests on, if it is current belief or open work."""
    match item:
        case Knowledge(status="active" | "candidate" | "contested"):
            yield from (ref.source_id for ref in item.evidence_refs)
            yield from item.derived_from
        case WorkItem(lifecycle_state="active") if item.status in _OPEN:
            yield from (*item.source_refs, *item.related_knowledge_refs)
        case _:
            return


def _joined(kept: Knowledge, gone: Iterable[Object]) -> tuple[EvidenceRef, ...]:
    """Return the evidence of knowledge, with what others that say the same rest on."""
    refs = {(ref.source_id, ref.segment_id, ref.role): ref for ref in kept.evidence_refs}
    for item in gone:
        if isinstance(item, Knowledge):
            for ref in item.evidence_refs:
                refs.setdefault((ref.source_id, ref.segment_id, ref.role), ref)
    return tuple(refs.values())


def _archived(item: Object) -> Transition:
    return Transition(id=item.id, expected_revision=item.revision, to="archived")


def _flags(item: Object) -> bool:
    return isinstance(item, Source) and bool(item.metadata.get("flags"))


def _when(item: Activity) -> datetime:
    return item.ended_at or item.started_at or item.created_at


def _likeness(item: Activity) -> tuple[str, ...]:
    """Return what activities of a run have in common; nothing for one that stands by itself."""
    if item.status != "finalized" or _TIMES.search(item.title):
        return ()
    title = " ".join(_CHANGING.sub("#", normalise_text(item.title)).split())
    return (item.kind, item.outcome, title)


def _account(run: Sequence[Activity]) -> dict[str, Any]:
    """Return the fields of an activity that tells of a whole run, each of it with its day."""
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


# A budget: what is used least, relied on least and oldest is archived first.


class _Budget:
    """What is archived so that a scope keeps to a number of passages, or megabytes of text."""

    def __init__(self, finder: _Finder, options: ConsolidateOptions, gone: set[str]) -> None:
        held = [
            item
            for item in finder.seen.objects.values()
            if item.id not in gone and item.status not in ("archived", "merged")
        ]
        sizes = {item.id: _size(item) for item in held}
        passages = sum(size[0] for size in sizes.values())
        text = sum(size[1] for size in sizes.values())
        may_go = [item for item in held if _may_be_budgeted(item) and finder.may_go(item)]
        most_passages = passages if options.keep_passages is None else options.keep_passages
        most_text = text if options.keep_mb is None else int(options.keep_mb * _MEGABYTE)
        left, left_text, chosen = passages, text, list[Object]()
        used = uses(finder.call.engine.feedback, finder.seen.now)
        for item in sorted(
            may_go, key=lambda one: (_withdrawn_first(one), used.get(one.id, 0.0), one.updated_at, one.id)
        ):
            if left <= most_passages and left_text <= most_text:
                break
            chosen.append(item)
            left, left_text = left - sizes[item.id][0], left_text - sizes[item.id][1]
        self.groups = [_of_budget(chosen[start : start + _AT_ONCE]) for start in range(0, len(chosen), _AT_ONCE)]
        self.report = BudgetReport(
            passages=passages,
            bytes=text,
            passages_after=left,
            bytes_after=left_text,
            protected=len(held) - len(may_go),
        )


def _size(item: Object) -> tuple[int, int]:
    passages = passages_of(item)
    return len(passages), sum(len(one.text.encode()) for one in passages)


def _may_be_budgeted(item: Object) -> bool:
    match item:
        case Source():
            return item.kind not in _KEPT_OUTSIDE and not item.origin.startswith("messages:")
        case Knowledge(kind="summary"):
            return False  # it goes with what it tells of
        case Knowledge():
            return True
        case Activity():
            return item.status == "finalized"
        case _:
            return False


_WITHDRAWN_FIRST = {"superseded": 0, "stale": 0, "candidate": 1, "active": 2}


def _withdrawn_first(item: Object) -> int:
    return _WITHDRAWN_FIRST.get(item.status, 1) if isinstance(item, Knowledge) else 1


def _of_budget(items: Sequence[Object]) -> _Group:
    return _Group("budget", tuple(items), "over the budget of its scope", tuple(map(_archived, items)))


# Carrying a group out.


def _carried_out(call: Call, group: _Group, options: ConsolidateOptions) -> Consolidated:
    check_between_steps()
    told = {
        "kind": group.kind,
        "kept": _quoted(group.kept) if group.kept else None,
        "gone": tuple(map(_quoted, group.gone)),
        "why": group.why,
    }
    if not options.propose and not options.apply:
        return Consolidated(**told, outcome="planned")
    ledger = call.engine.ledger
    # No words of the objects: what is erased later would live on in the reason.
    reason = f"consolidate: {group.why}" + (f" as {group.kept.id}" if group.kept else "")
    ids = [group.kept.id if group.kept and group.kind != "activities" else "", *sorted(one.id for one in group.gone)]
    # The same group again stands for the same decision; a budget may archive again what was brought back.
    key = None if group.kind == "budget" else f"consolidate {digest(canonical_json([group.kind, *ids]))}"
    try:
        patch = build_patch(call, group.operations, verb="lint", reason=reason)
        if options.apply and not needs_review(patch, ledger.policy):
            receipt: Receipt = ledger.commit(patch, idempotency_key=key)
            outcome: Outcome = "known" if receipt.replayed else "applied"
            return Consolidated(**told, outcome=outcome, patch_id=receipt.patch_id)
        by_rules = patch.source.model_copy(update={"actor": f"consolidation for {patch.source.actor}"[:200]})
        record = ledger.propose(patch.model_copy(update={"source": by_rules}), idempotency_key=key)
        return Consolidated(**told, outcome="proposed" if record.id == patch.id else "known", patch_id=record.id)
    except TreeringError as error:
        check_between_steps()
        return Consolidated(**told, outcome="failed", problem=f"{error.message} {error.hint}")


def _quoted(item: Object) -> Quoted:
    text = "\n".join(one.text for one in passages_of(item))
    return Quoted(id=item.id, title=title_of(item), text=shortened(text, _QUOTED))


CONSOLIDATE = Mode(
    "consolidate",
    "Merge duplicates, runs of similar activities and old decisions; archive entries over budget. Reversible.",
    ConsolidateInput,
    ConsolidateOptions,
    ConsolidateReport,
    consolidate,
    rights=DECIDES,
    repeatable=True,
)
