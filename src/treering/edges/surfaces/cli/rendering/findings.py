"""What `lint` found, as lines."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from treering.core.canonical import canonical_json
from treering.core.characters import label, one_line
from treering.edges.surfaces.cli.rendering.changes import render_diff
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line
from treering.tools.lint import LintReport, ReindexReport, RepairReport
from treering.tools.lint_audit import AuditReport
from treering.tools.rules.survey import Finding, Severity

_SEVERITIES: Mapping[Severity, tuple[str, str]] = {
    "error": ("Errors", "bold red"),
    "warning": ("Warnings", "bold yellow"),
    "info": ("For information", "bold cyan"),
}
_VALUE_CHARS = 120
_MOST_IDS = 4
_SAID_CHARS = 600


def render_findings(report: LintReport) -> Iterator[IndentedLine]:
    """Show findings by severity, each with its explanation and what would put it right."""
    total = sum(report.counts.values())
    if not total:
        yield line((f"{report.mode}: nothing to report.", "green"))
    for severity, (title, style) in _SEVERITIES.items():
        found = [one for one in report.findings if one.severity == severity]
        if found:
            yield line((f"{title} of {report.mode}", style))
            for one in found:
                yield from render_finding(one)
    if total > len(report.findings):
        yield line(f"{total} in all; --limit shows more")
    for rule, reason in report.silenced.items():
        yield line((f"{rule} is kept quiet: {reason}", "dim"))


def render_repairs(report: RepairReport, *, fenced: bool) -> Iterator[IndentedLine]:
    """Show each repair with its outcome and what it changes."""
    if not report.repairs:
        yield line(("Nothing that lint could repair.", "green"))
    for one in report.repairs:
        style = "red" if one.outcome == "failed" else "bold"
        yield line(
            (f"{one.outcome} ", style),
            one_line(one.summary, most=_SAID_CHARS),
            (f"  {one.rule} {one.patch_id}".rstrip(), "dim"),
        )
        if one.why:
            yield line(one_line(one.why, most=_SAID_CHARS), indent=2)
        yield from render_diff(one.diff, fenced=fenced)
    if any(one.outcome == "planned" for one in report.repairs):
        yield line("Nothing was changed; --apply carries these out.")


def render_reindex(report: ReindexReport) -> Iterator[IndentedLine]:
    """Show how the indexes compare with the ledger, and what was made anew."""
    yield from (line(("differs: ", "yellow"), one) for one in report.differences)
    if not report.differences:
        yield line(("The indexes agree with the ledger.", "green"))
    if report.rebuilt:
        yield line(f"{report.rebuilt} passages were made anew.")
    if report.pending_vectors:
        yield line(f"{report.pending_vectors} texts wait for their vector.")


def render_audit(report: AuditReport) -> Iterator[IndentedLine]:
    """Show whether the log verifies, and who changed what."""
    if report.verified and report.head:
        yield line(("The audit log verifies", "green"), f" up to event {report.head.seq} ({report.head.hash[:12]}).")
    else:
        yield line(("The audit log does not verify: ", "red"), report.problem)
    yield from (line(("index differs: ", "yellow"), one) for one in report.differences)
    for event, change in zip_longest(report.events, report.changes):
        yield line(one_line(event, most=_SAID_CHARS), indent=2)
        for one in change.fields if change else ():
            yield line((f"{one.field}: ", "dim"), f"{_value(one.before)} → {_value(one.after)}", indent=4)


def render_finding(one: Finding) -> Iterator[IndentedLine]:
    """Show a finding, with what it is about and what would put it right."""
    more = f" and {len(one.ids) - _MOST_IDS} more" if len(one.ids) > _MOST_IDS else ""
    yield line((f"{one.rule}: ", "bold"), one_line(one.explanation, most=_SAID_CHARS), indent=2)
    yield line((f"{', '.join(one.ids[:_MOST_IDS])}{more}", "dim"), indent=4)
    if one.fix_summary:
        yield line(
            ("fix: ", "green"),
            one_line(one.fix_summary, most=_SAID_CHARS),
            "  (treering lint repair)" if one.fix else "",
            indent=4,
        )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return label(text, most=_VALUE_CHARS) if value not in (None, "", [], {}) else "nothing"
