"""One SQLite file shared by any number of processes: a writer that waits its turn, readers that never wait."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import apsw

from treering.core.errors import Corrupt, TreeringError, Unavailable

MEMORY = ":memory:"
_WAIT_SECONDS = 20.0
_LOOKING_MS = 8  # three times: after 1, 2 and 5 ms
_CACHE_KIB = 16_384


class Database:
    """A connection for writing, guarded by a lock, and one for reading per thread.

    WAL, `synchronous=FULL`: a transaction that returned survives `kill -9` and loss of power. Writes begin
    `IMMEDIATE`: a transaction that reads first and upgrades later is what gives "database is locked".
    In memory there is one connection for everything.
    """

    def __init__(self, path: str, *, wait_seconds: float = _WAIT_SECONDS) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._patience_ms = int(min(wait_seconds, 5.0) * 1000)
        self._lock = threading.RLock()
        # Readers have a lock of their own: a thread that reads for the first time waits for no writer. The entry
        # of a thread that has ended goes with it, and its connection with the entry.
        self._readers_lock = threading.Lock()
        self._readers: WeakKeyDictionary[threading.Thread, apsw.Connection] = WeakKeyDictionary()
        self._closed = False
        with translated(path):
            self._writer = self._connect()

    @property
    def in_memory(self) -> bool:
        """Tell whether the database ends with this object."""
        return self.path == MEMORY

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Hold the one write transaction; commit durably at the end, roll back on any error.

        Raises `Unavailable` where another process holds it longer than the bounded wait.
        """
        with self._lock, translated(self.path):
            self._begin()
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:  # Ctrl-C too: whatever it is, nothing half-written may stay
                # After some errors (disk full, I/O) SQLite has rolled back by itself already.
                with suppress(apsw.Error):
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Hold a snapshot: everything read inside is of one moment."""
        if self.in_memory:
            with self._lock, translated(self.path):
                yield self._writer
            return
        connection = self._reader()
        if connection.in_transaction:
            yield connection
            return
        with translated(self.path):
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with suppress(apsw.Error):
                    connection.execute("ROLLBACK")

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        """Read all rows of one query."""
        with self.read() as connection:
            return list(connection.execute(sql, bindings))

    def row(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """Read the first row of one query, or `None`."""
        with self.read() as connection:
            return next(connection.execute(sql, bindings), None)

    def outside_transaction(self, action: Callable[[apsw.Connection], None]) -> None:
        """Run maintenance that must not be in a transaction (VACUUM, checkpoints), as the only writer here."""
        with self._lock, translated(self.path):
            action(self._writer)

    def close(self) -> None:
        """Close every connection. Doing it twice is harmless."""
        with self._lock, self._readers_lock:
            self._closed = True
            for connection in (*self._readers.values(), self._writer):
                connection.close()
            self._readers.clear()

    def _begin(self) -> None:
        if self._closed:
            raise Unavailable(f"{self.path} was closed.", hint="Open the space again.")
        deadline = time.monotonic() + self._wait_seconds
        # SQLite looks less and less often, in the end every 100 ms: where many write, whoever came last would be
        # served first, and a few would wait for seconds. Beginning again each time, all look equally often.
        self._writer.set_busy_timeout(_LOOKING_MS)
        try:
            while True:
                try:
                    self._writer.execute("BEGIN IMMEDIATE")
                except apsw.BusyError:
                    if time.monotonic() > deadline:
                        raise
                else:
                    return
        finally:
            self._writer.set_busy_timeout(self._patience_ms)

    def _reader(self) -> apsw.Connection:
        thread = threading.current_thread()
        with self._readers_lock, translated(self.path):
            if self._closed:
                raise Unavailable(f"{self.path} was closed.", hint="Open the space again.")
            if thread not in self._readers:
                self._readers[thread] = self._connect(reading=True)
            return self._readers[thread]

    def _connect(self, *, reading: bool = False) -> apsw.Connection:
        if self.in_memory:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        else:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            flags = apsw.SQLITE_OPEN_READWRITE | (0 if reading else apsw.SQLITE_OPEN_CREATE)
        connection = apsw.Connection(self.path, flags)
        try:
            self._prepare(connection)
        except apsw.Error:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(self._patience_ms)
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
        """Switch the file to WAL. Where several make a new one at once SQLite refuses at once instead of waiting."""
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


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, once, with a hint for each."""
    try:
        yield
    except TreeringError:
        raise
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(
            f"{path} was locked by another process for too long.", hint="Try again; look for a stuck process."
        ) from error
    except apsw.FullError as error:
        raise Unavailable(f"The disk holding {path} is full.", hint="Free some space; nothing was changed.") from error
    except (apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise Unavailable(f"{path} cannot be written.", hint="Check its permissions and its folder's.") from error
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise Corrupt(
            f"{path} is damaged, or is no Treering space.",
            hint="Restore it from a backup, or import an export into a new space.",
        ) from error
    except (apsw.CantOpenError, apsw.IOError) as error:
        raise Unavailable(f"{path} cannot be opened or read: {error}.", hint=_io_hint(path)) from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}.", hint=_io_hint(path)) from error


def _io_hint(path: str) -> str:
    parent = Path(path).parent
    if not parent.exists():
        return f"The folder {parent} does not exist."
    if not os.access(parent, os.W_OK):
        return f"The folder {parent} cannot be written."
    return "Check the disk, and that the file is no folder."
