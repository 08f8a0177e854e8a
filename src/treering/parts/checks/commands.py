"""The command that checks a change before it is merged."""

from typing import Annotated, Literal

from typer import Option, Typer

from treering.surfaces.cli.flags import Access, spread
from treering.surfaces.cli.help import Command, CommandHelp


def add_checking(app: Typer) -> None:
    """Add the command to the command line."""
    app.command("check", cls=Command)(spread(check))


def check(
    access: Access,
    base: Annotated[str, Option("--base", metavar="REVISION", help="The branch that the change goes to.")] = "main",
    head: Annotated[str, Option("--head", metavar="REVISION", help="The change: its last commit.")] = "HEAD",
    worktree: Annotated[bool, Option("--worktree", help="Also what lies uncommitted in the work tree.")] = False,
    form: Annotated[
        Literal["text", "json", "sarif", "github", "gitlab", "markdown"],
        Option("--format", help="How it is told: for people, or for what shows it beside the lines."),
    ] = "text",
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            metavar="RULES",
            help="Exit with 1 where one of these finds something, such as stale-decision,contested; none: never. "
            "Default: TREERING_CHECK_FAIL_ON, else .treering.toml of the base, else stale-decision,contested.",
        ),
    ] = "",
    message: Annotated[
        str, Option("--message", metavar="TEXT|-", help="What the pull request says of itself: it may close work too.")
    ] = "",
    no_space: Annotated[
        bool, Option("--no-space", help="Ask no space, only the repository's own decision records and rules.")
    ] = False,
) -> None:
    """Tell what a change does to what is known.

    Which decisions, rules and documents it makes stale or contested, what
    governs the touched lines, which pages of the wiki rot and which work it
    closes. Without a space, the repository's own decision records and rules
    are compared. Nothing is written.
    """
    from treering.parts.checks import report

    report.check(
        access, base, head, worktree=worktree, form=form, fail_on=fail_on, no_space=no_space, described=message
    )


HELP = CommandHelp(
    groups={"The four tools": ("check",)},
    examples={
        "check": (
            ("what this branch does to what is known", "treering check"),
            ("before a commit", "treering check --base HEAD --worktree"),
            (
                "fail on more, for a workflow",
                "treering check --fail-on stale-decision,stale-rule,contested --format github",
            ),
        ),
    },
)
