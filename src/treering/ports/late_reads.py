"""Reads that may be of a moment ago: a store may answer them from a replica, and tells how old the answer may be.

Carried by the context of the thread that works (`contextvars`), as `ports.interrupt`: every store below a call sees it.
A read that nobody called late is of now.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old an answer may be: it holds everything that was committed `seconds` ago or earlier.

    `sequence`: the last audit event that it holds. `behind`: how many more there are known to be.
    """

    sequence: int
    seconds: float
    behind: int


class LateReads:
    """The reads of one call. None is of an earlier moment than those before it, nor than `at_least`.

    `told`: how old the oldest answer of a replica may be; `None` as long as all were of now.
    """

    def __init__(self, at_least: int) -> None:
        self.at_least = at_least
        self.told: Staleness | None = None

    def saw(self, sequence: int, staleness: Staleness | None = None) -> None:
        """Note what a read saw: the state of an audit event, and how old it may be where a replica answered."""
        self.at_least = max(self.at_least, sequence)
        if staleness and (self.told is None or staleness.seconds > self.told.seconds):
            self.told = staleness


_CURRENT: ContextVar[LateReads | None] = ContextVar("treering_late_reads", default=None)


@contextmanager
def late_reads(*, at_least: int = 0) -> Iterator[LateReads]:
    """Allow the reads that this thread does inside to be late, but of the audit event `at_least` or a later one."""
    late = LateReads(at_least)
    token = _CURRENT.set(late)
    try:
        yield late
    finally:
        _CURRENT.reset(token)


def current_late_reads() -> LateReads | None:
    """Return what the reads of this thread are allowed; `None` where they have to be of now."""
    return _CURRENT.get()


def require_newest() -> None:
    """Have the rest of the reads under way be of now."""
    if late := _CURRENT.get():
        late.at_least = NEVER
