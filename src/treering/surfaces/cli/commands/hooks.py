"""Commands for the git hooks that keep a space up to date."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.errors import InvalidInput
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, SharingFlags, add_group
from treering.surfaces.cli.printing import line
from treering.surfaces.cli.session import answer
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.surfaces.cli import git_hooks
else:
    git_hooks = LazyModule("treering.surfaces.cli.git_hooks")

Repository = Annotated[Path, Argument(metavar="REPOSITORY", help="A folder in the work tree. Default: this one.")]


def add_hooks(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "hook", "Ingest after each commit, merge and checkout.", install, uninstall, status, run)


def install(access: Access, sharing: SharingFlags, repository: Repository = Path()) -> None:
    """Install git hooks that call Treering after each commit, merge, checkout and rebase.

    The hooks ingest in the background and never block git. With --sync, merges
    and branch checkouts also pull others' changes from the remote, and a push to
    it also pushes yours. Existing hooks stay; `treering hook uninstall` restores
    them byte for byte. Without --space, a hook uses the space of the work tree in
    which it runs, if there is one.
    """
    hooks = git_hooks.put_hooks(access.space, repository, sharing)
    lines = [*git_hooks.hook_lines(hooks)]
    if sharing.sync:
        lines += [line(note) for note in git_hooks.sharing_notes(sharing.sync)]
    answer(access, git_hooks.facts(hooks), [*lines, line("To undo: treering hook uninstall")])


def uninstall(access: Access, repository: Repository = Path()) -> None:
    """Remove Treering from the hooks of a repository."""
    changed = git_hooks.remove_hooks(repository)
    files = [str(one.file) for one in changed]
    lines = [line(f"Removed from {file}.") for file in files] or [line("No Treering hooks were installed here.")]
    answer(access, {"files": files}, lines)


def status(access: Access, repository: Repository = Path()) -> None:
    """Show which hooks are installed and how the last run ended."""
    hooks, last, synced = git_hooks.state_of(repository)
    answer(
        access,
        {**git_hooks.facts(hooks), "last_run": last, "last_sync": synced},
        [*git_hooks.hook_lines(hooks), *git_hooks.run_lines(last), *(git_hooks.sync_lines(synced) if synced else ())],
    )


def run(
    access: Access,
    sharing: SharingFlags,
    push: Annotated[bool, Option("--push", help="Do not ingest; only sync, as before a push.")] = False,
) -> None:
    """Run the work of the hooks: ingest this folder's repository, then sync.

    One run at a time; a run requested meanwhile follows. Without a space, nothing
    happens. TREERING_HOOK_SYNC=0 disables syncing.
    """
    settings = Settings.read()
    if push and not sharing.sync:
        raise InvalidInput("--push needs --sync.", hint="Add --sync REMOTE.")
    address = settings.space_address(access.space or None)
    if address.file is not None and not address.file.is_file():
        answer(access, {}, [line("There is no space here; nothing was done.")])
        return
    report, lines = git_hooks.run(access, sharing, push=push, sync=bool(sharing.sync and settings.hook_sync))
    answer(access, report, lines)
