"""Commands that keep a space up to date by themselves: a watcher, and hooks of git."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.edges.surfaces.cli.flags import Access, WriteFlags, spread
from treering.edges.surfaces.cli.help import Command
from treering.edges.surfaces.cli.printing import say

Repository = Annotated[Path, Argument(metavar="REPOSITORY", help="A folder in the work tree. Default: this one.")]


def add_to(app: Typer) -> None:
    """Add the commands to the command line."""
    app.command("watch", cls=Command)(spread(watch))
    hook = Typer(rich_markup_mode=None, invoke_without_command=True)
    hook.callback()(tell)
    for name, command in (("install", install), ("uninstall", uninstall), ("status", status), ("run", run)):
        hook.command(name, cls=Command)(spread(command))
    app.add_typer(hook, name="hook")


def watch(
    access: Access,
    writing: WriteFlags,
    path: Annotated[
        Path, Argument(metavar="PATH", help="A folder, a file or a repository. Default: this one.")
    ] = Path(),
    worktree: Annotated[
        bool, Option("--worktree", help="A repository as it lies, with uncommitted changes; else its commits.")
    ] = False,
    every: Annotated[
        float, Option("--every", metavar="SECONDS", min=1, help="Also look without a change, after so long.")
    ] = 600,
) -> None:
    """Bring in what changes, as it changes, until told to stop.

    Does what `treering ingest PATH` does, once at the beginning and then
    after each change, and shows what lint finds new. Needs the extra `watch`.
    """
    from treering.edges.surfaces.cli import watching

    watching.watch(access, writing, watching.WatchFlags(path, every, worktree))


def tell(context: Context) -> None:
    """Have git bring in each commit, merge and checkout."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def install(access: Access, repository: Repository = Path()) -> None:
    """Have git call Treering after each commit, merge, checkout and rebase.

    The hooks ingest in the background, and hold nothing up. What stands in a
    hook stays; `treering hook uninstall` puts it back byte for byte. Without
    --space they use the space of the work tree they are called in, if there
    is one.
    """
    from treering.edges.surfaces.cli import hooking

    hooking.install(access, repository)


def uninstall(access: Access, repository: Repository = Path()) -> None:
    """Take Treering out of the hooks of a repository."""
    from treering.edges.surfaces.cli import hooking

    hooking.uninstall(access, repository)


def status(access: Access, repository: Repository = Path()) -> None:
    """Tell which hooks there are, and how the last run ended."""
    from treering.edges.surfaces.cli import hooking

    hooking.status(access, repository)


def run(access: Access) -> None:
    """Do what the hooks do: ingest the repository of this folder.

    One run at a time; one that is asked for meanwhile follows it. Without a
    space nothing is done.
    """
    from treering.edges.surfaces.cli import hooking

    hooking.run(access)
