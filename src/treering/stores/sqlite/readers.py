"""Connections for reading: one per thread, and new ones, closed by other threads without harm."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

import apsw

from treering.ports.runtime import uninterrupted
from treering.stores.sqlite.errors import closed

Remembered = TypeVar("Remembered")


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
        # The reader of each thread, which is released when the thread ends.
        self._own = threading.local()
        self._all: WeakSet[_Reader] = WeakSet()
        self._closed = False

    def held(self) -> apsw.Connection | None:
        """Return the connection of the current read of this thread, or `None`."""
        reader = self._reader
        return reader.connection if reader and reader.uses and not self._closed else None

    @property
    def _reader(self) -> _Reader | None:
        return getattr(self._own, "reader", None)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Read with this thread's connection. A nested read uses the same snapshot."""
        reader = self._reader
        if reader is None:
            reader = self._own.reader = self._new()
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
