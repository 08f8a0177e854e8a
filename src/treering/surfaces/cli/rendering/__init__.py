"""Reports as lines for people. Pure: a report in, lines out."""

from collections.abc import Iterator, Sequence

from treering.core.characters import one_line
from treering.surfaces.cli.rendering import answers, changes
from treering.surfaces.cli.rendering import changes as findings
from treering.surfaces.cli.rendering.lines import IndentedLine, line
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.envelope import Report
from treering.verbs.ingest.report import IngestReport, JobReport
from treering.verbs.lint.audit import AuditReport
from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport
from treering.verbs.query.browsing import ExpandReport, PageReport
from treering.verbs.query.context import ContextReport
from treering.verbs.query.recent import RecentReport
from treering.verbs.query.related import RelatedReport
from treering.verbs.query.search import SearchReport

_MOST_WARNINGS = 8
_WARNING_CHARS = 600


def render(report: Report, *, fenced: bool = False) -> Iterator[IndentedLine]:
    """Yield the lines of a report. `fenced`: mark recalled text as data, for an answer that a model may read."""
    yield from _body(report, fenced=fenced)
    yield from render_warnings(report.warnings)


def render_warnings(warnings: Sequence[str]) -> Iterator[IndentedLine]:
    """Yield the first of some warnings, and how many more there are."""
    for warning in warnings[:_MOST_WARNINGS]:
        yield line(("warning: ", "yellow"), one_line(warning, most=_WARNING_CHARS))
    if len(warnings) > _MOST_WARNINGS:
        yield line(f"{len(warnings) - _MOST_WARNINGS} more warnings; --json shows them")


def _body(report: Report, *, fenced: bool) -> Iterator[IndentedLine]:
    match report:
        case ContextReport():
            return answers.render_context(report, fenced=fenced)
        case SearchReport():
            return answers.render_search(report, fenced=fenced)
        case ExpandReport():
            return answers.render_expanded(report, fenced=fenced)
        case PageReport():
            return answers.render_page(report, fenced=fenced)
        case RelatedReport():
            return answers.render_related(report, fenced=fenced)
        case RecentReport():
            return answers.render_recent(report, fenced=fenced)
        case _:
            return _told(report, fenced=fenced)


def _told(report: Report, *, fenced: bool) -> Iterator[IndentedLine]:
    match report:
        case IngestReport():
            return changes.render_ingest(report)
        case JobReport():
            return changes.render_job(report)
        case WriteReport():
            return changes.render_write(report, fenced=fenced)
        case LintReport():
            return findings.render_findings(report)
        case RepairReport():
            return findings.render_repairs(report, fenced=fenced)
        case ReindexReport():
            return findings.render_reindex(report)
        case AuditReport():
            return findings.render_audit(report)
        case _:
            return iter((line(report.model_dump_json(indent=2)),))
