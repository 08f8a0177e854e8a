"""Commands that make, move, serve and show a space."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, AsJson, WriteFlags, add_commands, add_group
from treering.surfaces.cli.printing import say
from treering.version import __version__

if TYPE_CHECKING:
    from treering.surfaces.cli import trying, upkeep, watching
else:
    trying = LazyModule("treering.surfaces.cli.trying")
    upkeep = LazyModule("treering.surfaces.cli.upkeep")
    watching = LazyModule("treering.surfaces.cli.watching")

Folder = Annotated[Path, Argument(metavar="FOLDER", help="The folder of the plain files.")]


def add_spaces(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(
        app,
        {
            "try": try_it,
            "init": init,
            "backup": backup,
            "move": move,
            "diff": diff,
            "merge": merge,
            "sync": sync,
            "export": export,
            "import": import_from,
            "vectors": vectors,
            "unlock": unlock,
            "verify": verify,
            "mcp": mcp,
            "version": version,
        },
    )


def try_it(
    question: Annotated[
        str, Argument(metavar="QUESTION", help="Default: a question made from a heading of the README.")
    ] = "",
    wait: Annotated[
        bool, Option("--wait", help="Embed everything first, so that search also matches by meaning.")
    ] = False,
) -> None:
    """Show what Treering does with the current folder.

    Asks the folder a question, records a decision with its line as evidence,
    and detects a change of that line in a copy. Nothing is stored.
    """
    trying.try_here(question, wait=wait)


def init(
    access: Access,
    here: Annotated[
        bool, Option("--here", help="Give this folder its own space, even inside a repository that has one.")
    ] = False,
) -> None:
    """Create a space for this repository or folder, or at --space.

    All work trees of a repository share its space, wherever they are.
    """
    upkeep.init(access, here=here)


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to copy the space to.")],
    access: Access,
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Copy a space to a new file while others use it.

    The copy is verified and is itself a space: to restore it, open it.
    """
    upkeep.backup(file, access, replace=force)


def move(
    source: Annotated[str, Argument(metavar="FROM", help="The address of the space to copy.")],
    target: Annotated[str, Argument(metavar="TO", help="The destination: a new file, or a new space of a database.")],
    as_json: AsJson = False,
) -> None:
    """Copy a space to another file or database.

    The copy has the same ids and the same audit log, and is compared with the
    original, which stays unchanged. Run again to resume an interrupted copy.
    """
    upkeep.move(source, target, as_json=as_json)


def diff(
    left: Annotated[str, Argument(metavar="A", help="The address of a space.")],
    right: Annotated[str, Argument(metavar="B", help="The address of the other one.")],
    as_json: AsJson = False,
) -> None:
    """Show the differences between two spaces.

    Reads both without changing them.
    """
    upkeep.diff(left, right, as_json=as_json)


def merge(
    other: Annotated[str, Argument(metavar="FROM", help="The address of the space to merge into this one.")],
    access: Access,
) -> None:
    """Merge another space into this one.

    The other space is only read. Contradictions become contested, objects erased
    in the other space are erased here, and merging again changes nothing.
    """
    upkeep.merge(other, access)


def sync(
    access: Access,
    remote: Annotated[
        str, Argument(metavar="REMOTE", help="A git remote, its address, or a shared folder. Default: origin.")
    ] = "",
    fetch: Annotated[bool, Option("--fetch", help="Only pull the changes of others.")] = False,
    push: Annotated[bool, Option("--push", help="Only push the changes made here.")] = False,
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="Sign with this ssh key.")] = None,
    signers: Annotated[
        Path | None,
        Option(
            "--signers", metavar="FILE", help="Accept only changes signed by these keys: an ssh allowed_signers file."
        ),
    ] = None,
) -> None:
    """Share this space with others over a git remote or a folder.

    Pulls others' changes, merges them and pushes yours. Objects that contain
    secrets and private scopes are never sent.
    """
    upkeep.sync(access, remote, fetch=fetch, push=push, key=key, signers=signers)


def export(folder: Folder, access: Access) -> None:
    """Write a space as plain files into a new folder."""
    upkeep.export(folder, access)


def import_from(folder: Folder, writing: WriteFlags, access: Access) -> None:
    """Fill an empty space from an export.

    Keeps the ids and the audit log of the export.
    """
    upkeep.import_from(folder, access, writing)


def vectors(
    access: Access,
    quiet: Annotated[
        bool, Option("--quiet", help="Print nothing, and exit at once if another process is running.")
    ] = False,
) -> None:
    """Embed everything that is pending.

    Until then, search finds new content only by words and names.
    """
    upkeep.vectors(access, quiet=quiet)


def unlock(
    access: Access,
    name: Annotated[str, Argument(metavar="NAME", help="The lease to release, as named in the list.")] = "",
) -> None:
    """List the leases of a space, or release one.

    A lease lets one process at a time make vectors or memories. A lease that is
    not renewed expires, so release one only if its process hangs but renews it.
    """
    upkeep.unlock(name, access)


def verify(
    proof: Annotated[
        Path | None, Argument(metavar="PROOF", help="The file written by `treering query --proof`.")
    ] = None,
    anchor: Annotated[Path | None, Option("--anchor", metavar="FILE", help="The anchor of the space's log.")] = None,
    clone: Annotated[Path | None, Option("--clone", metavar="FOLDER", help="A clone of the cited repository.")] = None,
    signers: Annotated[
        Path | None, Option("--signers", metavar="FILE", help="Accepted signers: an ssh allowed_signers file.")
    ] = None,
    checker: Annotated[bool, Option("--checker", help="Print a checker, a program that needs no Treering.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the proof of an answer without the space.

    Exits with 1 if the proof is not valid.
    """
    upkeep.verify(proof, anchor, clone, signers, checker=checker, as_json=as_json)


def mcp(
    space: Annotated[str, Option("--space", metavar="ADDRESS", help="As in every command.")] = "",
    underscore_names: Annotated[
        bool,
        Option(
            "--underscore-names", help="Name tools wiki_query instead of wiki.query, for clients that refuse a dot."
        ),
    ] = False,
    files: Annotated[
        Path | None,
        Option(
            "--files",
            metavar="FOLDER",
            help="Let ingest read the files in this folder. Default: the current folder, unless it is / or your home.",
        ),
    ] = None,
    allow_urls: Annotated[bool, Option("--allow-urls", help="Let ingest fetch web pages. Default: no.")] = False,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", min=1, help="Time limit of a query.")] = 60.0,
) -> None:
    """Serve the four tools to an agent over MCP (stdio)."""
    # Only what serving needs: a client waits for the handshake.
    from treering.extensions.mcp.loading import serve
    from treering.ports.runtime import end_loading
    from treering.system.settings import Settings

    settings = Settings.read()
    underscored = underscore_names or settings.underscore_names
    address = settings.space_address(space or None)
    end_loading()
    serve(address, underscore_names=underscored, files=files, urls=allow_urls, read_seconds=timeout)


def version() -> None:
    """Print the version."""
    say(f"treering {__version__}")


# Commands that keep a space up to date by themselves: a watcher, and hooks of git.


Repository = Annotated[Path, Argument(metavar="REPOSITORY", help="A folder in the work tree. Default: this one.")]


def add_watching(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, {"watch": watch})
    hooks: dict[str, Callable[..., None]] = {"install": install, "uninstall": uninstall, "status": status, "run": run}
    add_group(app, "hook", "Ingest after each commit, merge and checkout.", hooks)


@dataclass(frozen=True, slots=True)
class WatchFlags:
    """What is watched, and how often it is looked at without a change."""

    path: Annotated[Path, Argument(metavar="PATH", help="A folder, a file or a repository. Default: this one.")] = (
        Path()
    )
    worktree: Annotated[
        bool, Option("--worktree", help="Read the work tree, with uncommitted changes, instead of the commits.")
    ] = False
    every: Annotated[
        float, Option("--every", metavar="SECONDS", min=1, help="Also check for changes at this interval.")
    ] = 600


def watch(wanted: WatchFlags, access: Access, writing: WriteFlags) -> None:
    """Ingest changes as they happen, until stopped.

    Runs `treering ingest PATH` at the start and after each change, and shows new
    lint findings. Needs the extra `watch`.
    """
    watching.watch(access, writing, wanted)


@dataclass(frozen=True, slots=True)
class SharingFlags:
    """Where the hooks share the space, and how it is signed."""

    sync: Annotated[
        str,
        Option("--sync", metavar="REMOTE", help="Also share the space over this git remote, or a shared folder."),
    ] = ""
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="As in `treering sync`.")] = None
    signers: Annotated[Path | None, Option("--signers", metavar="FILE", help="As in `treering sync`.")] = None


def install(access: Access, sharing: SharingFlags, repository: Repository = Path()) -> None:
    """Install git hooks that call Treering after each commit, merge, checkout and rebase.

    The hooks ingest in the background and never block git. With --sync, merges
    and branch checkouts also pull others' changes from the remote, and a push to
    it also pushes yours. Existing hooks stay; `treering hook uninstall` restores
    them byte for byte. Without --space, a hook uses the space of the work tree in
    which it runs, if there is one.
    """
    watching.install(access, repository, sharing)


def uninstall(access: Access, repository: Repository = Path()) -> None:
    """Remove Treering from the hooks of a repository."""
    watching.uninstall(access, repository)


def status(access: Access, repository: Repository = Path()) -> None:
    """Show which hooks are installed and how the last run ended."""
    watching.status(access, repository)


def run(
    access: Access,
    sharing: SharingFlags,
    push: Annotated[bool, Option("--push", help="Do not ingest; only sync, as before a push.")] = False,
) -> None:
    """Run the work of the hooks: ingest this folder's repository, then sync.

    One run at a time; a run requested meanwhile follows. Without a space, nothing
    happens. TREERING_HOOK_SYNC=0 disables syncing.
    """
    watching.run(access, sharing, push=push)
