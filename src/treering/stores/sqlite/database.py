"""One SQLite file shared by any number of processes: one writer at a time, and readers that never wait."""

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import apsw

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.ports.runtime import check_interrupt, note_commit, uninterrupted
from treering.stores.rows.packing import RESTORE
from treering.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID, ReadOnlyFile, ensure_file


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Convert the errors of SQLite and the operating system to `TreeringError`s with a hint."""
    try:
        yield
    except TreeringError:
        raise
    except apsw.Error as error:
        raise _translation(path, error) from error
    except UnicodeDecodeError as error:
        raise _translation(path, apsw.CorruptError()) from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}.", hint=_io_hint(path)) from error


def closed(path: str) -> TreeringError:
    """Return the error for a closed space."""
    return _translation(path, apsw.ConnectionClosedError())


def _translation(path: str, error: apsw.Error) -> TreeringError:
    kind, message, hint = next(row[1:] for row in _TRANSLATIONS if isinstance(error, row[0]))
    return kind(message.format(path=path, error=error), hint=hint or _io_hint(path))


# By errors of SQLite: the class, message and hint of our error. Without a hint, it depends on the file. The first match
# is used.
_TRANSLATIONS: tuple[tuple[tuple[type[apsw.Error], ...], type[Unavailable | InvalidInput | Corrupt], str, str], ...] = (
    # The last three: another thread closed the space, or stopped the read.
    (
        (apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.ThreadingViolationError, apsw.InterruptError),
        Unavailable,
        "{path} was closed.",
        "Open the space again.",
    ),
    (
        (apsw.BusyError, apsw.LockedError),
        Unavailable,
        "{path} was locked by another process for too long.",
        "Try again; check for a stuck process.",
    ),
    ((apsw.FullError,), Unavailable, "The disk holding {path} is full.", "Free some space; nothing was changed."),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError),
        Unavailable,
        "{path} cannot be written.",
        "Check its permissions and its folder's.",
    ),
    ((apsw.CantOpenError, apsw.IOError), Unavailable, "{path} cannot be opened or read: {error}.", ""),
    (
        (apsw.TooBigError,),
        InvalidInput,
        "A value is too large to store: {error}.",
        "Split the text; nothing was changed.",
    ),
    ((apsw.CorruptError, apsw.NotADBError), Corrupt, "{path} is damaged, or is not a Treering space.", RESTORE),
    # Our SQL raises other errors only if another program changed tables or rows.
    ((apsw.Error,), Corrupt, "{path} contains tables or rows that Treering did not write: {error}.", RESTORE),
)


def _io_hint(path: str) -> str:
    parent = Path(path).parent
    if not parent.exists():
        return f"The folder {parent} does not exist."
    log = Path(f"{path}-wal")
    if not os.access(parent, os.W_OK) and log.exists():
        return (
            f"{log.name} contains changes that must be merged first: copy both files to a folder that you can write to."
        )
    if not os.access(parent, os.W_OK):
        return f"The folder {parent} cannot be written."
    return "Check the disk, and that the file is not a folder."


Remembered = TypeVar("Remembered")
AnyConnection = TypeVar("AnyConnection", bound=apsw.Connection)

MEMORY = ":memory:"
_WAIT_SECONDS = 20.0
_LOOKING_MS = 8  # three times: after 1, 2 and 5 ms
_CACHE_KIB = 16_384
_STEPS = 20_000  # instructions of SQLite between two checks whether a query was interrupted, about a millisecond


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

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Open a snapshot. All reads in it are consistent."""
        check_interrupt()
        with translated(self.path):
            if self.in_memory:
                with self._lock:
                    yield self._writer
                return
            if held := self._readers.held():
                yield held
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
            f"cache_size=-{_CACHE_KIB}",
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


_CLOSING_SECONDS = 1.0
_LOOKING_SECONDS = 0.01


class ReadConnection(apsw.Connection):
    """A connection for reading that caches small values until the file changes."""

    def __init__(self, *opening: Any) -> None:
        super().__init__(*opening)
        self._tables: dict[str, bool] = {}
        """Temporary tables by their SQL, and whether they were created outside of a transaction."""
        self._remembered: dict[Hashable, Any] = {}
        self._version = -1
        self._looked = False

    def begin(self) -> None:
        """Begin a transaction. All reads in it are consistent."""
        self._looked = False
        for table in (table for table, stays in self._tables.items() if not stays):
            self.execute(table)
            self._tables[table] = True
        self.execute("BEGIN")

    def make(self, table: str) -> None:
        """Create a temporary table if it is missing. It is permanent from the next transaction on."""
        if not self._tables.setdefault(table, False):
            self.execute(table)

    def remembered(self, name: Hashable, read: Callable[[], Remembered]) -> Remembered:
        """Return the value of `read`, which should be small. It is cached until the file changes."""
        if not self.in_transaction:
            return read()
        if not self._looked:
            if self._version != (version := int(self.pragma("data_version"))):
                self._remembered, self._version = {}, version
            self._looked = True
        if name not in self._remembered:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[name] = read()
        known: Remembered = self._remembered[name]
        return known


_MOST_REMEMBERED = 100


def remembered(connection: apsw.Connection, name: Hashable, read: Callable[[], Remembered]) -> Remembered:
    """Return the value of `read`. On a connection for reading, it is cached until the file changes."""
    return connection.remembered(name, read) if isinstance(connection, ReadConnection) else read()


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Reader:
    """A connection, the thread that uses it, and the number of its nested reads."""

    connection: ReadConnection
    thread: int
    uses: int = 0


class Readers:
    """Provides snapshots. Only the thread that reads with a connection closes it during a read."""

    def __init__(self, path: str, connect: Callable[[], ReadConnection]) -> None:
        self._path = path
        self._connect = connect
        self._lock = threading.Lock()
        # The entry and its connection are released when the thread ends.
        self._own: WeakKeyDictionary[threading.Thread, _Reader] = WeakKeyDictionary()
        self._all: WeakSet[_Reader] = WeakSet()
        self._closed = False

    def held(self) -> apsw.Connection | None:
        """Return the connection of the current read of this thread, or `None`."""
        with self._lock:
            reader = self._own.get(threading.current_thread())
        return reader.connection if reader and reader.uses and not self._closed else None

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Read with this thread's connection. A nested read uses the same snapshot."""
        thread = threading.current_thread()
        with self._lock:
            reader = self._own.get(thread)
        if reader is None:
            reader = self._new()
            with self._lock:
                self._own[thread] = reader
        with self._used(reader):
            yield reader.connection

    @contextmanager
    def fresh(self, *, transaction: bool = True) -> Iterator[apsw.Connection]:
        """Read with a new connection without caches."""
        reader = self._new()
        try:
            with self._used(reader, transaction=transaction):
                yield reader.connection
        finally:
            reader.connection.close()

    def close(self) -> None:
        """Close all connections. Reads of other threads are stopped, and end with `Unavailable`."""
        with self._lock:
            self._closed = True
        own, deadline = threading.get_ident(), time.monotonic() + _CLOSING_SECONDS
        while self._stop(own) and time.monotonic() < deadline:
            time.sleep(_LOOKING_SECONDS)

    def _stop(self, own: int) -> bool:
        """Close idle connections and those of this thread, and interrupt the others. Return whether any is left."""
        with self._lock:
            readers = list(self._all)
            busy = [reader for reader in readers if reader.uses and reader.thread != own]
            for reader in readers:
                if reader in busy:
                    with suppress(apsw.ConnectionClosedError):
                        reader.connection.interrupt()
                else:
                    reader.connection.close()
                    self._all.discard(reader)
        return bool(busy)

    def _new(self) -> _Reader:
        self._require_open()
        reader = _Reader(self._connect(), threading.get_ident())
        with self._lock:
            self._all.add(reader)
        return reader

    @contextmanager
    def _used(self, reader: _Reader, *, transaction: bool = True) -> Iterator[None]:
        with self._lock:
            self._require_open()
            reader.uses += 1
        try:
            if transaction and reader.uses == 1:
                reader.connection.begin()
            yield
        finally:
            self._release(reader)

    def _release(self, reader: _Reader) -> None:
        if reader.uses == 1:
            with suppress(apsw.Error), uninterrupted():
                reader.connection.execute("ROLLBACK")
        with self._lock:
            reader.uses -= 1
            if self._closed and not reader.uses:
                reader.connection.close()

    def _require_open(self) -> None:
        if self._closed:
            raise closed(self._path)
