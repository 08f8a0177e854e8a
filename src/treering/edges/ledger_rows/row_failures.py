"""Where what a damaged row raises becomes `Corrupt`."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from treering.core.errors import Corrupt, InvalidInput

REINDEX = "Make the index anew: `treering lint reindex --apply`."
RESTORE = "Restore it from a backup, or import an export into a new space."
_ROW_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, struct.error)
_SHOWN = 200


@contextmanager
def row_of(name: str, *, hint: str = RESTORE) -> Iterator[None]:
    """Turn everything that parsing one damaged row raises into `Corrupt`, naming what the row is of.

    A row may hold values of any type: something else than Treering may have written it, and SQLite takes any.
    """
    try:
        yield
    except (Corrupt, InvalidInput) as error:
        raise _unreadable_row(name, error.message, hint) from error
    except _ROW_ERRORS as error:
        raise _unreadable_row(name, f"{type(error).__name__}: {error}", hint) from error


@contextmanager
def rows_of(name: str, *, hint: str = RESTORE) -> Iterator[None]:
    """Turn what reading several rows raises that are not what they should be into `Corrupt`; errors of ours pass."""
    try:
        yield
    except _ROW_ERRORS as error:
        raise _unreadable_row(name, f"{type(error).__name__}: {error}", hint) from error


def _unreadable_row(name: str, found: str, hint: str) -> Corrupt:
    return Corrupt(
        f"The stored rows of {name} cannot be read. {found[:_SHOWN].rstrip('.')}.", hint=hint, details={"id": name}
    )
