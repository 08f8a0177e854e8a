"""Which server has a space: the one that its address names, or the one that a directory says."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import psycopg

from treering.core.errors import Corrupt, NotFound, Unavailable
from treering.ports.runtime import LateReads, Staleness
from treering.stores.postgres.connection.directory import Directory, Placement
from treering.stores.postgres.connection.homes import COPYING, READ, Arriving, Begun, Home, Mark, MovedAway, open_home
from treering.stores.postgres.connection.pools import Connections, Pool, give_back, shared_pool
from treering.stores.postgres.connection.target import Target
from treering.stores.postgres.connection.transactions import Statement


class SpaceRoute(Protocol):
    """Finds the home of one space."""

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the home of the space; `mark`: what a new one says. Raises `NotFound`, where it is not made."""
        ...

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Open the home that the space has now, where that is another one; else return `None`.

        `mark`: what its row said; `None` where the server does not answer. Raises `Unavailable` where the space cannot
        be followed.
        """
        ...


def route_to(target: Target, *, wait_seconds: float, pool: Connections | None = None) -> SpaceRoute:
    """Return the route to a space. `pool`: connections to its database, that of a directory excepted."""
    return Directed(target, wait_seconds) if target.directory else Direct(target, wait_seconds, pool)


class Direct:
    """The server that the address names, whatever else there is."""

    def __init__(self, target: Target, wait_seconds: float, pool: Connections | None = None) -> None:
        self._target = target
        self._wait_seconds = wait_seconds
        self._pool = pool

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the space there."""
        return open_home(self._target, create=create, wait_seconds=self._wait_seconds, mark=mark, pool=self._pool)

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Say that the space is on another server, where a mark says so."""
        _require_whole(home, mark)
        match mark:
            case None:
                return None
            case MovedAway():
                said = f"was moved to the server {mark.server!r} of a directory"
            case Arriving():
                said = "is an unfinished copy of a move"
        raise Unavailable(
            f"{home.place} {said}.", hint="Open the space through the address of its directory, with directory=on."
        )


class Directed:
    """The server that a directory names; a new space is placed first."""

    def __init__(self, target: Target, wait_seconds: float) -> None:
        self._directory = Directory(target)
        self._space = target.space
        self._wait_seconds = wait_seconds

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the space on its server."""
        placement = self._directory.find(self._space)
        if placement is None:
            if not create:
                raise NotFound(
                    f"There is no space {self._space!r} in {self._directory.shown}.",
                    hint="Create it with `treering init` or `treering add .`; or choose another one.",
                )
            placement = self._directory.place(self._space)
        return self._open(placement, create=create, mark=mark)

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Open the home that the directory names now; a move that is decided is finished first."""
        _require_whole(home, mark)
        if isinstance(mark, MovedAway):
            self._directory.finish(self._space, mark)
        placement = self._asked_again(mark)
        return None if placement is None or placement.server == home.server else self._open(placement, create=False)

    def _asked_again(self, mark: Mark | None) -> Placement | None:
        self._directory.forget(self._space)
        try:
            return self._directory.find(self._space)
        except Unavailable:
            if mark is None:
                return None  # what is wrong with the server itself is told
            raise

    def _open(self, placement: Placement, *, create: bool, mark: Mark | None = None) -> Home:
        target = self._directory.target_on(placement, self._space)
        return open_home(target, create=create, wait_seconds=self._wait_seconds, server=placement.server, mark=mark)


def _require_whole(home: Home, mark: Mark | None) -> None:
    if mark == COPYING:
        raise Unavailable(
            f"{home.place} is an unfinished copy of a move.",
            hint="Call `treering move` again with the same places to continue it.",
        )


# A replica of a database: a copy that follows it, answers reads which may be late, and is never trusted to be in
# time.


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

    def begun(self, home: Home, statements: Sequence[Statement], late: LateReads) -> Begun | None:
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
            begun = home.begun_on(pool, connection, READ, statements)
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
