"""A replica of a database, which answers reads that may be late.

Every answer is compared with the known position of the primary.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import psycopg

from treering.core.errors import Corrupt
from treering.extensions.postgres.connection.pools import Pool, give_back, shared_pool
from treering.extensions.postgres.connection.primary import READ, Begun, Primary
from treering.extensions.postgres.connection.target import Target
from treering.extensions.postgres.connection.transactions import Statement
from treering.ports.runtime import LateReads, Staleness

SAMPLE_SECONDS = 0.5
"""The minimal interval between two requests to the primary, which are sent only while the replica is read."""
_KEPT = 1_000
_WAIT_SECONDS = 1.0  # wait for a connection before asking the primary
_AGAIN_SECONDS = 5.0  # after a server could not be reached
_LOG = logging.getLogger(__name__)


class Replica:
    """Decides whether the replica of a space may answer, and holds its connections. Thread-safe.

    `target`: its address. `most_seconds`: the maximal age of an answer. `clock`: monotonic seconds.
    """

    def __init__(self, target: Target, *, most_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._most_seconds = most_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._pool: Pool | None = None
        self._samples: deque[tuple[float, int]] = deque(maxlen=_KEPT)
        self._written = 0
        self._asked = self._failed_at = float("-inf")

    def begin_sample(self) -> float | None:
        """Return the current time if the position of the primary is due for a request; otherwise `None`."""
        with self._lock:
            now = self._clock()
            if now - self._asked < SAMPLE_SECONDS:
                return None
            self._asked = now
            return now

    def note_primary(self, at: float, sequence: int) -> None:
        """Note the position of the primary, requested at a time or later."""
        with self._lock:
            self._samples.append((at, sequence))

    def note_no_primary(self) -> None:
        """Record that the primary is unreachable, and skip it for a while."""
        with self._lock:
            self._asked = self._clock() + _AGAIN_SECONDS

    def note_written(self, sequence: int) -> None:
        """Note a write of this process. Its later reads include it."""
        with self._lock:
            self._written = max(self._written, sequence)

    def begun(self, primary: Primary, statements: Sequence[Statement], late: LateReads) -> Begun | None:
        """Begin a transaction with some statements; return `None` if the replica fails or is too late."""
        if (pool := self._open_pool()) is None:
            return None
        try:
            connection = pool.take(timeout=_WAIT_SECONDS)
        except psycopg.OperationalError as error:
            self._failed(error)
            return None
        staleness = None
        try:
            begun = primary.begun_on(pool, connection, READ, statements)
            staleness = self._judged(begun.row.sequence, late)
        except Corrupt:  # the replica does not have this new space yet
            return None
        except psycopg.OperationalError as error:
            self._failed(error)
        finally:  # on any error, including Ctrl-C, the connection is returned
            if staleness is None:
                give_back(pool, connection)
        if staleness is None:
            return None
        late.saw(staleness.sequence, staleness)
        return begun

    def close(self) -> None:
        """Return the connections to their pool."""
        with self._opening:
            pool, self._pool = self._pool, None
        if pool:
            pool.give_up()

    def _judged(self, sequence: int, late: LateReads) -> Staleness | None:
        """Return the age of an answer with a number of events; `None` if it is too old."""
        with self._lock:
            if sequence < max(late.at_least, self._written):
                return None
            known = [at for at, there in self._samples if there <= sequence]
            newest = max((there for _, there in self._samples), default=0)
            seconds = self._clock() - max(known) if known else float("inf")
        return Staleness(sequence, seconds, max(0, newest - sequence)) if seconds <= self._most_seconds else None

    def _open_pool(self) -> Pool | None:
        """Return the connections; `None` for a while after a failure."""
        with self._opening:
            if self._pool is None and self._clock() - self._failed_at >= _AGAIN_SECONDS:
                try:
                    self._pool = shared_pool(self._target)
                except psycopg.OperationalError as error:
                    self._failed(error)
            return self._pool if self._clock() - self._failed_at >= _AGAIN_SECONDS else None

    def _failed(self, error: psycopg.Error) -> None:
        """Note that the replica failed. The primary answers for a while."""
        with self._lock:
            self._failed_at = self._clock()
        kind = type(error).__name__
        _LOG.warning("The replica of %s does not respond (%s); using the primary.", self._target.shown, kind)
