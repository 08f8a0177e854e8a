"""Commands that write a space as files or into another store, and read it back."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Typer

from treering.core.counting import counted_things
from treering.core.errors import Conflict
from treering.extensions.sharing.commands import remove_space
from treering.surfaces.cli.flags import Access, AsJson, WriteFlags, add_commands
from treering.surfaces.cli.printing import line
from treering.surfaces.cli.session import answer, bars, embed_later, opened, prepare
from treering.system.address import Address, file_address
from treering.system.machine import sync_folder
from treering.system.settings import Settings

Folder = Annotated[Path, Argument(metavar="FOLDER", help="The folder of the plain files.")]


def add_transfer(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, move, export, import_)


def move(
    source: Annotated[str, Argument(metavar="FROM", help="The address of the space to copy.")],
    target: Annotated[str, Argument(metavar="TO", help="The destination: a new file, or a new space of a database.")],
    as_json: AsJson = False,
) -> None:
    """Copy a space to another file or database.

    The copy has the same ids and the same audit log, and is compared with the
    original, which stays unchanged. Run again to resume an interrupted copy.
    """
    from treering.extensions.sharing import transfer

    settings = Settings.read()
    place = settings.space_address(target)
    prepare(place)
    with bars() as advance:
        report = transfer.move(settings.space_address(source), place, progress=advance)
    facts = {"address": str(place), **report.model_dump()}
    head = report.head
    lines = [
        line(f"Moved to {place}: {_listed(report.counts)}, {report.vectors} new vectors."),
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
