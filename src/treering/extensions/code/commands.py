"""Commands that keep a space up to date: a watcher, and git hooks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.errors import InvalidInput
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, SharingFlags, WriteFlags, add_commands, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import line
from treering.surfaces.cli.session import answer
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.code import git_hooks
else:
    git_hooks = LazyModule("treering.extensions.code.git_hooks")

Repository = Annotated[Path, Argument(metavar="REPOSITORY", help="A folder in the work tree. Default: this one.")]


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
    from treering.extensions.code.watching import watch_place

    place = path.resolve()
    if not place.exists():
        raise InvalidInput(f"There is nothing at {path}.", hint="Give an existing folder, file or repository.")
    address = Settings.read().space_address(access.space or None)
    if address.in_memory:
        raise InvalidInput("A space in memory is lost when it is closed.", hint="Give a stored space.")
    watch_place(access, writing, address, place, worktree=worktree, every=every)


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


HELP = CommandHelp(
    groups={"Stay up to date": ("watch", "hook")},
    examples={
        "watch": (
            ("new commits of the current repository", "treering watch"),
            ("its work tree, with uncommitted changes", "treering watch --worktree"),
            ("a folder of documents, a JSON object per line", "treering watch ~/notes --json"),
        ),
        "hook install": (("ingest each commit of this repository", "treering hook install"),),
        "hook uninstall": (("restore the previous hooks", "treering hook uninstall"),),
        "hook status": (("whether the hooks are installed, and how the last run ended", "treering hook status"),),
        "hook run": (("run the hooks' work now", "treering hook run"),),
    },
)
