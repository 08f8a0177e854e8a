"""A replica of a database: it follows the primary and answers reads that may be late.

Its answers are never trusted to be in time; each is compared with how far the primary is known to be.
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
"""The primary is asked so often at most, and only while the replica is read."""
_KEPT = 1_000
_WAIT_SECONDS = 1.0  # so long a connection is waited for before the primary is asked
_AGAIN_SECONDS = 5.0  # after a server could not be reached
_LOG = logging.getLogger(__name__)


class Replica:
    """Whether the replica of a space may answer, and its connections. Safe to use from many threads.

    `target` names it; `most_seconds` is how old an answer may be. `clock` gives seconds that only go forward.
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
        """Tell that the primary is to be asked now; return the time to note its answer with, `None` where it is not."""
        with self._lock:
            now = self._clock()
            if now - self._asked < SAMPLE_SECONDS:
                return None
            self._asked = now
            return now

    def note_primary(self, at: float, sequence: int) -> None:
        """Note how far the primary was, asked at a time or later."""
        with self._lock:
            self._samples.append((at, sequence))

    def note_no_primary(self) -> None:
        """Note that the primary cannot be asked: it is left alone for a while."""
        with self._lock:
            self._asked = self._clock() + _AGAIN_SECONDS

    def note_written(self, sequence: int) -> None:
        """Note what this process has written: it reads nothing older."""
        with self._lock:
            self._written = max(self._written, sequence)

    def begun(self, primary: Primary, statements: Sequence[Statement], late: LateReads) -> Begun | None:
        """Begin a transaction with some statements; `None` where nobody answers, or the answer would be too late."""
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
        except Corrupt:  # the space is too new for the replica to have it
            return None
        except psycopg.OperationalError as error:
            self._failed(error)
        finally:  # whatever came, Ctrl-C too: a connection that is not handed on goes back
            if staleness is None:
                give_back(pool, connection)
        if staleness is None:
            return None
        late.saw(staleness.sequence, staleness)
        return begun

    def close(self) -> None:
        """Give the connections back."""
        with self._opening:
            pool, self._pool = self._pool, None
        if pool:
            pool.give_up()

    def _judged(self, sequence: int, late: LateReads) -> Staleness | None:
        """Return how old an answer may be that holds so many events; `None` where it is older than allowed."""
        with self._lock:
            if sequence < max(late.at_least, self._written):
                return None
            known = [at for at, there in self._samples if there <= sequence]
            newest = max((there for _, there in self._samples), default=0)
            seconds = self._clock() - max(known) if known else float("inf")
        return Staleness(sequence, seconds, max(0, newest - sequence)) if seconds <= self._most_seconds else None

    def _open_pool(self) -> Pool | None:
        """Return the connections; `None` while the replica is given time to come back."""
        with self._opening:
            if self._pool is None and self._clock() - self._failed_at >= _AGAIN_SECONDS:
                try:
                    self._pool = shared_pool(self._target)
                except psycopg.OperationalError as error:
                    self._failed(error)
            return self._pool if self._clock() - self._failed_at >= _AGAIN_SECONDS else None

    def _failed(self, error: psycopg.Error) -> None:
        """Note that the replica did not answer: the primary does for a while."""
        with self._lock:
            self._failed_at = self._clock()
        kind = type(error).__name__
        _LOG.warning("The replica of %s does not respond (%s); using the primary.", self._target.shown, kind)
