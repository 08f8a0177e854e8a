"""The verb `lint`: find drift and repair it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Literal

from pydantic import Field

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, TreeringError, nearest
from treering.core.policy import needs_review
from treering.core.writing.draft import ObjectChange, changes_of
from treering.ports.runtime import check_between_steps, collecting_seldom
from treering.registry import brought_by_name
from treering.verbs.crystallize.submission import build_patch
from treering.verbs.envelope import READS, WRITES, Call, Mode, Report, Value
from treering.verbs.index_warnings import index_warning, lag_seen
from treering.verbs.lint import semantic, structure
from treering.verbs.lint.audit import shown_differences
from treering.verbs.lint.same_files import SAME_FILE
from treering.verbs.lint.survey import Finding, Rule, Survey, run
from treering.verbs.scoped_ledger import whole
from treering.verbs.trees import unread_changes, views_of

_ORDER = {"error": 0, "warning": 1, "info": 2}
_APPLY = "The index differs: run again with options.apply."
_LEFT_OUT = "Left out: {} of objects that another fix changes. Run repair again."
_NOT_REPAIRED = "The space does not verify, so nothing was repaired. Run lint audit at the scope / to see what differs."


class LintInput(Value):
    """The rules to check; an empty list means all rules of the mode."""

    rules: tuple[str, ...] = Field(default=(), description="Rule names such as `stale`; empty: all.")


class LintOptions(Value):
    """The number of findings to show."""

    limit: int = Field(default=200, ge=1, le=10_000, description="Maximum number of findings.")


class LintReport(Report):
    """Findings, worst first, with counts of all."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    """Findings per rule, also those beyond the limit."""
    silenced: dict[str, str] = Field(default={}, description="Rules silenced by the policy, with reasons.")


def lint_all(call: Call, given: LintInput, options: LintOptions) -> LintReport:
    """Find broken form and drifted meaning."""
    return _lint(call, "all", given, options)


def lint_structure(call: Call, given: LintInput, options: LintOptions) -> LintReport:
    """Find broken form."""
    return _lint(call, "structure", given, options)


def lint_semantic(call: Call, given: LintInput, options: LintOptions) -> LintReport:
    """Find drifted meaning."""
    return _lint(call, "semantic", given, options)


class RepairOptions(LintOptions):
    """Options of repairs; without `apply`, nothing changes."""

    apply: bool = Field(default=False, description="Apply the fixes, each as a patch.")


class Repair(Value):
    """One fix: its changes, or the reason why it is not possible."""

    rule: str
    ids: tuple[str, ...]
    summary: str
    outcome: Literal["planned", "applied", "proposed", "failed"]
    diff: tuple[ObjectChange, ...] = ()
    patch_id: str = ""
    why: str = ""


class RepairReport(Report):
    """Fixes for all findings that have one."""

    repairs: tuple[Repair, ...]


def repair(call: Call, given: LintInput, options: RepairOptions) -> RepairReport:
    """Show or apply the fixes of findings; a failed one does not stop the others.

    Of fixes that change the same object, only the first is shown or applied.
    With `apply`, erased content that was in use by other processes is overwritten, too.
    """
    findings, seen = _findings(call, _every_rule(), given, whole_space=True)
    # An altered object is no reason to change others.
    fixable = [] if seen.altered else [finding for finding in findings if finding.fix][: options.limit]
    repairs, left_out = _repairs(call, fixable, apply=options.apply)
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
            *([_LEFT_OUT.format(counted_things(left_out, "fix"))] if left_out else []),
            *(f"Not yet overwritten after an erasure: {what}." for what in left),
        ),
        ids=tuple(dict.fromkeys(identity for one in repairs for identity in one.ids)),
        repairs=tuple(repairs),
    )


class ReindexInput(Value):
    """No fields: all projections of the space are checked."""


class ReindexOptions(Value):
    """Options of reindexing; without `apply`, it only verifies."""

    apply: bool = Field(default=False, description="Rebuild the passages; false: compare only.")
    wait: bool = Field(default=False, description="Also embed all pending passages.")


class ReindexReport(Report):
    """The state of the projections, and the number of rebuilt entries."""

    differences: tuple[str, ...]
    rebuilt: int = 0
    pending_vectors: int = 0


def reindex(call: Call, _given: ReindexInput, options: ReindexOptions) -> ReindexReport:
    """Compare projections with a rebuild, or rebuild them; pending passages are embedded in the background."""
    index = call.engine.index
    differences = shown_differences(call, index.upkeep.differences())
    rebuilt = index.upkeep.rebuild() if options.apply else 0
    if options.wait:
        call.engine.vectoriser.finish(call.engine.progress)
    else:
        call.engine.vectoriser.start()
    lag = lag_seen(call.engine, index.vectors.lag())
    return ReindexReport(
        verb="lint",
        mode="reindex",
        scope=call.scope,
        status="ok" if options.apply or not differences else "partial",
        warnings=(*index_warning(call.engine), *(() if options.apply or not differences else (_APPLY,))),
        differences=differences,
        rebuilt=rebuilt if lag.exact else min(rebuilt, lag.total),
        pending_vectors=lag.pending,
    )


def _lint(
    call: Call,
    mode: Literal["all", "structure", "semantic"],
    given: LintInput,
    options: LintOptions,
) -> LintReport:
    rules = _every_rule() if mode == "all" else rules_by_mode()[mode]
    findings, _ = _findings(call, rules, given)
    findings.sort(key=lambda one: (_ORDER[one.severity], one.rule, one.ids))
    shown = tuple(findings[: options.limit])
    return LintReport(
        verb="lint",
        mode=mode,
        scope=call.scope,
        status="ok" if findings else "empty",
        ids=tuple(dict.fromkeys(identity for one in shown for identity in one.ids)),
        findings=shown,
        counts=Counter(one.rule for one in findings),
        warnings=(*_unknown_silenced(call), *unread_changes(call.engine, call.scope)),
        silenced=call.engine.ledger.policy.silenced_rules,
    )


@cache
def rules_by_mode() -> Mapping[str, Mapping[str, Rule]]:
    """Return the rules of each mode by name: built-in ones, then the rules of parts."""
    built_in = {"structure": structure.RULES, "semantic": semantic.RULES}
    further = [*brought_by_name("lint_rules", attrgetter("name"), taken={*structure.RULES, *semantic.RULES})]
    return {
        mode: {**rules, **{one.name: one for one in further if one.mode == mode}} for mode, rules in built_in.items()
    }


def _every_rule() -> Mapping[str, Rule]:
    return {name: rule for rules in rules_by_mode().values() for name, rule in rules.items()}


def rule_mode(name: str) -> str:
    """Return the mode of a rule. Raises `InvalidInput` with all rules if there is no such rule."""
    for mode, rules in rules_by_mode().items():
        if name in rules:
            return mode
    listed = "; ".join(f"{mode}: {', '.join(rules)}" for mode, rules in rules_by_mode().items())
    raise InvalidInput(
        f"Unknown lint rule {name!r}.",
        hint=f"{nearest(name, _every_rule()).partition('Known:')[0]} Available: {listed}.".lstrip(),
        details={"known": list(_every_rule())},
    )


def _findings(
    call: Call, rules: Mapping[str, Rule], given: LintInput, *, whole_space: bool = False
) -> tuple[list[Finding], Survey]:
    """Run the requested rules, without silenced ones. Raises `InvalidInput` for an unknown name."""
    for name in given.rules:
        if name not in rules:
            raise InvalidInput(
                f"This mode of lint has no rule {name!r}.",
                hint=nearest(name, rules) if name not in _every_rule() else f"It belongs to mode {rule_mode(name)}.",
                details={"known": list(rules)},
            )
    ledger = call.engine.ledger
    silenced = ledger.policy.silenced_rules
    wanted = {name: rules[name] for name in given.rules or rules if name not in silenced}
    lookups = call.engine.file_lookups() if SAME_FILE in wanted else ()
    # Rules see the whole space, so that a reference to another scope is not broken.
    trees = tuple(views_of(call.engine, call.scope))
    seen = Survey(whole(ledger), call.engine.clock.now(), call.scope, lookups=lookups, trees=trees)
    with collecting_seldom():
        return run(wanted, seen, whole_space=whole_space), seen


def _unknown_silenced(call: Call) -> tuple[str, ...]:
    silenced = call.engine.ledger.policy.silenced_rules
    return tuple(
        f"The policy silences {name!r}, which is not a rule of lint." for name in silenced if name not in _every_rule()
    )


def _repairs(call: Call, findings: Sequence[Finding], *, apply: bool) -> tuple[list[Repair], int]:
    """Show or apply fixes. Also returns the number left out, because an earlier one changes the same object."""
    repairs: list[Repair] = []
    changed: set[str] = set()
    left_out = 0
    for finding in findings:
        ids = {getattr(one, name) for one in finding.fix for name in ("id", "into") if hasattr(one, name)}
        if not changed.isdisjoint(ids):
            left_out += 1
            continue
        repairs.append(_repair(call, finding, apply=apply))
        if repairs[-1].outcome != "failed":
            changed |= ids
    return repairs, left_out


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
        check_between_steps()  # stop if the call was interrupted
        return Repair(**common, outcome="failed", why=f"{error.message} {error.hint}")


ALL = Mode.of("all", "All rules.", lint_all, rights=READS)
STRUCTURE = Mode.of("structure", "Broken references.", lint_structure, rights=READS)
SEMANTIC = Mode.of("semantic", "Drifted knowledge.", lint_semantic, rights=READS)
REPAIR = Mode.of("repair", "Apply the fixes of findings.", repair, rights=WRITES, repeatable=True)
REINDEX = Mode.of(
    "reindex", "Verify or rebuild projections.", reindex, rights=WRITES, repeatable=True, whole_space=True
)
