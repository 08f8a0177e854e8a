"""The command that checks a change before it is merged."""

from typing import Annotated, Literal

from typer import Exit, Option, Typer

from treering.surfaces.cli.flags import Access, add_commands
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import say_document


def add_checking(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, check)


def check(
    access: Access,
    base: Annotated[
        str, Option("--base", metavar="REVISION", help="The target branch; without main, master.")
    ] = "main",
    head: Annotated[str, Option("--head", metavar="REVISION", help="The last commit of the change.")] = "HEAD",
    worktree: Annotated[bool, Option("--worktree", help="Also check uncommitted changes of the work tree.")] = False,
    form: Annotated[
        Literal["text", "json", "sarif", "github", "gitlab", "markdown"],
        Option("--format", help="The output format: for people, or for tools that annotate lines."),
    ] = "text",
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            metavar="RULES",
            help="Exit with 1 if one of these rules has findings, such as stale-decision,contested; none: never. "
            "Default: TREERING_CHECK_FAIL_ON, else .treering.toml of the base, else stale-decision,contested.",
        ),
    ] = "",
    message: Annotated[
        str,
        Option("--message", metavar="TEXT|-", help="The description of the pull request, which may also close work."),
    ] = "",
    no_space: Annotated[
        bool, Option("--no-space", help="Use no space, only the repository's own decision records and rules.")
    ] = False,
) -> None:
    """Report the effects of a change on the recorded knowledge.

    Lists decisions, rules and documents that become stale or contested, rules
    for the changed lines, wiki pages that become outdated, and work that the change
    closes. Without a space, it compares the repository's own decision records and
    rules. Nothing is written.
    """
    from treering.extensions.checks import report

    found = report.report_on(
        access.space, base, head, worktree=worktree, fail_on=fail_on, no_space=no_space, described=message
    )
    say_document(report.FORMS["json" if access.as_json else form](found))
    if found.failed:
        raise Exit(1)


HELP = CommandHelp(
    groups={"The four tools": ("check",)},
    examples={
        "check": (
            ("the effects of this branch on the recorded knowledge", "treering check"),
            ("before a commit", "treering check --base HEAD --worktree"),
            (
                "fail on more, for a workflow",
                "treering check --fail-on stale-decision,stale-rule,contested --format github",
            ),
        ),
    },
)
