"""The verb `lint`: find drift and repair it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from treering.core.audit import Anchor
from treering.core.diff import ObjectChange, changes_of
from treering.core.errors import TreeringError
from treering.core.policy import needs_review
from treering.core.times import render_time
from treering.tools.envelope import Call, Mode, Report, Tool, Value
from treering.tools.rules import semantic, structure
from treering.tools.rules.survey import Finding, Survey, survey
from treering.tools.submission import build_patch

Rule = Callable[[Survey], Iterator[Finding]]
_ORDER = {"error": 0, "warning": 1, "info": 2}


class LintInput(Value):
    """Which rules; all of the mode when none is named."""

    rules: tuple[str, ...] = Field(default=(), description="Rule names such as `stale`; empty: all.")


class LintOptions(Value):
    """How much to show."""

    limit: int = Field(default=200, ge=1, le=10_000, description="At most so many findings.")


class LintReport(Report):
    """Findings, worst first, with counts of all."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    """Findings per rule, also those beyond the limit."""
    silenced: dict[str, str] = Field(default={}, description="Rules the policy keeps quiet, and why.")


def lint_structure(call: Call, given: LintInput, options: LintOptions) -> LintReport:
    """Find broken form."""
    return _lint(call, "structure", structure.RULES, given, options)


def lint_semantic(call: Call, given: LintInput, options: LintOptions) -> LintReport:
    """Find drifted meaning."""
    return _lint(call, "semantic", semantic.RULES, given, options)


class RepairOptions(LintOptions):
    """Repairs change nothing unless told to."""

    apply: bool = Field(default=False, description="Apply the fixes, each as a patch.")


class Repair(Value):
    """One fix: what it would change or has changed, or why it could not."""

    rule: str
    ids: tuple[str, ...]
    summary: str
    outcome: Literal["planned", "applied", "proposed", "failed"]
    diff: tuple[ObjectChange, ...] = ()
    patch_id: str = ""
    why: str = ""


class RepairReport(Report):
    """Every fix the findings carry."""

    repairs: tuple[Repair, ...]


def repair(call: Call, given: LintInput, options: RepairOptions) -> RepairReport:
    """Show, or with `apply` carry out, the fixes that findings carry. One that fails hides no other."""
    seen = survey(call.engine.ledger, scope=call.scope, now=call.engine.clock.now())
    findings = _chosen(_findings((*structure.RULES, *semantic.RULES), seen), given.rules)
    fixable = [finding for finding in findings if finding.fix][: options.limit]
    repairs = tuple(_repair(call, finding, apply=options.apply) for finding in fixable)
    failed = sum(one.outcome == "failed" for one in repairs)
    return RepairReport(
        verb="lint",
        mode="repair",
        scope=call.scope,
        status="unchanged" if not options.apply or not repairs else "partial" if failed else "ok",
        ids=tuple(dict.fromkeys(identity for one in repairs for identity in one.ids)),
        repairs=repairs,
    )


class ReindexOptions(Value):
    """Reindexing verifies unless told to rebuild."""

    apply: bool = Field(default=False, description="Rebuild the passages; false: compare only.")
    wait: bool = Field(default=False, description="Also make all vectors that wait.")


class ReindexReport(Report):
    """What the projections looked like, and what was made anew."""

    differences: tuple[str, ...]
    rebuilt: int = 0
    pending_vectors: int = 0


def reindex(call: Call, _given: LintInput, options: ReindexOptions) -> ReindexReport:
    """Compare projections with a rebuild, or rebuild them; vectors that wait are made in the background."""
    index = call.engine.index
    differences = tuple(index.differences())
    rebuilt = index.rebuild() if options.apply else 0
    if options.wait:
        call.engine.vectoriser.finish(call.engine.progress)
    else:
        call.engine.vectoriser.start()
    return ReindexReport(
        verb="lint",
        mode="reindex",
        scope=call.scope,
        status="ok" if options.apply or not differences else "partial",
        warnings=() if options.apply or not differences else ("The index differs: run again with options.apply.",),
        differences=differences,
        rebuilt=rebuilt,
        pending_vectors=index.lag().pending,
    )


class AuditInput(Value):
    """Whose history to print; nothing: the newest changes."""

    id: str | None = Field(default=None, description="An object or patch id.")
    after: int = Field(default=0, ge=0, description="Print events after this sequence number.")


class AuditReport(Report):
    """The head of the verified log, and who changed what and why."""

    head: Anchor | None
    verified: bool
    problem: str = ""
    differences: tuple[str, ...]
    events: tuple[str, ...]


def audit(call: Call, given: AuditInput, options: LintOptions) -> AuditReport:
    """Verify the log against its anchor and the ledger against the log; print changes."""
    ledger = call.engine.ledger
    head, problem = None, ""
    try:
        head = ledger.verify()
    except TreeringError as error:
        problem = f"{error.message} {error.hint}"
    events = ledger.events_of(given.id) if given.id else list(ledger.events(after=given.after))
    lines = tuple(
        f"{event.seq} {render_time(event.timestamp)} {event.actor} ({event.channel}) {event.event_type} "
        f"{event.target}" + (f": {event.reason}" if event.reason else "")
        for event in events[-options.limit :]
    )
    return AuditReport(
        verb="lint",
        mode="audit",
        scope=call.scope,
        status="failed" if problem else "ok",
        head=head,
        verified=not problem,
        problem=problem,
        differences=tuple(call.engine.index.differences()),
        events=lines,
    )


def _lint(
    call: Call,
    mode: Literal["structure", "semantic"],
    rules: Sequence[Rule],
    given: LintInput,
    options: LintOptions,
) -> LintReport:
    ledger = call.engine.ledger
    seen = survey(ledger, scope=call.scope, now=call.engine.clock.now())
    silenced = ledger.policy.silenced_rules
    found = [one for one in _chosen(_findings(rules, seen), given.rules) if one.rule not in silenced]
    found.sort(key=lambda one: (_ORDER[one.severity], one.rule, one.ids))
    counts: dict[str, int] = {}
    for one in found:
        counts[one.rule] = counts.get(one.rule, 0) + 1
    shown = tuple(found[: options.limit])
    return LintReport(
        verb="lint",
        mode=mode,
        scope=call.scope,
        status="ok" if found else "empty",
        ids=tuple(dict.fromkeys(identity for one in shown for identity in one.ids)),
        findings=shown,
        counts=counts,
        silenced=silenced,
    )


def _findings(rules: Iterable[Rule], seen: Survey) -> Iterator[Finding]:
    for rule in rules:
        yield from rule(seen)


def _chosen(findings: Iterable[Finding], rules: Sequence[str]) -> list[Finding]:
    return [finding for finding in findings if not rules or finding.rule in rules]


def _repair(call: Call, finding: Finding, *, apply: bool) -> Repair:
    ledger = call.engine.ledger
    patch = build_patch(call, finding.fix, verb="lint", reason=f"{finding.rule}: {finding.fix_summary}")
    common = {"rule": finding.rule, "ids": finding.ids, "summary": finding.fix_summary}
    try:
        diff = changes_of(ledger.preview(patch).writes)
        if not apply:
            return Repair(**common, outcome="planned", diff=diff)
        if needs_review(patch, ledger.policy):
            return Repair(**common, outcome="proposed", diff=diff, patch_id=ledger.propose(patch).id)
        return Repair(**common, outcome="applied", diff=diff, patch_id=ledger.commit(patch).patch_id)
    except TreeringError as error:
        return Repair(**common, outcome="failed", why=f"{error.message} {error.hint}")


TOOL = Tool(
    name="lint",
    summary="Find drift: broken references, contradictions, stale beliefs; repair; verify audit and indexes.",
    modes={
        mode.name: mode
        for mode in (
            Mode("structure", "Broken form.", LintInput, LintOptions, LintReport, lint_structure),
            Mode("semantic", "Drifted meaning.", LintInput, LintOptions, LintReport, lint_semantic),
            Mode("repair", "Apply the fixes findings carry.", LintInput, RepairOptions, RepairReport, repair),
            Mode("reindex", "Verify or rebuild projections.", LintInput, ReindexOptions, ReindexReport, reindex),
            Mode(
                "audit", "Verify the audit log; who changed what and why.", AuditInput, LintOptions, AuditReport, audit
            ),
        )
    },
)
