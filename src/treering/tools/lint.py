"""The verb `lint`: find drift and repair it."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from pydantic import Field

from treering.core.audit import Anchor, AuditEvent
from treering.core.diff import ObjectChange, changes_of
from treering.core.errors import InvalidInput, TreeringError, nearest
from treering.core.ids import is_patch
from treering.core.policy import needs_review
from treering.core.scope import ROOT, is_within
from treering.core.times import render_time
from treering.ports.interrupt import check_between_steps, check_interrupt
from treering.tools.envelope import Call, Mode, Report, TextInput, Tool, Value
from treering.tools.reading import behind_warning
from treering.tools.rights import READS, WRITES
from treering.tools.rules import semantic, structure
from treering.tools.rules.survey import Finding, Rule, Survey, survey
from treering.tools.scoped_ledger import scope_of_patch, whole
from treering.tools.submission import build_patch

_EVERY_RULE: Mapping[str, Rule] = {**structure.RULES, **semantic.RULES}
_ORDER = {"error": 0, "warning": 1, "info": 2}
_EVENTS = 500  # of the log, at a time


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
    """Show, or with `apply` carry out, the fixes that findings carry. One that fails hides no other.

    With `apply` it also overwrites what an erasure could not, because others used the space.
    """
    found, seen = _found(call, _EVERY_RULE, given)
    # What an altered object lacks is no reason to change others.
    fixable = [] if seen.altered else [finding for finding in found if finding.fix][: options.limit]
    repairs = tuple(_repair(call, finding, apply=options.apply) for finding in fixable)
    if any(one.outcome == "applied" for one in repairs):
        call.engine.vectoriser.start()
    failed = sum(one.outcome == "failed" for one in repairs)
    left = call.engine.ledger.compact() if options.apply else ()
    return RepairReport(
        verb="lint",
        mode="repair",
        scope=call.scope,
        status="unchanged" if not options.apply or not repairs else "partial" if failed else "ok",
        warnings=(
            *_unknown_silenced(call),
            *([_NOT_REPAIRED] if seen.altered else []),
            *(f"Still to be overwritten after an erasure: {what}." for what in left),
        ),
        ids=tuple(dict.fromkeys(identity for one in repairs for identity in one.ids)),
        repairs=repairs,
    )


class ReindexInput(Value):
    """Nothing: all projections of the space are looked at."""


class ReindexOptions(Value):
    """Reindexing verifies unless told to rebuild."""

    apply: bool = Field(default=False, description="Rebuild the passages; false: compare only.")
    wait: bool = Field(default=False, description="Also make all vectors that wait.")


class ReindexReport(Report):
    """What the projections looked like, and what was made anew."""

    differences: tuple[str, ...]
    rebuilt: int = 0
    pending_vectors: int = 0


def reindex(call: Call, _given: ReindexInput, options: ReindexOptions) -> ReindexReport:
    """Compare projections with a rebuild, or rebuild them; vectors that wait are made in the background."""
    index = call.engine.index
    differences = _told_of_index(call, index.upkeep.differences())
    rebuilt = index.upkeep.rebuild() if options.apply else 0
    if options.wait:
        call.engine.vectoriser.finish(call.engine.progress)
    else:
        call.engine.vectoriser.start()
    lag = index.vectors.lag()
    return ReindexReport(
        verb="lint",
        mode="reindex",
        scope=call.scope,
        status="ok" if options.apply or not differences else "partial",
        warnings=(*behind_warning(lag.behind), *(() if options.apply or not differences else (_APPLY,))),
        differences=differences,
        rebuilt=rebuilt,
        pending_vectors=lag.pending,
    )


_APPLY = "The index differs: run again with options.apply."


class AuditInput(TextInput):
    """Whose history to print; nothing: the newest changes."""

    TEXT = "id"

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
    head, problem, differences = None, "", tuple[str, ...]()
    try:
        head = ledger.verify()
        # What a damaged ledger would make of the index says nothing about the index.
        differences = _told_of_index(call, call.engine.index.upkeep.differences())
    except TreeringError as error:
        check_interrupt()  # that the audit was ended says nothing about the space
        problem = f"{error.message} {error.hint}" if call.scope == ROOT else _NOT_VERIFIED
    told = (event for event in ledger.events(after=given.after) if not given.id or given.id in _named_in(event))
    events = _newest(_within(call, told), options.limit)
    return AuditReport(
        verb="lint",
        mode="audit",
        scope=call.scope,
        status="failed" if problem else "ok",
        warnings=behind_warning(call.engine.index.upkeep.behind().waiting) if head else (),
        head=head,
        verified=not problem,
        problem=problem,
        differences=differences,
        events=tuple(map(_line, events)),
    )


def _named_in(event: AuditEvent) -> tuple[str, str]:
    return event.target, event.patch_id


def _told_of_index(call: Call, differences: Sequence[str]) -> tuple[str, ...]:
    """Return the differences at the root; below it only that there are some, for they name what lies elsewhere."""
    return tuple(differences) if call.scope == ROOT or not differences else (_DIFFERS,)


_NOT_REPAIRED = "The space does not verify, so nothing is repaired. Run lint audit at the scope / to see what differs."
_NOT_VERIFIED = "The space does not verify. Run lint audit at the scope / to see what differs."
_DIFFERS = "The index of the space differs from its ledger. Run this at the scope / to see where."


def _newest(events: Iterable[AuditEvent], limit: int) -> deque[AuditEvent]:
    """Keep the last events: a log is larger than what is shown of it."""
    return deque(events, maxlen=limit)


def _within(call: Call, events: Iterable[AuditEvent]) -> Iterator[AuditEvent]:
    """Leave out what happened above the scope; at the root everything is told, also of what was erased since."""
    if call.scope == ROOT:
        yield from events
        return
    waiting = iter(events)
    while batch := list(islice(waiting, _EVENTS)):
        yield from _below(call, batch)


def _below(call: Call, events: Sequence[AuditEvent]) -> list[AuditEvent]:
    ledger, targets = call.engine.ledger, {event.target for event in events}
    patches = {target for target in targets if is_patch(target)}
    scopes = {identity: head.scope for identity, head in ledger.heads(targets - patches).items()}
    scopes |= {identity: scope_of_patch(ledger, identity) for identity in patches}
    return [event for event in events if is_within(scopes.get(event.target, ROOT), call.scope)]


def _line(event: AuditEvent) -> str:
    what = f"{event.actor} ({event.channel}) {event.event_type} {event.target}"
    return f"{event.seq} {render_time(event.timestamp)} {what}" + (f": {event.reason}" if event.reason else "")


def _lint(
    call: Call,
    mode: Literal["structure", "semantic"],
    rules: Mapping[str, Rule],
    given: LintInput,
    options: LintOptions,
) -> LintReport:
    found, _ = _found(call, rules, given)
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
        warnings=_unknown_silenced(call),
        silenced=call.engine.ledger.policy.silenced_rules,
    )


def _found(call: Call, rules: Mapping[str, Rule], given: LintInput) -> tuple[list[Finding], Survey]:
    """Run the rules that were asked for, but for the silenced ones. Raises `InvalidInput` for an unknown name."""
    for name in given.rules:
        if name not in rules:
            raise InvalidInput(
                f"This mode of lint has no rule {name!r}.", hint=nearest(name, rules), details={"known": list(rules)}
            )
    ledger = call.engine.ledger
    silenced = ledger.policy.silenced_rules
    wanted = [name for name in given.rules or rules if name not in silenced]
    # Rules look at the whole space, so that a reference to another scope is not taken for a broken one.
    seen = survey(whole(ledger), scope=call.scope, now=call.engine.clock.now())
    return [finding for name in dict.fromkeys(wanted) for finding in rules[name](seen)], seen


def _unknown_silenced(call: Call) -> tuple[str, ...]:
    silenced = call.engine.ledger.policy.silenced_rules
    return tuple(
        f"The policy silences {name!r}, which is not a rule of lint." for name in silenced if name not in _EVERY_RULE
    )


def _repair(call: Call, finding: Finding, *, apply: bool) -> Repair:
    check_between_steps()
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
        check_between_steps()  # nobody waits for the other repairs any more
        return Repair(**common, outcome="failed", why=f"{error.message} {error.hint}")


TOOL = Tool(
    name="lint",
    summary="Find drift: broken references, contradictions, stale beliefs; repair; verify audit and indexes.",
    modes={
        mode.name: mode
        for mode in (
            Mode("structure", "Broken form.", LintInput, LintOptions, LintReport, lint_structure, rights=READS),
            Mode("semantic", "Drifted meaning.", LintInput, LintOptions, LintReport, lint_semantic, rights=READS),
            Mode(
                "repair",
                "Apply the fixes findings carry.",
                LintInput,
                RepairOptions,
                RepairReport,
                repair,
                rights=WRITES,
                repeatable=True,
            ),
            Mode(
                "reindex",
                "Verify or rebuild projections.",
                ReindexInput,
                ReindexOptions,
                ReindexReport,
                reindex,
                rights=WRITES,
                repeatable=True,
            ),
            Mode(
                "audit",
                "Verify the audit log; who changed what and why.",
                AuditInput,
                LintOptions,
                AuditReport,
                audit,
                rights=READS,
            ),
        )
    },
)
