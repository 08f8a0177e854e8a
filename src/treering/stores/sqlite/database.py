"""One SQLite file shared by any number of processes: one writer at a time, and readers that never wait."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import apsw

from treering.core.errors import TreeringError, Unavailable
from treering.ports.runtime import check_interrupt, note_commit, uninterrupted
from treering.stores.sqlite.errors import closed, translated
from treering.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID, ReadOnlyFile, ensure_file
from treering.stores.sqlite.readers import ReadConnection, Readers

AnyConnection = TypeVar("AnyConnection", bound=apsw.Connection)


MEMORY = ":memory:"


_WAIT_SECONDS = 20.0


_LOOKING_MS = 8  # three times: after 1, 2 and 5 ms


_CACHE_KIB, _READER_CACHE_KIB = 16_384, 4_096
"""Page caches. A server has a reader for each thread; they cost memory, and pages are in the system's cache as well."""


_STEPS = 20_000  # instructions of SQLite between two checks whether a query was interrupted, about a millisecond


class _NestedRead(translated):
    """A read with the connection of the snapshot that this thread holds."""

    __slots__ = ("_connection",)

    def __init__(self, path: str, connection: apsw.Connection) -> None:
        super().__init__(path)
        self._connection = connection

    def __enter__(self) -> apsw.Connection:  # type: ignore[override]
        return self._connection


class Database:
    """A connection for writing, guarded by a lock, and one for reading per thread.

    With WAL and `synchronous=FULL`, a committed transaction survives `kill -9` and power loss. Writes begin with
    `IMMEDIATE`, because a read that is upgraded to a write may fail with "database is locked". A database in memory has
    one connection. A file that cannot be written is opened for reading. `arriving` opens the file of an unfinished
    copy, which no other process opens.
    """

    def __init__(
        self, path: str, *, create: bool = True, wait_seconds: float = _WAIT_SECONDS, arriving: bool = False
    ) -> None:
        self.path = path
        self._arriving = arriving
        self._wait_seconds = wait_seconds
        self._patience_ms = int(min(wait_seconds, 5.0) * 1000)
        self._lock = threading.RLock()
        # Readers have their own locks, so that the first read of a thread does not wait for a writer.
        self._readers = Readers(path, self._connect_reader)
        self._closed = False
        with translated(path):
            if not self.in_memory:
                ensure_file(path, create=create, application=ARRIVING_ID if arriving else APPLICATION_ID)
            self._file = None if self.in_memory else ReadOnlyFile.at(path)
            self._writer = self._prepared(self._open())
            self.read_only: bool = self._writer.readonly("main")
            try:
                self._require_whole(self._writer)
            except BaseException:  # including Ctrl-C, to close the connection
                self._writer.close()
                raise

    @property
    def in_memory(self) -> bool:
        """Whether the database exists only as long as this object."""
        return self.path == MEMORY

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Open the write transaction; commit durably at the end, or roll back on any error.

        Raises `Unavailable` if another process writes for longer than the timeout, and if the file is read-only.
        """
        with self._lock, translated(self.path):
            self._require_writable()
            self._begin()
            try:
                self._require_whole(self._writer)
                yield self._writer
                check_interrupt()
                with uninterrupted():
                    self._writer.execute("COMMIT")
                note_commit()
            except BaseException:  # including Ctrl-C: nothing half-written may remain
                # After some errors (disk full, I/O), SQLite has already rolled back.
                with suppress(apsw.Error), uninterrupted():
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                raise

    def while_nobody_writes(self, action: Callable[[apsw.Connection], None]) -> bool:
        """Call a function while no process writes, without waiting. Return whether it was called."""
        if self.in_memory or self.read_only or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._closed or self._writer.in_transaction:
                return False
            with translated(self.path):
                self._writer.set_busy_timeout(0)
                try:
                    self._writer.execute("BEGIN IMMEDIATE")
                except apsw.BusyError:
                    return False
                finally:
                    self._writer.set_busy_timeout(self._patience_ms)
                try:
                    action(self._writer)
                finally:
                    self._writer.execute("ROLLBACK")
            return True
        finally:
            self._lock.release()

    def read(self) -> AbstractContextManager[apsw.Connection]:
        """Open a snapshot. All reads in it are consistent, and a nested one costs little."""
        check_interrupt()
        held = None if self.in_memory else self._readers.held()
        return _NestedRead(self.path, held) if held else self._read()

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        with translated(self.path):
            if self.in_memory:
                with self._lock:
                    yield self._writer
                return
            with self._undisturbed(), self._readers.snapshot() as connection:
                yield connection

    @contextmanager
    def read_fresh(self) -> Iterator[apsw.Connection]:
        """Open a snapshot on a new connection without caches.

        For checks of the whole file: a connection caches the full-text index it has searched, and `quick_check`
        compares it with a file that others have changed since. Also for long or abandoned reads, which would block
        other reads of this thread.
        """
        check_interrupt()
        with translated(self.path), self._undisturbed(), self._readers.fresh() as connection:
            yield connection

    @contextmanager
    def separate(self) -> Iterator[apsw.Connection]:
        """Open a connection for one use, outside of any transaction."""
        with translated(self.path), self._undisturbed(), self._readers.fresh(transaction=False) as connection:
            yield connection

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        """Read all rows of one query."""
        with self.read() as connection:
            return list(connection.execute(sql, bindings))

    def row(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """Read the first row of one query, or `None`."""
        with self.read() as connection:
            return next(connection.execute(sql, bindings), None)

    def outside_transaction(self, action: Callable[[apsw.Connection], None], *, wait_seconds: float) -> None:
        """Run maintenance that must not be in a transaction (VACUUM, checkpoints), while no thread here writes.

        Each step waits `wait_seconds` for other processes, then raises `Unavailable`.
        """
        with self._lock, translated(self.path):
            self._require_writable()
            self._writer.set_busy_timeout(int(wait_seconds * 1000))
            try:
                action(self._writer)
            finally:
                self._writer.set_busy_timeout(self._patience_ms)

    def close(self) -> None:
        """Close every connection. Idempotent. Reads of other threads end with `Unavailable`."""
        with self._lock:
            self._closed = True
            self._readers.close()
            self._writer.close()

    def _require_writable(self) -> None:
        if self._closed:
            raise closed(self.path)
        if self.read_only:
            raise Unavailable(
                f"{self.path} was opened read-only.",
                hint="Copy the space to a folder that you can write to, and use the copy; or correct the permissions "
                "of the file and its folder.",
            )

    def _require_whole(self, connection: apsw.Connection) -> None:
        if not self._arriving and connection.pragma("application_id") == ARRIVING_ID:
            raise Unavailable(
                f"{self.path} is an unfinished copy of a move.",
                hint="Call `treering move` again with the same places to continue it; or delete the file.",
            )

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Check that a file that is read without locks does not change during a read."""
        if self._file is None:
            yield
            return
        self._file.check()
        try:
            yield
        except (apsw.Error, TreeringError):
            self._file.check()
            raise
        self._file.check()

    def _begin(self) -> None:
        deadline = time.monotonic() + self._wait_seconds
        # SQLite retries at increasing intervals of up to 100 ms, so that with many writers the last one would come
        # first and a few would wait for seconds. Restarting the timeout makes all of them retry at the same rate.
        self._writer.set_busy_timeout(_LOOKING_MS)
        try:
            while True:
                check_interrupt()
                try:
                    self._writer.execute("BEGIN IMMEDIATE")
                except apsw.BusyError:
                    if time.monotonic() > deadline:
                        raise
                else:
                    return
        finally:
            self._writer.set_busy_timeout(self._patience_ms)

    def _connect_reader(self) -> "ReadConnection":
        if self.in_memory:
            return self._prepared(self._copy_of_memory())
        return self._prepared(ReadConnection(*self._opening()))

    def _open(self) -> apsw.Connection:
        return apsw.Connection(*self._opening())

    def _opening(self) -> tuple[str, int]:
        if self._file:
            return self._file.address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        # `ensure_file` creates new files.
        created = apsw.SQLITE_OPEN_CREATE if self.in_memory else 0
        return self.path, apsw.SQLITE_OPEN_READWRITE | created

    def _copy_of_memory(self) -> "ReadConnection":
        with self._lock:
            content = self._writer.serialize("main")
        copy = ReadConnection(MEMORY)
        copy.deserialize("main", content)
        return copy

    def _prepared(self, connection: AnyConnection) -> AnyConnection:
        try:
            self._prepare(connection)
        except apsw.Error:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        # Spaces have no triggers or views. Those from other programs are not run.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        connection.set_progress_handler(_has_to_end, _STEPS)
        connection.set_busy_timeout(self._patience_ms)
        if not connection.readonly("main"):
            self._use_wal(connection)
        for pragma in (
            "synchronous=FULL",
            "foreign_keys=ON",
            "secure_delete=ON",
            f"cache_size=-{_READER_CACHE_KIB if isinstance(connection, ReadConnection) else _CACHE_KIB}",
            "temp_store=MEMORY",
            "trusted_schema=OFF",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Switch the file to WAL. SQLite does not wait if several processes switch a new file at the same time."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOKING_MS / 1000)
            else:
                return


def _has_to_end() -> bool:
    """Raise the error that ends the running query, if the thread was interrupted."""
    check_interrupt()
    return False
