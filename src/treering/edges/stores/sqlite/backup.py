"""A copy of a space as one file, made while others write, and checked before it gets its name."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Conflict, InvalidInput
from treering.edges.ledger_rows.row_failures import rows_of
from treering.edges.private_files import make_folder, sync_folder, write_new
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.failures import translated
from treering.edges.stores.sqlite.files import publish
from treering.edges.stores.sqlite.verification import verify_ledger

Copied = Callable[[int, int], None]
"""Called with how many bytes are copied, and of how many at most."""

_STEPS = 20_000  # of SQLite's machine, between two reports of progress


def back_up(database: Database, target: Path, *, anchor: Anchor | None, replace: bool, copied: Copied) -> Anchor:
    """Copy a space into a new file as it stands at one moment; return the head of the copy's audit log.

    Writers are not held up. The copy is compact: it holds nothing of what was erased. Its pages and its log are checked
    (`anchor`: also that the log passes through this), then it gets its name at once, or not at all. Raises `Conflict`
    where `target` is there, unless it is to be replaced, and always where it is in use; `Corrupt` where the space does
    not verify.
    """
    with translated(str(target)):
        target = Path(os.path.realpath(target))
        _check_target(database, target, replace=replace)
        make_folder(target.parent)
        new = target.with_name(f".{target.name}.{uuid4().hex}.new")
        try:
            write_new(new, b"")
            _copy(database, new, copied)
            head = _verified(new, anchor)
            _publish(new, target, replace=replace)
        finally:
            new.unlink(missing_ok=True)
    return head


def _check_target(database: Database, target: Path, *, replace: bool) -> None:
    if not target.exists():
        return
    if not replace:
        raise _taken(target)
    if not database.in_memory and target.samefile(database.path):
        raise InvalidInput(f"{target} is the space itself.", hint="Name another file for the backup.")
    beside = [place for place in (Path(f"{target}-wal"), Path(f"{target}-shm")) if place.exists()]
    if beside:
        raise Conflict(
            f"{target} is in use, or was not closed: {beside[0].name} is beside it.",
            hint="Close what uses it, or name another file for the backup.",
        )


def _copy(database: Database, new: Path, copied: Copied) -> None:
    with database.separate() as connection:
        total = connection.pragma("page_count") * connection.pragma("page_size")

        def report() -> bool:
            copied(min(new.stat().st_size, total), total)
            return False

        connection.set_progress_handler(report, _STEPS)
        # Into a file of no bytes, which is there already: for its owner alone. A plain copy of all pages would hold
        # what erasure has not overwritten yet.
        connection.execute("VACUUM INTO ?", (str(new),))
        copied(total, total)


def _verified(new: Path, anchor: Anchor | None) -> Anchor:
    with translated(str(new)), rows_of("the space"):
        connection = apsw.Connection(str(new), apsw.SQLITE_OPEN_READONLY)
        try:
            return verify_ledger(connection, anchor=anchor)
        finally:
            connection.close()


def _publish(new: Path, target: Path, *, replace: bool) -> None:
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    try:
        if replace:
            new.replace(target)
            sync_folder(target.parent)
        else:
            publish(new, target)
    except FileExistsError:
        raise _taken(target) from None


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} exists already.", hint="Name a new file, or replace it with --force (`replace=True`).")
