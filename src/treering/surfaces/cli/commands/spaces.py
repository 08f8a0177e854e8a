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

Folder = Annotated[Path, Argument(metavar="FOLDER", help="The folder of plain files.")]


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
    question: Annotated[str, Argument(metavar="QUESTION", help="Default: one made of a heading of the README.")] = "",
    wait: Annotated[bool, Option("--wait", help="First make all vectors, so that meaning counts too.")] = False,
) -> None:
    """Show what Treering does with the folder you are in.

    It asks the folder something, records a decision with the line that it
    rests on, and notices when a copy of that line is changed. Nothing stays.
    """
    trying.try_here(question, wait=wait)


def init(
    access: Access,
    here: Annotated[
        bool, Option("--here", help="One of this folder's own, also inside a repository that has a space.")
    ] = False,
) -> None:
    """Make a space for this repository or folder, or where --space says.

    All work trees of a repository share its space, wherever they lie.
    """
    upkeep.init(access, here=here)


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to copy the space to.")],
    access: Access,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy a space to a new file, while others use it.

    The copy is checked, and is a space: opening it is all that restoring takes.
    """
    upkeep.backup(file, access, replace=force)


def move(
    source: Annotated[str, Argument(metavar="FROM", help="The address of the space to copy.")],
    target: Annotated[str, Argument(metavar="TO", help="Where to: a new file, or a new space of a database.")],
    as_json: AsJson = False,
) -> None:
    """Copy a space to another file or database.

    With the same ids and the same audit log, and compared at the end. The old
    one stays as it is. What was broken off goes on when called again.
    """
    upkeep.move(source, target, as_json=as_json)


def diff(
    left: Annotated[str, Argument(metavar="A", help="The address of a space.")],
    right: Annotated[str, Argument(metavar="B", help="The address of the other one.")],
    as_json: AsJson = False,
) -> None:
    """Compare two spaces: what only one of them holds, or holds otherwise.

    Both are only read.
    """
    upkeep.diff(left, right, as_json=as_json)


def merge(
    other: Annotated[str, Argument(metavar="FROM", help="The address of the space to merge into this one.")],
    access: Access,
) -> None:
    """Merge another space into this one.

    The other is only read. What contradicts becomes contested, what was
    erased in the other is erased here, and merging again changes nothing.
    """
    upkeep.merge(other, access)


def sync(
    access: Access,
    remote: Annotated[
        str, Argument(metavar="REMOTE", help="A git remote, its address, or a shared folder. Default: origin.")
    ] = "",
    fetch: Annotated[bool, Option("--fetch", help="Only bring what others left.")] = False,
    push: Annotated[bool, Option("--push", help="Only leave what is new here.")] = False,
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="Sign with this key of ssh.")] = None,
    signers: Annotated[
        Path | None,
        Option("--signers", metavar="FILE", help="Take only what these signed: an allowed_signers file of ssh."),
    ] = None,
) -> None:
    """Share this space with others, over a git remote or a folder.

    Brings what they left there, merges it, and leaves what they do not have.
    What holds a secret is not sent, and private scopes never are.
    """
    upkeep.sync(access, remote, fetch=fetch, push=push, key=key, signers=signers)


def export(folder: Folder, access: Access) -> None:
    """Write a space as plain files into a new folder."""
    upkeep.export(folder, access)


def import_from(folder: Folder, writing: WriteFlags, access: Access) -> None:
    """Fill an empty space from an export.

    It has the same ids and the same audit log.
    """
    upkeep.import_from(folder, access, writing)


def vectors(
    access: Access,
    quiet: Annotated[
        bool, Option("--quiet", help="Say nothing, and leave at once where another process is at it.")
    ] = False,
) -> None:
    """Make the vectors that wait.

    Until then, what is new is found by words and names only.
    """
    upkeep.vectors(access, quiet=quiet)


def unlock(
    access: Access,
    name: Annotated[str, Argument(metavar="NAME", help="The lease to take away, as the list names it.")] = "",
) -> None:
    """List who holds a lease of a space, or take one away.

    A lease lets one process at a time make vectors or memories. It lapses when
    it is not renewed, so this is for a process that hangs and renews.
    """
    upkeep.unlock(name, access)


def verify(
    proof: Annotated[Path | None, Argument(metavar="PROOF", help="What `treering query --proof` wrote.")] = None,
    anchor: Annotated[Path | None, Option("--anchor", metavar="FILE", help="The anchor of the space's log.")] = None,
    clone: Annotated[
        Path | None, Option("--clone", metavar="FOLDER", help="A clone of the repository that it cites.")
    ] = None,
    signers: Annotated[
        Path | None, Option("--signers", metavar="FILE", help="Who may have signed it: an allowed_signers file of ssh.")
    ] = None,
    checker: Annotated[bool, Option("--checker", help="Print the checker: a program that needs no Treering.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the proof of an answer, without the space.

    Exits with 1 where it does not hold.
    """
    upkeep.verify(proof, anchor, clone, signers, checker=checker, as_json=as_json)


def mcp(
    space: Annotated[str, Option("--space", metavar="ADDRESS", help="As for every command.")] = "",
    underscore_names: Annotated[
        bool, Option("--underscore-names", help="wiki_query instead of wiki.query, for clients that refuse a dot.")
    ] = False,
    files: Annotated[
        Path | None,
        Option(
            "--files",
            metavar="FOLDER",
            help="Let ingest read what lies below it. Default: the folder you are in; no files in / or your home.",
        ),
    ] = None,
    allow_urls: Annotated[
        bool, Option("--allow-urls", help="Let ingest fetch pages of the web. Default: none.")
    ] = False,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", min=1, help="How long a query may take.")] = 60.0,
) -> None:
    """Serve the four tools to an agent over MCP (stdio)."""
    # Only what serving needs: a client waits for the handshake.
    from treering.ports.runtime import end_loading
    from treering.surfaces.mcp import serve
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
    add_group(app, "hook", "Have git bring in each commit, merge and checkout.", hooks)


@dataclass(frozen=True, slots=True)
class WatchFlags:
    """What is watched, and how often it is looked at without a change."""

    path: Annotated[Path, Argument(metavar="PATH", help="A folder, a file or a repository. Default: this one.")] = (
        Path()
    )
    worktree: Annotated[
        bool, Option("--worktree", help="A repository as it lies, with uncommitted changes; else its commits.")
    ] = False
    every: Annotated[
        float, Option("--every", metavar="SECONDS", min=1, help="Also look without a change, after so long.")
    ] = 600


def watch(wanted: WatchFlags, access: Access, writing: WriteFlags) -> None:
    """Bring in what changes, as it changes, until told to stop.

    Does what `treering ingest PATH` does, once at the beginning and then
    after each change, and shows what lint finds new. Needs the extra `watch`.
    """
    watching.watch(access, writing, wanted)


@dataclass(frozen=True, slots=True)
class SharingFlags:
    """Where the hooks share the space, and how it is signed."""

    sync: Annotated[
        str,
        Option("--sync", metavar="REMOTE", help="Also share the space over this git remote, or a shared folder."),
    ] = ""
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="As for `treering sync`.")] = None
    signers: Annotated[Path | None, Option("--signers", metavar="FILE", help="As for `treering sync`.")] = None


def install(access: Access, sharing: SharingFlags, repository: Repository = Path()) -> None:
    """Have git call Treering after each commit, merge, checkout and rebase.

    The hooks ingest in the background, and hold nothing up. With --sync a
    merge and the checkout of a branch also bring what others left at the
    remote, and a push to it also leaves what is new here. What stands in a
    hook stays; `treering hook uninstall` puts it back byte for byte. Without
    --space they use the space of the work tree they are called in, if there
    is one.
    """
    watching.install(access, repository, sharing)


def uninstall(access: Access, repository: Repository = Path()) -> None:
    """Take Treering out of the hooks of a repository."""
    watching.uninstall(access, repository)


def status(access: Access, repository: Repository = Path()) -> None:
    """Tell which hooks there are, and how the last run ended."""
    watching.status(access, repository)


def run(
    access: Access,
    sharing: SharingFlags,
    push: Annotated[bool, Option("--push", help="Do not ingest: sync both ways, as before a push.")] = False,
) -> None:
    """Do what the hooks do: ingest the repository of this folder, then sync.

    One run at a time; one that is asked for meanwhile follows it. Without a
    space nothing is done. TREERING_HOOK_SYNC=0 keeps it from syncing.
    """
    watching.run(access, sharing, push=push)
