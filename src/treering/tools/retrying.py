"""Trying again where somebody else was first."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from treering.core.errors import Conflict, TreeringError

_Done = TypeVar("_Done")

ATTEMPTS = 5
"""How often work is tried that somebody else was faster with."""


def retry_on_conflict(
    work: Callable[[], _Done], *, attempts: int = ATTEMPTS, on: tuple[type[TreeringError], ...] = (Conflict,)
) -> _Done:
    """Return what `work` gives. While it raises one of the errors `on`, it is called again, and has to read anew.

    Raises the error of the last of so many `attempts`.
    """
    for _ in range(attempts - 1):
        with suppress(*on):
            return work()
    return work()
