"""Connections for reading: one per thread, and fresh ones; closed by another thread without harm."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakSet

import apsw

from treering.edges.stores.sqlite.failures import closed
from treering.ports.interrupt import uninterrupted

_CLOSING_SECONDS = 1.0
_LOOKING_SECONDS = 0.01


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Reader:
    """A connection, the number of the thread that reads with it, and how many reads it is in (one inside another)."""

    connection: apsw.Connection
    thread: int
    uses: int = 0


class Readers:
    """Hands out snapshots. Only the thread that reads with a connection closes it while it reads."""

    def __init__(self, path: str, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._lock = threading.Lock()
        # The entry of a thread that has ended goes with it, and its connection with the entry.
        self._own: WeakKeyDictionary[threading.Thread, _Reader] = WeakKeyDictionary()
        self._all: WeakSet[_Reader] = WeakSet()
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Read with this thread's connection. A read inside another is of the same moment."""
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
        """Read with a connection of its own, which remembers nothing of what was read before."""
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
        """Close what is idle, or read by this thread; interrupt the rest. Tell whether any is left."""
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
                reader.connection.execute("BEGIN")
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
