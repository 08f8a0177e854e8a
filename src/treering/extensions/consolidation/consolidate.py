"""`lint` in mode `consolidate`: archive duplicates, runs of similar activities, old decisions, and entries over budget.

Nothing is deleted. Each group is archived by one patch, which is shown, proposed or applied, and can be reverted.
Objects that a person wrote or confirmed, and evidence of current knowledge, are never archived.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Literal

from pydantic import Field

from treering.core.canonical import canonical_json, digest
from treering.core.characters import label
from treering.core.errors import TreeringError
from treering.core.objects import Object, title_of
from treering.core.patch import Receipt, shortened
from treering.core.policy import needs_review
from treering.extensions.consolidation.budget import MEGABYTE, BudgetPlan, BudgetReport
from treering.extensions.consolidation.redundant_groups import Group, GroupFinder, Kind
from treering.ports.runtime import check_between_steps
from treering.retrieval.index.passages import passages_of
from treering.verbs.crystallize.submission import build_patch
from treering.verbs.envelope import DECIDES, Call, Mode, Report, Value
from treering.verbs.lint.survey import Survey
from treering.verbs.scoped_ledger import whole

Outcome = Literal["planned", "proposed", "applied", "known", "failed"]

_QUOTED_CHARS = 500
_MAX_SHOWN = 10
"""Archived objects of a group that its text shows."""


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


class ConsolidateReport(Report):
    """Groups, the most certain kinds first, with counts of all groups found."""

    groups: tuple[Consolidated, ...]
    counts: dict[str, int]
    """Objects found, by kind, also those beyond the limit."""
    protected: int = 0
    """Duplicates that stay: written by a person, or evidence of current knowledge."""
    budget: BudgetReport | None = None

    def text_lines(self) -> Iterator[str]:
        """Yield each group with both sides, then the budget, and the next command."""
        if not self.groups:
            yield "Nothing to consolidate."
        for one in self.groups:
            yield from _lines_of_group(one)
        if self.protected:
            yield f"{self.protected} duplicates stay: a person wrote them, or something current is based on them."
        if budget := self.budget:
            yield (
                f"Passages: {budget.passages} → {budget.passages_after}; text: {budget.bytes / 1e6:.1f} → "
                f"{budget.bytes_after / 1e6:.1f} MB; {budget.protected} objects are never archived."
            )
        outcomes = {one.outcome for one in self.groups}
        if "planned" in outcomes:
            yield "Nothing was changed; --propose submits it for review, --apply makes the changes."
        if "applied" in outcomes:
            yield "Undo a group with: treering revert PATCH"


def _lines_of_group(one: Consolidated) -> Iterator[str]:
    yield f"{one.outcome} {one.kind}: {one.why}" + (f"  {one.patch_id}" if one.patch_id else "")
    for item in one.gone[:_MAX_SHOWN]:
        yield f"  - {_shown(item)}"
    if len(one.gone) > _MAX_SHOWN:
        yield f"  and {len(one.gone) - _MAX_SHOWN} more"
    if one.kept:
        yield f"  = {_shown(one.kept)}"
    if one.problem:
        yield f"  {label(one.problem, most=_QUOTED_CHARS)}"


def _shown(item: Quoted) -> str:
    return f"{label(item.text or item.title, most=_QUOTED_CHARS)}  {item.id}"


def consolidate(call: Call, given: ConsolidateInput, options: ConsolidateOptions) -> ConsolidateReport:
    """Find groups to archive, and show, propose or apply them. Groups that were decided on are not proposed again."""
    seen = Survey(whole(call.engine.ledger), call.engine.clock.now(), call.scope)
    finder = GroupFinder(call, seen, {item.id: item for item in chain.from_iterable(seen.batches())})
    groups = [group for kind in dict.fromkeys(given.kinds) for group in finder.find(kind)]
    shown = groups[: options.limit]
    done = [_execute(call, group, options) for group in shown]
    budget = None
    if options.keep_passages is not None or options.keep_mb is not None:
        gone = {item.id for group in shown for item in group.gone}
        plan = BudgetPlan(finder, gone, max_passages=options.keep_passages, max_megabytes=options.keep_mb)
        done += [_execute(call, group, options) for group in plan.groups]
        groups += plan.groups
        budget = plan.report
    counts: dict[str, int] = {}
    for group in groups:
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
        or (options.keep_mb is not None and budget.bytes_after > options.keep_mb * MEGABYTE)
    )
    return ("Still over budget: the remaining entries are never archived (see budget.protected).",) if over else ()


def _execute(call: Call, group: Group, options: ConsolidateOptions) -> Consolidated:
    check_between_steps()
    fields = {
        "kind": group.kind,
        "kept": _quoted(group.kept) if group.kept else None,
        "gone": tuple(map(_quoted, group.gone)),
        "why": group.why,
    }
    if not options.propose and not options.apply:
        return Consolidated(**fields, outcome="planned")
    ledger = call.engine.ledger
    # No text of the objects: the reason outlives a later erasure.
    reason = f"consolidate: {group.why}" + (f" as {group.kept.id}" if group.kept else "")
    ids = [group.kept.id if group.kept and group.kind != "activities" else "", *sorted(one.id for one in group.gone)]
    # The same group is decided on once; a budget may archive a restored object again.
    key = None if group.kind == "budget" else f"consolidate {digest(canonical_json([group.kind, *ids]))}"
    try:
        patch = build_patch(call, group.operations, verb="lint", reason=reason)
        if options.apply and not needs_review(patch, ledger.policy):
            receipt: Receipt = ledger.commit(patch, idempotency_key=key)
            outcome: Outcome = "known" if receipt.replayed else "applied"
            return Consolidated(**fields, outcome=outcome, patch_id=receipt.patch_id)
        by_rules = patch.source.model_copy(update={"actor": f"consolidation for {patch.source.actor}"[:200]})
        record = ledger.propose(patch.model_copy(update={"source": by_rules}), idempotency_key=key)
        return Consolidated(**fields, outcome="proposed" if record.id == patch.id else "known", patch_id=record.id)
    except TreeringError as error:
        check_between_steps()
        return Consolidated(**fields, outcome="failed", problem=f"{error.message} {error.hint}")


def _quoted(item: Object) -> Quoted:
    text = "\n".join(one.text for one in passages_of(item))
    return Quoted(id=item.id, title=title_of(item), text=shortened(text, _QUOTED_CHARS))


CONSOLIDATE = Mode.of(
    "consolidate",
    "Merge duplicates, runs of similar activities and old decisions; archive entries over budget. Reversible.",
    consolidate,
    rights=DECIDES,
    repeatable=True,
)
