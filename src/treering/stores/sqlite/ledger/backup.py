"""Copies of a space as one file, made while others write, and verified."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Conflict, InvalidInput, TreeringError
from treering.stores.rows.damage import rows_of
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.errors import translated
from treering.stores.sqlite.files import held, hidden_beside, left_beside, publish, remove_left
from treering.stores.sqlite.ledger.session import SqliteRows
from treering.system.machine import make_folder, sync_folder, write_new

Copied = Callable[[int, int], None]
"""Called with the number of copied bytes and an upper bound of the total."""


_STEPS = 20_000  # instructions of SQLite between two reports of progress


def back_up(database: Database, target: Path, *, anchor: Anchor | None, replace: bool, copied: Copied) -> Anchor:
    """Copy a space into a new file; return the head of the copy's audit log.

    Writers are not blocked. The copy is compact and contains no erased data. Its pages and its log are verified (also
    that the log contains the `anchor`); then the file is renamed to its name. Raises `Conflict` if `target` exists and
    is not to be replaced, or is in use; `Corrupt` if the space does not verify.
    """
    with translated(str(target)):
        target = Path(os.path.realpath(target))
        _check_target(database, target, replace=replace)
        make_folder(target.parent)
        for left in left_beside(target):
            remove_left(left)
        new = hidden_beside(target)
        try:
            write_new(new, b"")
            with held(new):
                _note(database, new)
                _copy(database, new, copied)
                _release(new)
                head = _verified(new, anchor)
                _sync(new)
            _publish(new, target, replace=replace)
        finally:
            new.unlink(missing_ok=True)
            _forget(database, [str(new)])
    return head


def remove_left_copies(database: Database) -> tuple[str, ...]:
    """Delete unfinished copies of killed processes; return those that could not be deleted.

    Copies next to the space are found by name. Others are listed in the table `copies_begun`, which is neither audited
    nor exported.
    """
    if database.in_memory or database.read_only:
        return ()
    with translated(database.path):
        for left in left_beside(Path(os.path.realpath(database.path))):
            remove_left(left)
        noted = _noted(database)
        gone = [file for file in noted if remove_left(Path(file))]
    _forget(database, gone)
    return tuple(file for file in noted if file not in gone)


def _noted(database: Database) -> list[str]:
    with database.read() as connection:
        if not _has_notes(connection):
            return []
        return [file for (file,) in connection.execute("SELECT file FROM copies_begun ORDER BY file")]


def _note(database: Database, new: Path) -> None:
    """Store the path of a copy. A read-only space is copied without it."""
    if database.in_memory or database.read_only:
        return
    with suppress(TreeringError), database.write() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS copies_begun(file TEXT PRIMARY KEY) WITHOUT ROWID")
        connection.execute("INSERT OR IGNORE INTO copies_begun(file) VALUES(?)", (str(new),))


def _forget(database: Database, files: Sequence[str]) -> None:
    if not files or database.in_memory or database.read_only:
        return
    with suppress(TreeringError), database.write() as connection:
        if _has_notes(connection):
            connection.executemany("DELETE FROM copies_begun WHERE file = ?", [(file,) for file in files])


def _has_notes(connection: apsw.Connection) -> bool:
    return next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'copies_begun'"), None) is not None


def _check_target(database: Database, target: Path, *, replace: bool) -> None:
    if not target.exists():
        return
    if not replace:
        raise _taken(target)
    if not database.in_memory and target.samefile(database.path):
        raise InvalidInput(f"{target} is the space itself.", hint="Choose another file for the backup.")
    beside = [place for place in (Path(f"{target}-wal"), Path(f"{target}-shm")) if place.exists()]
    if beside:
        raise Conflict(
            f"{target} is in use, or was not closed: {beside[0].name} is next to it.",
            hint="Close the program that uses it, or choose another file for the backup.",
        )


def _copy(database: Database, new: Path, copied: Copied) -> None:
    with database.separate() as connection:
        total = connection.pragma("page_count") * connection.pragma("page_size")

        def report() -> bool:
            copied(min(new.stat().st_size, total), total)
            return False

        connection.set_progress_handler(report, _STEPS)
        # The target is an empty file, readable only by its owner. Copying all pages instead would include erased data.
        connection.execute("VACUUM INTO ?", (str(new),))
        copied(total, total)


def _release(new: Path) -> None:
    """Delete the leases of processes that work on the original, and its list of copies."""
    with translated(str(new)):
        connection = apsw.Connection(str(new), apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.pragma("journal_mode", "memory")
            for table in ("held_leases", "copies_begun"):
                if connection.table_exists(None, table):
                    connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        finally:
            connection.close()


def _verified(new: Path, anchor: Anchor | None) -> Anchor:
    with translated(str(new)), rows_of("the space"):
        connection = apsw.Connection(str(new), apsw.SQLITE_OPEN_READONLY)
        try:
            return SqliteRows(connection).verify(anchor=anchor)
        finally:
            connection.close()


def _sync(new: Path) -> None:
    with new.open("rb+") as file:
        os.fsync(file.fileno())


def _publish(new: Path, target: Path, *, replace: bool) -> None:
    try:
        if replace:
            new.replace(target)
            sync_folder(target.parent)
        else:
            publish(new, target)
    except FileExistsError:
        raise _taken(target) from None


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} already exists.", hint="Choose a new file, or replace it with --force (`replace=True`).")
