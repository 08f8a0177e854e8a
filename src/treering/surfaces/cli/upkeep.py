"""What the commands that make, move and serve a space do."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from treering.core.characters import visible_line
from treering.core.counting import counted_things
from treering.core.errors import Conflict, InvalidInput, NotFound, TreeringError
from treering.models.vectoriser import EMBEDDING
from treering.ports import runtime
from treering.ports.runtime import Holding
from treering.registry import brought
from treering.spaces import merging, transfer
from treering.spaces import sync as syncing
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, line, say
from treering.surfaces.cli.session import answer, bars, embed_later, opened, prepare, terminable, watched
from treering.surfaces.python.space import Space
from treering.system import proof_checking
from treering.system.address import Address, file_address, shown_address
from treering.system.machine import sync_folder
from treering.system.settings import Settings
from treering.verbs.lint.upkeep import LEASES, UNLOCK, VECTORS
from treering.verbs.query.space_status import note_pace


def init(access: Access, *, here: bool) -> None:
    """Make a space. Without an address it is the repository's, or with `here` this folder's own.

    Raises `InvalidInput` for both.
    """
    settings = Settings.read()
    if here and access.space:
        raise InvalidInput("--here and --space name different spaces.", hint="Give only one of them.")
    named = "" if here else access.space or settings.space
    address = settings.space_address(named) if named else settings.own_space if here else settings.new_space
    existed = _is_there(address)
    with opened(address, create=True):
        facts = {"address": str(address), "created": not existed}
    place = shown_address(address)
    said = f"There is already a space: {place}" if existed else f"Created a space: {place}"
    lines = [line(said), line("Read this folder with: treering add .")]
    answer(access, facts, lines)


def backup(file: Path, access: Access, *, replace: bool) -> None:
    """Copy a space to a file."""
    with opened(access) as space, watched(space) as busy:
        head = busy.backup(file, replace=replace)
    facts = {"file": str(file), "bytes": file.stat().st_size, "head": head.model_dump()}
    said = f"Backed up to {file}: {facts['bytes']} bytes, the audit log verifies up to event {head.seq} ({head.hash})."
    answer(access, facts, [line(said)])


def move(source: str, target: str, *, as_json: bool) -> None:
    """Copy a space to another address."""
    settings = Settings.read()
    place = settings.space_address(target)
    prepare(place)
    with bars() as advance:
        report = transfer.move(settings.space_address(source), place, progress=advance)
    facts = {"address": str(place), **report.model_dump()}
    head, said = report.head, f"{_listed(report.counts)}, {report.vectors} vectors"
    lines = [
        line(f"Moved to {place}: {said}."),
        line(f"Same as the source; the audit log verifies up to event {head.seq} ({head.hash}).", indent=2),
    ]
    answer(Access(as_json=as_json), facts, lines)


def diff(left: str, right: str, *, as_json: bool) -> None:
    """Compare two spaces."""
    report = merging.diff(left, right)
    lines = [line(f"{report.alike} objects are the same; {len(report.differences)} differ.")]
    marks = {"left": "-", "right": "+", "both": "~"}
    for one in report.differences:
        states = " -> ".join(dict.fromkeys(filter(None, (one.left, one.right))))
        lines.append(line(f"{marks[one.where]} {one.id} {one.title} ({states})", indent=2))
    lines.append(line(f"Changes: {report.common} in both, {report.left_only} and {report.right_only} in one only."))
    answer(Access(as_json=as_json), report, lines)


def merge(other: str, access: Access) -> None:
    """Merge another space into the one that is opened."""
    with opened(access) as space:
        report = space.merge(other)
    stay = f"Patches waiting for review stay in the other space: {len(report.waiting)} (treering review list there)."
    answer(access, report, [*_of_merge(report), *([line(stay)] if report.waiting else [])])


def sync(access: Access, remote: str, *, fetch: bool, push: bool, key: Path | None, signers: Path | None) -> None:
    """Share a space over a remote. A space that does not exist yet is created for what others shared."""
    wishes = syncing.SyncWishes(fetch=fetch or not push, push=push or not fetch, key=key, signers=signers)
    address = Settings.read().space_address(access.space or None)
    with _removed_if_new(address.file), opened(access, create=wishes.fetch) as space:
        report = space.sync(remote, wishes)
    lines = list[IndentedLine]()
    if wishes.push:
        sent = f"{counted_things(report.sent, 'change')} ({report.bytes:,} bytes)" if report.sent else "nothing new"
        lines.append(line(f"Sent {sent} to {report.remote}."))
    if report.received:
        lines += _of_merge(report.received)
    elif wishes.fetch:
        lines.append(line("Nothing new received." if report.replicas else "No other copies there yet."))
    if report.waiting:
        lines.append(line(f"Not sent: {len(report.waiting)} waiting for review. See: treering review list"))
    answer(access, report, [*lines, *(line(one) for one in report.warnings)])


@contextmanager
def _removed_if_new(file: Path | None) -> Iterator[None]:
    """Remove the file of a space again if it was created for something that failed."""
    is_new = file is not None and not file.exists()
    try:
        yield
    except TreeringError:
        if file and is_new:
            _remove_space(file)
        raise


def _remove_space(file: Path) -> None:
    for end in ("", "-wal", "-shm"):
        file.with_name(file.name + end).unlink(missing_ok=True)


def _of_merge(report: merging.MergeReport) -> list[IndentedLine]:
    if not (report.entries or report.created or report.changed or report.erased):
        return [line("Nothing new received.")]
    counts = {
        "new": report.created,
        "changed": report.changed,
        "contested": report.contested,
        "stale": report.staled,
        "erased": report.erased,
    }
    said = ", ".join(f"{len(ids)} {what}" for what, ids in counts.items() if ids) or "nothing changed"
    lines = [line(f"Received {counted_things(report.entries, 'change')}: {said}.")]
    return lines + [line(f"contested: {identity}", indent=2) for identity in report.contested[:20]]


def export(folder: Path, access: Access) -> None:
    """Write a space as plain files."""
    with opened(access) as space:
        counts = space.export(folder)
    answer(access, {"folder": str(folder), "counts": counts}, [line(f"Exported to {folder}: {_listed(counts)}.")])


def import_from(folder: Path, access: Access, writing: WriteFlags) -> None:
    """Fill an empty space. Where there is none yet, one appears only when it is complete."""
    address = Settings.read().space_address(access.space or None)
    file = address.file
    if file is None or file.exists():
        with opened(access, writing, create=True) as space:
            counts = space.import_from(folder)
    else:
        counts = _import_new(folder, file, address, writing)
    with opened(access, writing) as space:
        said = line(f"Imported from {folder}: {_listed(counts)}.")
        answer(access, {"address": str(space.address), "counts": counts}, [said])
        embed_later(space, writing)


def _import_new(folder: Path, file: Path, address: Address, writing: WriteFlags) -> dict[str, int]:
    prepare(address)
    partial = file.with_name(f".{file.name}.{os.getpid()}.importing")
    try:
        with opened(file_address(partial), replace(writing, no_background=True), create=True) as space:
            counts = space.import_from(folder)
        if file.exists():
            raise Conflict(
                f"There is a space at {address}now; another process created it.", hint="Use another address."
            )
        partial.rename(file)
        sync_folder(file.parent)
    finally:
        _remove_space(partial)
    return counts


def vectors(access: Access, *, quiet: bool) -> None:
    """Make all vectors that wait, after an index that is being made anew; quietly, only where nobody else is at it."""
    with opened(access, catching_up=True) as space:
        if quiet:
            _work_quietly(space)
            return
        with watched(space) as busy:
            report = busy.perform(VECTORS)
        _tend(space)
        ready = report.total - report.pending
        answer(access, report, [line(f"Embedded {report.made} texts; {ready} of {report.total} are done.")])


def _work_quietly(space: Space) -> None:
    """Make what waits where no other process is at it, giving way to other programs. SIGTERM ends it in order."""
    engine, lag = space.engine, space.engine.index.vectors.lag()
    if not ((lag.pending or lag.behind) and engine.leases.holder(runtime.VECTORS) is None):
        return
    begun, ready = engine.clock.elapsed(), lag.total - lag.pending

    def note(what: str, done: int, _total: int | None) -> None:
        if what == EMBEDDING:
            note_pace(engine, done - ready, engine.clock.elapsed() - begun)

    with terminable():
        engine.vectoriser.work_alone(note)
        _tend(space)


def _tend(space: Space) -> None:
    for tend in brought("tending"):
        tend(space)


def verify(
    file: Path | None, anchor: Path | None, clone: Path | None, signers: Path | None, *, checker: bool, as_json: bool
) -> None:
    """Check a proof and tell what holds, or print the program that does. Exits with 1 where something does not."""
    if checker:
        from treering.spaces.proof import checker as checker_of_proofs  # it brings what answers questions with it

        say(checker_of_proofs())
        return
    if file is None:
        raise InvalidInput(
            "treering verify needs a proof.", hint="Give the file written by `treering query --proof FILE`."
        )
    told, problems = proof_checking.verify(file, anchor, clone, signers)
    answer(Access(as_json=as_json), {"holds": told, "problems": problems}, map(line, (*told, *problems)))
    if problems:
        raise typer.Exit(1)


def unlock(name: str, access: Access) -> None:
    """List the leases of a space, or take one away from its holder."""
    with opened(access) as space:
        if not name:
            leases = space.perform(LEASES)
            answer(access, leases, [line(_told(one)) for one in leases.held] or [line("No leases are held here.")])
            return
        report = space.perform(UNLOCK, input={"name": name})
    told = line(f"Released: {_told(report.cleared)}")
    answer(access, report, [told, line("Its holder stops at its next renewal.", indent=2)])


def _is_there(address: Address) -> bool:
    """Tell whether there is a space already. One in memory is new every time."""
    try:
        with opened(address):
            return not address.in_memory
    except NotFound:
        return False


def _told(one: Holding) -> str:
    name, process = visible_line(one.name), one.process
    return f"{name}: held by process {process}, renewed {one.renewed:.0f} s ago, lapses in {one.left:.0f} s."


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(counted_things(count, table) for table, count in counts.items())
