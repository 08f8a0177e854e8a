"""The modes and the printed findings of `treering lint`."""

from collections.abc import Iterator, Sequence

from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.last_answer import note_places
from treering.surfaces.cli.printing import IndentedLine
from treering.surfaces.cli.rendering import render, render_warnings
from treering.surfaces.cli.rendering_changes import findings_in_order, render_findings
from treering.surfaces.cli.session import is_piped
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Report
from treering.verbs.lint.audit import AuditReport
from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport, rule_mode

_DEFAULT_MODES = ("structure", "semantic")


def rules_by_mode(mode: str, rules: Sequence[str]) -> dict[str, list[str]]:
    """Return the modes to run, each with its rules. Without a mode: the modes of `rules`, or the default modes."""
    if mode or not rules:
        return {one: [*rules] for one in ([mode] if mode else _DEFAULT_MODES)}
    by_mode = {one: [rule for rule in rules if rule_mode(rule) == one] for one in _DEFAULT_MODES}
    return {one: named for one, named in by_mode.items() if named}


def render_lint(space: Space, reports: Sequence[Report], access: Access) -> Iterator[IndentedLine]:
    """Show the findings of all reports as one list, then the other reports."""
    lint_reports = [one for one in reports if isinstance(one, LintReport)]
    if lint_reports:
        findings = findings_in_order(lint_reports)
        note_places(space.address, [next(iter(one.ids), "") for one in findings])
        yield from render_findings(lint_reports, verbose=access.verbose)
        yield from render_warnings([*dict.fromkeys(warning for one in lint_reports for warning in one.warnings)])
    for report in reports:
        if report not in lint_reports:
            yield from render(report, fenced=is_piped(), verbose=access.verbose, ledger=space.engine.ledger)


def has_errors(report: Report) -> bool:
    """Return whether `lint --strict` fails because of a report."""
    match report:
        case LintReport(findings=findings):
            return any(one.severity == "error" or (one.rule == "stale" and not one.after_merge) for one in findings)
        case RepairReport(repairs=repairs):
            return any(repair.outcome == "failed" for repair in repairs)
        case ReindexReport(differences=differences, rebuilt=rebuilt):
            return bool(differences) and not rebuilt
        case AuditReport(verified=verified, differences=differences):
            return not verified or bool(differences)
        case _:
            return False
