"""The command `treering review propose`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from treering.core.characters import one_line
from treering.surfaces.cli.flags import Access, WriteFlags, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer, opened

if TYPE_CHECKING:
    from treering.extensions.work_requests.proposals import WorkProposals

_TITLE_CHARS = 400


def add_proposing(app: Typer) -> None:
    """Add the command to the command line."""
    add_group(app, "review", "Decide about patches waiting for review.", propose)


def propose(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only sources of this scope and below.")] = "/",
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=1000, help="At most this many.")] = 100,
    closed: Annotated[
        bool, Option("--closed", help="Also propose tickets closed before they were tracked here, as activities.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only list the requests of sources, including pending ones.")
    ] = False,
) -> None:
    """Propose work items for tickets and TODO comments.

    Applying the patch creates the work items; closed tickets and removed comments
    close them in the same way. A rejected proposal is not made again.
    """
    from treering.extensions.work_requests.proposals import PROPOSE

    options = {"limit": limit, "closed": closed, "dry_run": dry_run}
    with opened(access, writing) as space:
        report = space.perform(PROPOSE, scope=scope, options=options)
    answer(access, report, _lines(report, dry_run=dry_run))


def _lines(report: "WorkProposals", *, dry_run: bool) -> Iterator[IndentedLine]:
    known = f"; {report.known} already known" if report.known else ""
    count = len(report.proposed)
    yield line((f"{'Asked for' if dry_run else 'Proposed'}: ", "bold"), f"{count}{known}")
    for one in report.proposed:
        yield line(f"{one.what}: {one_line(one.title, most=_TITLE_CHARS)}", indent=2)
    if report.more:
        yield line("There are more. Run it again, or with a larger --limit.", indent=2)
    if count and not dry_run:
        yield line("Review them: treering review list")


HELP = CommandHelp(
    groups={},
    examples={
        "review propose": (
            ("work items for tickets and TODO comments", "treering review propose"),
            ("the proposals, without making them", "treering review propose --dry-run"),
        ),
    },
)
