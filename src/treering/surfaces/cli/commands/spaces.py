"""Commands that create, copy, serve and check a space."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from treering.core.characters import visible_line
from treering.core.counting import counted_things
from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.registry import brought
from treering.surfaces.cli.flags import Access, AsJson, WriteFlags, add_commands
from treering.surfaces.cli.printing import line, say, show, terminal
from treering.surfaces.cli.session import answer, bars, embed_later, opened, prepare, remove_space, terminable, watched
from treering.system.address import Address, file_address, shown_address
from treering.system.machine import sync_folder
from treering.system.settings import Settings
from treering.version import __version__

if TYPE_CHECKING:
    from treering.ports.runtime import Holding
    from treering.surfaces.python.space import Space

Folder = Annotated[Path, Argument(metavar="FOLDER", help="The folder of the plain files.")]


def add_spaces(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, try_, init, backup, move, export, import_, vectors, unlock, verify, version)


def try_(
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
    from treering.surfaces.cli.trying import steps

    console = terminal()
    with TemporaryDirectory(prefix="treering-") as folder:
        place = Path(folder)
        with opened(file_address(place / "try.db"), create=True) as space:
            for lines in steps(space, place, question, wait=wait):
                show(console, lines)


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


def move(
    source: Annotated[str, Argument(metavar="FROM", help="The address of the space to copy.")],
    target: Annotated[str, Argument(metavar="TO", help="The destination: a new file, or a new space of a database.")],
    as_json: AsJson = False,
) -> None:
    """Copy a space to another file or database.

    The copy has the same ids and the same audit log, and is compared with the
    original, which stays unchanged. Run again to resume an interrupted copy.
    """
    from treering.spaces import transfer

    settings = Settings.read()
    place = settings.space_address(target)
    prepare(place)
    with bars() as advance:
        report = transfer.move(settings.space_address(source), place, progress=advance)
    facts = {"address": str(place), **report.model_dump()}
    head = report.head
    lines = [
        line(f"Moved to {place}: {_listed(report.counts)}, {report.vectors} vectors."),
        line(f"Same as the source; the audit log verifies up to event {head.seq} ({head.hash}).", indent=2),
    ]
    answer(Access(as_json=as_json), facts, lines)


def export(folder: Folder, access: Access) -> None:
    """Write a space as plain files into a new folder."""
    with opened(access) as space:
        counts = space.export(folder)
    answer(access, {"folder": str(folder), "counts": counts}, [line(f"Exported to {folder}: {_listed(counts)}.")])


def import_(folder: Folder, writing: WriteFlags, access: Access) -> None:
    """Fill an empty space from an export.

    Keeps the ids and the audit log of the export.
    """
    address = Settings.read().space_address(access.space or None)
    file = address.file
    if file is None or file.exists():
        with opened(access, writing, create=True) as space:
            counts = space.import_from(folder)
    else:
        counts = _import_new(folder, file, address, writing)
    with opened(access, writing) as space:
        message = f"Imported from {folder}: {_listed(counts)}."
        answer(access, {"address": str(space.address), "counts": counts}, [line(message)])
        embed_later(space, writing)


def _import_new(folder: Path, file: Path, address: Address, writing: WriteFlags) -> dict[str, int]:
    prepare(address)
    partial = file.with_name(f".{file.name}.{os.getpid()}.importing")
    try:
        with opened(file_address(partial), replace(writing, no_background=True), create=True) as space:
            counts = space.import_from(folder)
        if file.exists():
            raise Conflict(
                f"There is a space at {address} now; another process created it.", hint="Use another address."
            )
        partial.rename(file)
        sync_folder(file.parent)
    finally:
        remove_space(partial)
    return counts


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(counted_things(count, table) for table, count in counts.items())


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
        _after_embedding(space)
        ready = report.total - report.pending
        answer(access, report, [line(f"Embedded {report.made} texts; {ready} of {report.total} are done.")])


def _work_quietly(space: "Space") -> None:
    """Embed pending passages if no other process does, at a low priority. Stops in the normal way on SIGTERM."""
    from treering.models.vectoriser import EMBEDDING
    from treering.ports.runtime import VECTORS
    from treering.verbs.query.space_status import note_pace

    engine, lag = space.engine, space.engine.index.vectors.lag()
    if not ((lag.pending or lag.behind) and engine.leases.holder(VECTORS) is None):
        return
    begun, ready = engine.clock.elapsed(), lag.total - lag.pending

    def note(what: str, done: int, _total: int | None) -> None:
        if what == EMBEDDING:
            note_pace(engine, done - ready, engine.clock.elapsed() - begun)

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
    if checker:
        from treering.spaces.proof import checker as checker_program

        say(checker_program())
        return
    if proof is None:
        raise InvalidInput(
            "treering verify needs a proof.", hint="Give the file written by `treering query --proof FILE`."
        )
    from treering.system import proof_checking

    facts, problems = proof_checking.verify(proof, anchor, clone, signers)
    answer(Access(as_json=as_json), {"holds": facts, "problems": problems}, map(line, (*facts, *problems)))
    if problems:
        raise Exit(1)


def version() -> None:
    """Print the version."""
    say(f"treering {__version__}")
