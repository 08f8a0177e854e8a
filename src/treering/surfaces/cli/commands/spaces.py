"""Commands that create, back up and maintain a space."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput, NotFound
from treering.registry import brought
from treering.surfaces.cli.flags import Access, add_commands
from treering.surfaces.cli.printing import line, say
from treering.surfaces.cli.session import answer, opened, terminable, watched
from treering.system.address import Address, shown_address
from treering.system.settings import Settings
from treering.version import __version__

if TYPE_CHECKING:
    from treering.ports.runtime import Holding
    from treering.surfaces.python.space import Space


def add_spaces(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, init, backup, vectors, unlock, version)


def init(
    access: Access,
    here: Annotated[
        bool, Option("--here", help="Give this folder its own space, even inside a repository that has one.")
    ] = False,
) -> None:
    """Create a space for this repository or folder, or at --space.

    All work trees of a repository share its space, wherever they are.
    """
    settings = Settings.read()
    if here and access.space:
        raise InvalidInput("--here and --space name different spaces.", hint="Give only one of them.")
    named = "" if here else access.space or settings.space
    address = settings.space_address(named) if named else settings.own_space if here else settings.new_space
    existed = _exists(address)
    with opened(address, create=True):
        facts = {"address": str(address), "created": not existed}
    place = shown_address(address)
    message = f"There is already a space: {place}" if existed else f"Created a space: {place}"
    answer(access, facts, [line(message), line("Read this folder with: treering add .")])


def _exists(address: Address) -> bool:
    """Return whether a stored space exists."""
    try:
        with opened(address):
            return not address.in_memory
    except NotFound:
        return False


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="The file to copy the space to.")],
    access: Access,
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Copy a space to a new file while others use it.

    The copy is verified and is itself a space: to restore it, open it.
    """
    with opened(access) as space, watched(space) as busy:
        head = busy.backup(file, replace=force)
    facts = {"file": str(file), "bytes": file.stat().st_size, "head": head.model_dump()}
    message = (
        f"Backed up to {file}: {facts['bytes']} bytes, the audit log verifies up to event {head.seq} ({head.hash})."
    )
    answer(access, facts, [line(message)])


def vectors(
    access: Access,
    quiet: Annotated[
        bool, Option("--quiet", help="Print nothing, and exit at once if another process is running.")
    ] = False,
) -> None:
    """Embed everything that is pending.

    Until then, search finds new content only by words and names.
    """
    from treering.verbs.lint.upkeep import VECTORS

    with opened(access, catching_up=True) as space:
        if quiet:
            _work_quietly(space)
            return
        with watched(space) as busy:
            report = busy.perform(VECTORS)
            busy.engine.vectoriser.work_alone(busy.engine.progress)  # to prepare tables
            _after_embedding(busy)
        ready = report.total - report.pending
        answer(access, report, [line(f"Embedded {report.made} texts; {ready} of {report.total} are done.")])


def _work_quietly(space: "Space") -> None:
    """Embed pending passages if no other process does, at a low priority. Stops in the normal way on SIGTERM."""
    from treering.models.vectoriser import EMBEDDING
    from treering.ports.runtime import VECTORS
    from treering.verbs.query.space_status import pace_notes

    engine, lag = space.engine, space.engine.index.vectors.lag()
    is_due = lag.pending or lag.behind or engine.vectoriser.has_tables_to_prepare()
    if not (is_due and engine.leases.holder(VECTORS) is None):
        return
    begun, ready, note_pace = engine.clock.elapsed(), lag.total - lag.pending, pace_notes(engine)

    def note(what: str, done: int, _total: int | None) -> None:
        if what == EMBEDDING:
            note_pace(done - ready, engine.clock.elapsed() - begun)

    with terminable():
        engine.vectoriser.work_alone(note)
        _after_embedding(space)


def _after_embedding(space: "Space") -> None:
    for tend in brought("on_vectors_ready"):
        tend(space)


def unlock(
    access: Access,
    name: Annotated[str, Argument(metavar="NAME", help="The lease to release, as named in the list.")] = "",
) -> None:
    """List the leases of a space, or release one.

    A lease lets one process at a time make vectors or memories. A lease that is
    not renewed expires, so release one only if its process hangs but renews it.
    """
    from treering.verbs.lint.upkeep import LEASES, UNLOCK

    with opened(access) as space:
        if not name:
            leases = space.perform(LEASES)
            answer(
                access, leases, [line(_lease_line(one)) for one in leases.held] or [line("No leases are held here.")]
            )
            return
        report = space.perform(UNLOCK, input={"name": name})
    released = line(f"Released: {_lease_line(report.cleared)}")
    answer(access, report, [released, line("Its holder stops at its next renewal.", indent=2)])


def _lease_line(one: "Holding") -> str:
    name, process = visible_line(one.name), one.process
    return f"{name}: held by process {process}, renewed {one.renewed:.0f} s ago, lapses in {one.left:.0f} s."


def version() -> None:
    """Print the version."""
    say(f"treering {__version__}")
