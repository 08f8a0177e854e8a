"""Commands by which a person decides: review, revert, erase."""

from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.flags import Access, WriteFlags, spread
from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

Patch = Annotated[str, Argument(metavar="PATCH", help="The id of a patch.")]
Reason = Annotated[str, Option("--reason", metavar="TEXT", help="Why, for the audit log.")]


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    review = Typer(rich_markup_mode=None, invoke_without_command=True)
    review.callback()(decide)
    commands = (("list", show_waiting), ("show", show), ("apply", apply), ("reject", reject), ("propose", propose))
    for name, command in commands:
        review.command(name, cls=Command)(spread(command))
    app.add_typer(review, name="review")
    app.command("revert", cls=Command)(spread(revert))
    app.command("erase", cls=Command)(spread(erase))


def decide(context: Context) -> None:
    """Decide about patches that wait for review."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def show_waiting(access: Access) -> None:
    """List the patches that wait, newest first."""
    from treering.edges.surfaces.cli import reviewing

    reviewing.show_waiting(access)


def show(patch: Patch, access: Access) -> None:
    """Show what a waiting patch would change, field by field."""
    from treering.edges.surfaces.cli import reviewing

    reviewing.show(patch, access)


def apply(
    patches: Annotated[list[str], Argument(metavar="PATCH", help="The ids of patches.")],
    writing: WriteFlags,
    access: Access,
) -> None:
    """Apply waiting patches, each by itself.

    Nobody approves their own proposal, unless the policy file says so.
    """
    from treering.edges.surfaces.cli import reviewing

    reviewing.apply(patches, access, writing)


def reject(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Turn a waiting patch down."""
    from treering.edges.surfaces.cli import reviewing

    reviewing.reject(patch, reason, access, writing)


def propose(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only sources of this scope and below.")] = "/",
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 100,
    closed: Annotated[
        bool, Option("--closed", help="Also tickets that were closed before they were tracked here, as activities.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only tell what sources ask for, also what waits already.")
    ] = False,
) -> None:
    """Lay before the reviewers what sources ask for.

    Tickets and TODO comments become work items once somebody applies the patch; tickets that were closed, and
    comments that are gone, end them the same way. What somebody turned down is not proposed again.
    """
    from treering.edges.surfaces.cli import reviewing

    reviewing.propose(scope, {"limit": limit, "closed": closed, "dry_run": dry_run}, access, writing)


def revert(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Take back what a patch did, or say why that cannot be."""
    from treering.edges.surfaces.cli import reviewing

    reviewing.revert(patch, reason, access, writing)


def erase(
    ids: Annotated[list[str], Argument(metavar="ID", help="The objects to remove.")],
    writing: WriteFlags,
    access: Access,
    reason: Reason = "",
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove objects for good, everywhere, and prove it.

    This cannot be taken back. The audit log keeps the fact, and hashes.
    """
    from treering.edges.surfaces.cli import reviewing

    reviewing.erase(ids, reason, access, writing, sure=yes)
