"""Writing again where somebody else was first."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from treering.core.errors import Conflict

ATTEMPTS = 5
Outcome = TypeVar("Outcome")


def retry_on_conflict(write: Callable[[], Outcome], *, attempts: int = ATTEMPTS) -> Outcome:
    """Call `write` until it raises no `Conflict`, at most `attempts` times; raises the last one.

    `write` has to read anew what it changes, or it loses against the same change again.
    """
    for _ in range(attempts - 1):
        with suppress(Conflict):
            return write()
    return write()
