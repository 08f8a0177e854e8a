"""The ledger on SQLite: one file per space, used by any number of processes."""

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


_OVERWRITING_SECONDS = 2.0  # for each step, if other processes read or write


class SqliteLedger(DatabaseLedger[apsw.Connection]):
    """`ports.ledger.Ledger` over a `Database`. Followers are updated in the same transactions.

    `policy` is the default of a space without a policy. Another process may use another default; set the policy with
    `change_policy` to make it valid for all.
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
            # Finish the work of killed processes and of erasures that were blocked, without waiting.
            self._overwrite(wait_seconds=0)
            with suppress(TreeringError):
                remove_left_copies(database)

    def compact(self) -> tuple[str, ...]:
        """Overwrite erased data in the file and its log, and release the space; describe the data that remains."""
        try:
            left = remove_left_copies(self._database)
        except TreeringError as error:
            left = (error.message,)
        copies = tuple(f"an unfinished copy ({file})" for file in left)
        return (*self._overwrite(wait_seconds=_OVERWRITING_SECONDS), *copies)

    def back_up(self, target: Path, *, replace: bool, copied: Copied) -> Anchor:
        """Copy the space into a new file while others use it; see `back_up`."""
        # Read before copying, so that the copy contains the event.
        stored = self._kept_anchor()
        return back_up(self._database, target, anchor=stored, replace=replace, copied=copied)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _session(self, connection: apsw.Connection) -> SqliteSession:
        return SqliteSession(
            connection, self._checks, clock=self._clock, policy=self._default_policy, followers=self._followers
        )

    def _is_prepared(self) -> bool:
        """Check with a read, so that opening a space for reading does not wait for writers."""
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
            # The erasure is committed. The remaining work is reported, not raised.
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
