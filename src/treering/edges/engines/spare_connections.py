"""Connections of an engine to its server: one for each thread that uses it now, and a few to spare."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

_SPARE = 4
_SECONDS = 5


class SpareConnections:
    """Safe to use from many threads. A connection is made when none is spare; `settings` are its server's options."""

    def __init__(self, url: str, settings: str) -> None:
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._spare: list[psycopg.Connection] = []
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Hold a connection in a transaction, which is committed at the end, or rolled back where an error came."""
        connection = self._taken()
        try:
            with connection.transaction():
                yield connection
        finally:
            self._put_back(connection)

    def close(self) -> None:
        """Close what is spare, and what is put back from now on. Doing it twice is harmless."""
        with self._lock:
            self._closed, spare, self._spare = True, self._spare, []
        for connection in spare:
            connection.close()

    def _taken(self) -> psycopg.Connection:
        with self._lock:
            while self._spare:
                connection = self._spare.pop()
                if not connection.closed:
                    return connection
        return psycopg.connect(self._url, autocommit=True, connect_timeout=_SECONDS, options=self._settings)

    def _put_back(self, connection: psycopg.Connection) -> None:
        with self._lock:
            keep = not (self._closed or connection.closed) and len(self._spare) < _SPARE
            if keep:
                self._spare.append(connection)
        if not keep:
            connection.close()
