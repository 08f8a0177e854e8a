"""The ledger on SQLite: one file per space, any number of processes."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Conflict, InvalidInput, TreeringError, Unavailable
from treering.core.policy import Policy
from treering.ports.ledger import (
    AnchorStore,
)
from treering.ports.runtime import Clock
from treering.stores.rows.ledger import DatabaseLedger
from treering.stores.rows.packing import rows_of
from treering.stores.rows.session import Follower
from treering.stores.sqlite.database import Database, translated
from treering.stores.sqlite.files import held, hidden_beside, left_beside, publish, remove_left
from treering.stores.sqlite.ledger.schema import is_current, is_quick, is_readable, migrate
from treering.stores.sqlite.ledger.session import SqliteRows, SqliteSession, is_overwriting_due, overwrite
from treering.stores.sqlite.ledger.snapshot import SqliteSnapshot
from treering.stores.sqlite.ready import remove_ready
from treering.system.machine import make_folder, sync_folder, write_new

# A copy of a space as one file, made while others write, and checked before it gets its name.


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
        # Into a file of no bytes, which is there already: for its owner alone. A plain copy of all pages would hold
        # what erasure has not overwritten yet.
        connection.execute("VACUUM INTO ?", (str(new),))
        copied(total, total)


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


_OVERWRITING_SECONDS = 2.0  # for each step, while readers and writers of other processes are in the way


class SqliteLedger(DatabaseLedger[apsw.Connection]):
    """`ports.ledger.Ledger` over a `Database`. Followers move in the same transactions.

    `policy` holds as long as the space tells of none: another process may have given another one, so set it with
    `change_policy` where it has to hold for all.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        policy: Policy | None = None,
        followers: Sequence[Follower[apsw.Connection]] = (),
        anchor: AnchorStore | None = None,
    ) -> None:
        super().__init__(
            database.path,
            read=database.read,
            write=database.write,
            read_whole=database.read_fresh,
            snapshot=SqliteSnapshot,
            rows=SqliteRows,
            clock=clock,
            policy=policy,
            anchor=anchor,
        )
        self._database = database
        self._followers = tuple(followers)
        if not self._is_prepared():
            if database.read_only:
                raise _outdated(database.path)
            with database.write() as connection:
                migrate(connection, database.path)
                for follower in self._followers:
                    follower.prepare(connection)
        self._check_anchor()
        if not database.read_only:
            # What a process that was killed, or found others in its way, has left to do. Nobody is waited for.
            self._overwrite(wait_seconds=0)
            with suppress(TreeringError):
                remove_left_copies(database)

    def compact(self) -> tuple[str, ...]:
        """Overwrite and release what erasure left behind in the file and its log; say what could not be yet."""
        try:
            left = remove_left_copies(self._database)
        except TreeringError as error:
            left = (error.message,)
        copies = tuple(f"an unfinished copy ({file})" for file in left)
        return (*self._overwrite(wait_seconds=_OVERWRITING_SECONDS), *copies)

    def back_up(self, target: Path, *, replace: bool, copied: Copied) -> Anchor:
        """Copy the space into a new file while others use it; see `back_up`."""
        # Read before copying: the head it names is in the copy, whatever is written meanwhile.
        kept = self._kept_anchor()
        return back_up(self._database, target, anchor=kept, replace=replace, copied=copied)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _session(self, connection: apsw.Connection) -> SqliteSession:
        return SqliteSession(
            connection, self._checks, clock=self._clock, policy=self._default_policy, followers=self._followers
        )

    def _is_prepared(self) -> bool:
        """Look before writing: a process that only wants to read waits for no writer, not even to open the space."""
        with rows_of("the ledger"), self._database.read() as connection:
            writable = is_current(connection) and is_quick(connection)
            ready = is_readable(connection) if self._database.read_only else writable
            return ready and all(follower.is_prepared(connection) for follower in self._followers)

    def _overwrite(self, *, wait_seconds: float) -> tuple[str, ...]:
        try:
            with rows_of("the ledger"), self._database.read() as connection:
                due = is_overwriting_due(connection)
            if due:
                remove_ready(self._database.path)
                self._database.outside_transaction(overwrite, wait_seconds=wait_seconds)
        except TreeringError as error:
            # The erasure is committed and noted: what is left is said, and raises nothing.
            return (f"free pages in the space's file, and its log ({error.message})",)
        except OSError as error:
            return (f"prepared files of the space ({error})",)
        return ()


def _outdated(path: str) -> Unavailable:
    return Unavailable(
        f"{path} was written by another version of Treering or for another model: its index must be "
        "rebuilt, but the file is read-only.",
        hint="Copy the space to a folder that you can write to, and open the copy.",
    )
