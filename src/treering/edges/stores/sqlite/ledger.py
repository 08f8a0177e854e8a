"""The ledger on SQLite: one file per space, any number of processes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Corrupt, TreeringError, Unavailable
from treering.core.policy import Policy
from treering.edges.stores.sqlite.backup import Copied, back_up, remove_left_copies
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.follower import Follower
from treering.edges.stores.sqlite.overwriting import is_overwriting_due, overwrite
from treering.edges.stores.sqlite.reads import SqliteReads
from treering.edges.stores.sqlite.ready import remove_ready
from treering.edges.stores.sqlite.schema import is_current, is_quick, is_readable, migrate
from treering.edges.stores.sqlite.session import SqliteSession
from treering.edges.stores.sqlite.verification import verify_ledger
from treering.ports.clock import Clock
from treering.ports.ledger import AnchorStore
from treering.ports.ledger_writes import LedgerWrites

_OVERWRITING_SECONDS = 2.0  # for each step, while readers and writers of other processes are in the way


class SqliteLedger(LedgerWrites, SqliteReads):
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
        followers: Sequence[Follower] = (),
        anchor: AnchorStore | None = None,
    ) -> None:
        super().__init__(database, policy=policy)
        self._clock = clock
        self._followers = tuple(followers)
        self._anchor = anchor
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

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Check the audit chain, every revision against it, and every segment against its hash."""
        kept = anchor or (self._anchor.read() if self._anchor else None)
        with self._read(fresh=True) as connection:
            return verify_ledger(connection, anchor=kept)

    def compact(self) -> tuple[str, ...]:
        """Overwrite and release what erasure left behind in the file and its log; say what could not be yet."""
        try:
            left = remove_left_copies(self._database)
        except TreeringError as error:
            left = (error.message,)
        copies = tuple(f"a copy that was begun and not finished ({file})" for file in left)
        return (*self._overwrite(wait_seconds=_OVERWRITING_SECONDS), *copies)

    def back_up(self, target: Path, *, replace: bool, copied: Copied) -> Anchor:
        """Copy the space into a new file while others use it; see `backup.back_up`."""
        # Read before copying: the head it names is in the copy, whatever is written meanwhile.
        kept = self._anchor.read() if self._anchor else None
        return back_up(self._database, target, anchor=kept, replace=replace, copied=copied)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[SqliteSession]:
        """Hold the one write transaction; once it is durable, tell the anchor how far the log has come."""
        with self._database.write() as connection:
            session = self._session(connection)
            yield session
            session.finish(self._followers)
        if self._anchor and session.reached:
            self._anchor.write(session.reached)

    @contextmanager
    def _planning(self) -> Iterator[SqliteSession]:
        with self._database.read() as connection:
            yield self._session(connection)

    def _session(self, connection: apsw.Connection) -> SqliteSession:
        return SqliteSession(connection, self._checks, clock=self._clock, policy=self._default_policy)

    def _is_prepared(self) -> bool:
        """Look before writing: a process that only wants to read waits for no writer, not even to open the space."""
        with self._read() as connection:
            writable = is_current(connection) and is_quick(connection)
            ready = is_readable(connection) if self._database.read_only else writable
            return ready and all(follower.is_prepared(connection) for follower in self._followers)

    def _overwrite(self, *, wait_seconds: float) -> tuple[str, ...]:
        try:
            with self._read() as connection:
                due = is_overwriting_due(connection)
            if due:
                remove_ready(self._database.path)
                self._database.outside_transaction(overwrite, wait_seconds=wait_seconds)
        except TreeringError as error:
            # The erasure is committed and noted: what is left is said, and raises nothing.
            return (f"freed pages of the space's file, and its log ({error.message})",)
        except OSError as error:
            return (f"what is kept ready beside the space's file ({error})",)
        return ()

    def _check_anchor(self) -> None:
        kept = self._anchor.read() if self._anchor else None
        if kept is None or kept.seq == 0:
            return
        row = self._database.row("SELECT hash FROM audit WHERE seq = ?", (kept.seq,))
        if row is None or row[0] != kept.hash:
            raise Corrupt(
                f"{self._database.path} does not hold the audit event {kept.seq} its anchor names.",
                hint="Its tail was cut or an older copy was put back: restore the newest copy, then lint audit.",
                details={"seq": kept.seq},
            )


def _outdated(path: str) -> Unavailable:
    return Unavailable(
        f"{path} was written by another version of Treering or for another model: its index has to be made anew, "
        "and it can only be read.",
        hint="Copy the space to a folder you can write in, and open the copy.",
    )
