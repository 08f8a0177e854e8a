"""The runtime of work: the clock, interrupts, late reads, the job log, leases and the backlog."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from treering.core.canonical import make_id, make_segment_id


class Clock(Protocol):
    """Provide the time and random bytes; tests use one with fixed values."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        ...

    def elapsed(self) -> float:
        """Return the seconds since some moment in the past, from a monotonic clock shared by the whole machine.

        Use it for durations and timeouts; the time of day may jump.
        """
        ...

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        ...


def fresh_id(kind: str, clock: Clock) -> str:
    """Make a new id of `kind` (`source`, `knowledge`, `patch`, …)."""
    return make_id(kind, at=clock.now(), entropy=clock.random_bytes(10))


def fresh_segment_id(clock: Clock) -> str:
    """Make a new segment id."""
    return make_segment_id(clock.random_bytes(8))


def fresh_salt(clock: Clock) -> str:
    """Make the salt of a new object."""
    return clock.random_bytes(16).hex()


Check = Callable[[], None]
"""Raises `Unavailable` when the work should end."""


class _Work:
    def __init__(self, check: Check) -> None:
        self.check = check
        self.committed = False


_CURRENT: ContextVar[_Work | None] = ContextVar("treering_work", default=None)


@contextmanager
def interruptible(check: Check) -> Iterator[None]:
    """Call `check` regularly during the work of this thread inside the block."""
    token = _CURRENT.set(_Work(check))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let the work in the block finish without interruption, such as a commit."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check_interrupt() -> None:
    """Raise the error that ends the current work, if there is one; do nothing after it has committed.

    Call it wherever work may take long: committed work must not be reported as not done.
    """
    work = _CURRENT.get()
    if work and not work.committed:
        work.check()


def check_between_steps() -> None:
    """Raise the error that ends the current work, even if earlier steps have committed.

    For work of many steps that can be repeated, such as reading a folder.
    """
    if work := _CURRENT.get():
        work.check()


def note_commit() -> None:
    """Record that the current work has committed, so that it is no longer interrupted within a step."""
    if work := _CURRENT.get():
        work.committed = True


_OBJECTS_PER_COLLECTION = 100_000
_OBJECTS_OF_CALLS = 50_000
_collecting = Lock()
_thresholds_before: list[tuple[int, int, int]] = []


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect garbage less often in work that creates many objects and few cycles; saves up to a tenth of its time.

    With several such threads, the collector is reset when the last one is done.
    """
    with _collecting:
        _thresholds_before.append(before := gc.get_threshold())
        gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        with _collecting:
            gc.set_threshold(*_thresholds_before.pop())


@cache
def end_loading() -> None:
    """Exclude the objects of modules from garbage collection, and set its threshold for a server.

    Answers of a server leave cycles. Call it before the first answer: a command loads its modules with a threshold so
    high that a server would collect nothing for thousands of requests.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_OF_CALLS)


JobRow = Mapping[str, Any]


class JobLog(Protocol):
    """Store the outcome of long work. Operational data, not part of the ledger.

    A row whose `scope` is null is not a job: it is found only by its id, and loses results about erased objects.
    """

    def save(self, job_id: str, row: JobRow) -> None:
        """Store the state of a job."""
        ...

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        ...

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs that ran at a scope, below it, or at one of its ancestors."""
        ...

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects; 0 after they were erased."""
        ...


IsKept = Callable[[], bool]
"""Return whether a row was stored."""


@runtime_checkable
class JobsInCommits(Protocol):
    """An optional ability of a job log: store a row durably in a transaction of the ledger in the same database."""

    def kept_in_commit(self, job_id: str, row: JobRow) -> AbstractContextManager[IsKept]:
        """Store a job's state in the first transaction in which the block changes objects, if any.

        Yields a function that returns, after that transaction, whether the row was stored.
        """
        ...


VECTORS = "vectors"
"""The holder of this lease embeds pending passages."""

LONGEST_SECONDS = 86_400.0
"""The maximum time of a lease without renewal."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A lease that is held: its owner, the process on this machine, and its times.

    `renewed`: seconds since it was taken or last renewed. `left`: seconds until it expires.
    """

    name: str
    owner: str
    process: int
    renewed: float
    left: float


class Leases(Protocol):
    """Named leases of one space. A lease that is not renewed in time becomes free. Safe to use from many threads.

    Time is the store's time, not the time of day: even with a wrong clock in a process, a lease never lasts longer than
    its length.
    """

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease for this many seconds; return whether `owner` holds it now.

        With `seconds=0` the owner releases it. Durable before this returns. Raises `InvalidInput` for more than
        `LONGEST_SECONDS`.
        """
        ...

    def holder(self, name: str) -> str | None:
        """Return the current holder of a lease."""
        ...

    def held(self) -> Sequence[Holding]:
        """List the current leases, by name."""
        ...

    def clear(self, name: str) -> Holding | None:
        """Release a lease on behalf of its owner, who notices when renewing; return the released lease."""
        ...


MEMORIES = "memories"
"""The kind of work that creates the memories of a discussion."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A piece of work claimed by one process. `times`: how often it had been promised when it was claimed."""

    kind: str
    key: str
    owner: str
    times: int


class Backlog(Protocol):
    """Promised work that is not done, by kind and key. Operational data, not part of the ledger.

    A claim expires: work claimed by a process that died becomes free when its time is over. No process waits for
    another.
    """

    def promise(self, kind: str, key: str, owner: str, *, seconds: float) -> Claim:
        """Record work durably and claim it for this many seconds. If it is promised again, it is done once more."""
        ...

    def claim(self, kind: str, owner: str, *, seconds: float) -> Claim | None:
        """Claim the unclaimed work that has waited longest; `None` if there is none."""
        ...

    def done(self, claim: Claim) -> None:
        """Remove work, unless it was promised again since it was claimed."""
        ...

    def postpone(self, claim: Claim, *, seconds: float) -> None:
        """Release work, to be claimed again after this many seconds."""
        ...

    def waiting(self) -> int:
        """Count promised work that is not done, claimed or not."""
        ...


class SpacesWithWork(Protocol):
    """Finds, over all spaces of a database, those with unclaimed background work."""

    def names(self) -> Sequence[str]:
        """Return their names, always in the same order. Raises `Unavailable`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Staleness:
    """The age of an answer, which includes everything that was committed `seconds` ago or earlier.

    `sequence`: the last audit event in it. `behind`: the number of later events, as far as known.
    """

    sequence: int
    seconds: float
    behind: int


class LateReads:
    """The reads of one call. Each is at least as new as the ones before it, and as `at_least`.

    `told` is the maximum age of answers from a replica, or `None` while all were current.
    """

    def __init__(self, at_least: int) -> None:
        self.at_least: int = at_least
        self.told: Staleness | None = None

    def saw(self, sequence: int, staleness: Staleness | None = None) -> None:
        """Note the state seen by a read: its audit event, and its maximum age if a replica answered."""
        self.at_least = max(self.at_least, sequence)
        if staleness and (self.told is None or staleness.seconds > self.told.seconds):
            self.told = staleness


_LATE_READS: ContextVar[LateReads | None] = ContextVar("treering_late_reads", default=None)


@contextmanager
def late_reads(*, at_least: int = 0) -> Iterator[LateReads]:
    """Allow reads of this thread in the block to be late, but at least of the audit event `at_least`."""
    late = LateReads(at_least)
    token = _LATE_READS.set(late)
    try:
        yield late
    finally:
        _LATE_READS.reset(token)


def current_late_reads() -> LateReads | None:
    """Return the limits for late reads of this thread; `None` if reads must be current."""
    return _LATE_READS.get()


def require_newest() -> None:
    """Require all further reads of the call to be current."""
    if late := _LATE_READS.get():
        late.at_least = NEVER
