"""Reports as lines for people. Renderers are imported when a report needs them: most commands show one."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from treering.core.characters import one_line
from treering.surfaces.cli.printing import IndentedLine, line

if TYPE_CHECKING:
    from treering.ports.ledger import Ledger
    from treering.verbs.envelope import Report, UnderstoodDays

_MAX_WARNINGS = 8
_WARNING_CHARS = 600


def render(
    report: "Report", *, fenced: bool = False, verbose: bool = False, ledger: "Ledger | None" = None
) -> Iterator[IndentedLine]:
    """Yield the lines of a report. `fenced`: mark recalled text as data, for an answer that a model may read.

    `verbose`: also ids and details. `ledger`: provides the titles of objects in the report.
    """
    lines = _render_query(report, fenced=fenced, verbose=verbose) if report.verb == "query" else None
    if lines is None:
        from treering.surfaces.cli.rendering_changes import render_change

        lines = render_change(report, fenced=fenced, verbose=verbose, ledger=ledger)
    yield from lines
    yield from render_days(report.understood)
    yield from render_warnings(report.further_warnings)


def _render_query(report: "Report", *, fenced: bool, verbose: bool) -> Iterator[IndentedLine] | None:
    from treering.surfaces.cli.rendering_queries import render_query

    return render_query(report, fenced=fenced, verbose=verbose)


def render_days(understood: "Sequence[UnderstoodDays]") -> Iterator[IndentedLine]:
    """Show how dates in the question were understood."""
    for one in understood:
        yield line(("days: ", "dim"), one.sentence)


def render_warnings(warnings: Sequence[str]) -> Iterator[IndentedLine]:
    """Show the first warnings, and the number of others."""
    for warning in warnings[:_MAX_WARNINGS]:
        yield line(("warning: ", "yellow"), one_line(warning, most=_WARNING_CHARS))
    if len(warnings) > _MAX_WARNINGS:
        yield line(f"{len(warnings) - _MAX_WARNINGS} more warnings; --json shows them")
