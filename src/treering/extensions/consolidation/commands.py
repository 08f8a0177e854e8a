"""The command `treering consolidate`."""

from typing import Annotated

from typer import Option, Typer

from treering.surfaces.cli.commands.verbs import run_lint
from treering.surfaces.cli.flags import Access, Calling, WriteFlags, add_commands
from treering.surfaces.cli.help import CommandHelp


def add_consolidation(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, consolidate)


def consolidate(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and the scopes below it.")] = "/",
    propose: Annotated[bool, Option("--propose", help="Submit each group for review.")] = False,
    apply: Annotated[bool, Option("--apply", help="Apply each group, with a patch that can be reverted.")] = False,
    limit: Annotated[int, Option("--limit", metavar="N", min=1, help="At most this many groups.")] = 100,
    keep_passages: Annotated[
        int | None,
        Option("--keep-passages", metavar="N", min=0, help="Archive the least used passages, down to this number."),
    ] = None,
    keep_mb: Annotated[
        float | None, Option("--keep-mb", metavar="MB", min=0, help="Archive passages, down to this size of text.")
    ] = None,
) -> None:
    """Merge duplicates and archive entries over a budget.

    Lists duplicates, runs of similar activities and decisions replaced long ago,
    with both sides. Nothing is deleted: entries are archived, and `treering
    revert` restores them. Entries that a person wrote or confirmed stay, and so
    does the evidence of current knowledge.
    """
    options = {"propose": propose, "apply": apply, "limit": limit, "keep_passages": keep_passages, "keep_mb": keep_mb}
    run_lint("consolidate", options, Calling(scope=scope), writing, access)


HELP = CommandHelp(
    groups={"Decide and take back": ("consolidate",)},
    examples={
        "consolidate": (
            ("the duplicates", "treering consolidate"),
            ("submit them for review", "treering consolidate --propose"),
            (
                "down to 20,000 passages, in one scope",
                "treering consolidate --apply --scope /chats --keep-passages 20000",
            ),
        ),
    },
)
