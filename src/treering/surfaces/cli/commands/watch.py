"""The command that ingests changes as they happen."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from treering.core.errors import InvalidInput
from treering.surfaces.cli.flags import Access, WriteFlags, add_commands
from treering.system.settings import Settings


def add_watching(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, watch)


def watch(
    access: Access,
    writing: WriteFlags,
    path: Annotated[Path, Argument(metavar="PATH", help="A folder, a file or a repository. Default: this one.")] = (
        Path()
    ),
    worktree: Annotated[
        bool, Option("--worktree", help="Read the work tree, with uncommitted changes, instead of the commits.")
    ] = False,
    every: Annotated[
        float, Option("--every", metavar="SECONDS", min=1, help="Also check for changes at this interval.")
    ] = 600,
) -> None:
    """Ingest changes as they happen, until stopped.

    Runs `treering ingest PATH` at the start and after each change, and shows new
    lint findings. Needs the extra `watch`.
    """
    from treering.surfaces.cli.watching import watch_place

    place = path.resolve()
    if not place.exists():
        raise InvalidInput(f"There is nothing at {path}.", hint="Give an existing folder, file or repository.")
    address = Settings.read().space_address(access.space or None)
    if address.in_memory:
        raise InvalidInput("A space in memory is lost when it is closed.", hint="Give a stored space.")
    watch_place(access, writing, address, place, worktree=worktree, every=every)
