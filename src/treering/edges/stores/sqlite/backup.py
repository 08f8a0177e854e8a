"""A copy of a space as one file, made while others write, and checked before it gets its name."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Conflict, InvalidInput, TreeringError
from treering.edges.ledger_rows.row_failures import rows_of
from treering.edges.private_files import make_folder, sync_folder, write_new
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.failures import translated
from treering.edges.stores.sqlite.files import held, hidden_beside, left_beside, publish, remove_left
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
        for left in left_beside(target):
            remove_left(left)
        new = hidden_beside(target)
        try:
            write_new(new, b"")
            with held(new):
                _note(database, new)
                _copy(database, new, copied)
                head = _verified(new, anchor)
                _sync(new)
            _publish(new, target, replace=replace)
        finally:
            new.unlink(missing_ok=True)
            _forget(database, [str(new)])
    return head


def remove_left_copies(database: Database) -> tuple[str, ...]:
    """Remove what processes left that were killed while they copied this space; return what is still there.

    Beside the space itself that is found by its name. Elsewhere a note names it: a row of the table `copies_begun`,
    which is neither audited nor exported, and goes with the copy that it is of.
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
    """Note where a copy is being made. A space that cannot be written is copied all the same."""
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
    return Conflict(f"{target} exists already.", hint="Name a new file, or replace it with --force (`replace=True`).")
