"""Ending work that nobody waits for any more: a check that is carried with a call, and looked at by its long steps.

It is carried by the context of the thread that works (`contextvars`), because every store and every loop below a call
has to see it. Work that nobody gave a check runs to its end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Check = Callable[[], None]
"""Raises `Unavailable` once the work has to end."""


class _Work:
    def __init__(self, check: Check) -> None:
        self.check = check
        self.committed = False


_CURRENT: ContextVar[_Work | None] = ContextVar("treering_work", default=None)


@contextmanager
def interruptible(check: Check) -> Iterator[None]:
    """Have the work that this thread does inside look at `check`."""
    token = _CURRENT.set(_Work(check))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Have the work inside come to its end, such as a commit."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check_interrupt() -> None:
    """Raise what ends the work under way, if it has to end; nothing once it has committed.

    For every place that may take long: what was written must not be reported as not done.
    """
    work = _CURRENT.get()
    if work and not work.committed:
        work.check()


def check_between_steps() -> None:
    """Raise what ends the work under way, also where earlier steps of it have committed.

    For work of many steps that can be asked for again, such as reading a folder.
    """
    if work := _CURRENT.get():
        work.check()


def note_commit() -> None:
    """Note that the work under way has written: it is no longer interrupted within a step."""
    if work := _CURRENT.get():
        work.committed = True
