"""The ledger on SQLite: one file per space, used by any number of processes."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from treering.core.audit import Anchor
from treering.core.errors import TreeringError, Unavailable
from treering.core.policy import Policy
from treering.ports.ledger import AnchorStore
from treering.ports.runtime import Clock
from treering.stores.rows.damage import rows_of
from treering.stores.rows.ledger import DatabaseLedger
from treering.stores.rows.session import Follower, LedgerParts
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.ledger.backup import Copied, back_up, remove_left_copies
from treering.stores.sqlite.ledger.schema import is_current, is_quick, migrate
from treering.stores.sqlite.ledger.session import SqliteRows, SqliteSession, is_overwriting_due, overwrite
from treering.stores.sqlite.ledger.snapshot import SqliteSnapshot
from treering.stores.sqlite.ready import remove_ready

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
            LedgerParts(clock, policy or Policy(), tuple(followers)),
            read=database.read,
            write=database.write,
            read_whole=database.read_fresh,
            snapshot=SqliteSnapshot,
            rows=SqliteRows,
            anchor=anchor,
        )
        self._database = database
        if not self._is_prepared():
            if database.read_only:
                raise _outdated(database.path)
            with database.write() as connection:
                migrate(connection, database.path)
                for follower in self._parts.followers:
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

    def out_of_reach(self) -> tuple[str, ...]:
        """Return nothing: `compact` overwrites all copies in the files."""
        return ()

    def back_up(self, target: Path, *, replace: bool, copied: Copied) -> Anchor:
        """Copy the space into a new file while others use it; see `back_up`."""
        # Read before copying, so that the copy contains the event.
        stored = self._kept_anchor()
        return back_up(self._database, target, anchor=stored, replace=replace, copied=copied)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _session(self, connection: apsw.Connection) -> SqliteSession:
        return SqliteSession(connection, self._parts)

    def _is_prepared(self) -> bool:
        """Check with a read, so that opening a space for reading does not wait for writers."""
        with rows_of("the ledger"), self._database.read() as connection:
            ready = is_current(connection) and (self._database.read_only or is_quick(connection))
            return ready and all(follower.is_prepared(connection) for follower in self._parts.followers)

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
