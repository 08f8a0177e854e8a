"""What a transaction asks of a ledger on SQLite, over the connection that holds the write transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

import apsw

from treering.core.audit import Anchor, AuditEvent
from treering.core.patch import Patch, PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.draft import View
from treering.core.writing.journal import Journal, Notice, erased_by
from treering.core.writing.plan import Plan
from treering.ports.index import Change
from treering.ports.ledger import Record
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.records import changes_of
from treering.stores.sqlite.ledger.log_tables import LogEnd, LogTables
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.ledger.rows import load_rows, verify_ledger

# What lives beside the ledger in its database and moves with it, in the same transaction.


class Follower(Protocol):
    """A projection in the ledger's own database."""

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether everything is there as `prepare` would leave it, so that opening need not wait for a writer."""
        ...

    def prepare(self, connection: apsw.Connection) -> None:
        """Make what is missing. In a write transaction, when a space is opened that is not prepared."""
        ...

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        ...


class SqliteSession:
    """`core.writing.transaction.Session` over a connection, for one transaction.

    Followers see its changes when it finishes.
    """

    def __init__(self, connection: apsw.Connection, checks: ReadChecks, *, clock: Clock, policy: Policy) -> None:
        self.view: View = ObjectTables(connection, checks)
        self.default_policy = policy
        self.reached: Anchor | None = None
        """The head that was kept, where something was."""
        self._connection = connection
        self._log = LogTables(connection, checks)
        self._clock = clock
        self._changes: list[Change] = []
        self._end: LogEnd | None = None

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Do nothing: each answer is at hand."""

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Do nothing: each answer is at hand."""

    def recorded_policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`."""
        return self._log_end.policy

    def now(self) -> datetime:
        """Return the machine's time: processes that share a file share a machine."""
        return self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing."""
        return fresh_id(kind, self._clock)

    def fresh_salt(self) -> str:
        """Make a salt."""
        return fresh_salt(self._clock)

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return self._log_end.head

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        return self._log_end.last_time

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        return self._log.record(patch_id)

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return self._log.proposals()

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that events about these objects name."""
        return self._log.patches_about(identities)

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this key."""
        return self._log.remembered(key)

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        return self._log.keys(prefix)

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new key stands for."""
        self._log.remember(key, known)

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._log.forget(key)

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep writes, events and records; note what an erasure leaves to be overwritten in the file."""
        self._end = None
        tables = ObjectTables(self._connection)
        for write, event, stored in zip(planned.writes, result.events, result.stored, strict=False):
            tables.store(write, event.seq, stored)
            self._changes += changes_of(write, event.seq)
        for event in result.events:
            self._log.keep_event(event)
        for record in result.records:
            self._log.keep_record(record)
        if erased_by(planned):
            note_erasure(self._connection, result.receipt.sequence)
        self.reached = Anchor(seq=result.receipt.sequence, hash=result.receipt.head)

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        self._end = None
        self._log.keep_event(notice.event)
        self._log.keep_record(notice.record)
        self.reached = Anchor(seq=notice.event.seq, hash=notice.event.hash)

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        self._end = None
        self._log.keep_event(event)
        self.reached = Anchor(seq=event.seq, hash=event.hash)

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return self._log.is_bare()

    def clear(self) -> None:
        """Remove the events of a log that is bare."""
        self._end = None
        self._log.clear()

    def fill(self, records: Iterable[Record]) -> None:
        """Keep the records of an export."""
        self._end = None
        self._changes += load_rows(self._connection, records)

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head."""
        self.reached = verify_ledger(self._connection, anchor=None)
        return self.reached

    def finish(self, followers: Iterable[Follower]) -> None:
        """Let followers apply the changes, as the last thing in the transaction."""
        for follower in followers if self._changes else ():
            follower.follow(self._connection, self._changes)

    @property
    def _log_end(self) -> LogEnd:
        """Read the end of the log once: no other writer comes between, and what this one keeps makes it forget it."""
        self._end = self._end or self._log.end()
        return self._end


# Overwriting what erasure leaves in the file and its log: noted with the erasure, done when nobody is in the way.


def note_erasure(connection: apsw.Connection, seq: int) -> None:
    """Note, in the transaction of an erasure, that the file and its log have to be overwritten."""
    connection.execute("INSERT OR REPLACE INTO overwriting(seq, vacuumed) VALUES(?, 0)", (seq,))


def is_overwriting_due(connection: apsw.Connection) -> bool:
    """Tell whether an erasure still waits for its overwriting."""
    return next(connection.execute("SELECT 1 FROM overwriting LIMIT 1"), None) is not None


def overwrite(connection: apsw.Connection) -> None:
    """Write the file anew without what was erased, and empty its log. Outside of a transaction.

    Raises `apsw.BusyError` where another process reads or writes: the note stays, and with it what is left to do. What
    is erased meanwhile has a note of its own.
    """
    if not is_overwriting_due(connection):
        return
    newest, vacuumed = next(connection.execute("SELECT max(seq), min(vacuumed) FROM overwriting"))
    if not vacuumed:
        connection.execute("VACUUM")
        connection.execute("UPDATE overwriting SET vacuumed = 1 WHERE seq <= ?", (newest,))
    if connection.filename:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("DELETE FROM overwriting WHERE seq <= ?", (newest,))
