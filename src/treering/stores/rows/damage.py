"""Report damaged rows as `Corrupt`."""

import struct

from treering.core.errors import Corrupt, InvalidInput, TreeringError

REINDEX = "Rebuild the index: `treering lint reindex --apply`."


RESTORE = "Restore it from a backup, or import an export into a new space."


_ROW_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, struct.error)


_SHOWN = 200


def row_of(name: str, *, hint: str = RESTORE) -> "_Guard":
    """Report the errors of parsing one damaged row as `Corrupt`. `name`: the content of the row.

    Another program may have written values of other types, which SQLite accepts.
    """
    return _Guard(name, hint, ours=(Corrupt, InvalidInput))


def rows_of(name: str, *, hint: str = RESTORE) -> "_Guard":
    """Report the errors of parsing several damaged rows as `Corrupt`. Errors of Treering pass unchanged."""
    return _Guard(name, hint)


class _Guard:
    """A context for reading rows. Not a generator, which takes four times as long: a search enters hundreds."""

    __slots__ = ("_hint", "_name", "_ours")

    def __init__(self, name: str, hint: str, ours: tuple[type[TreeringError], ...] = ()) -> None:
        self._name = name
        self._hint = hint
        self._ours = ours

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, TreeringError):
            if isinstance(error, self._ours):
                raise _unreadable_row(self._name, error.message, self._hint) from error
        elif isinstance(error, _ROW_ERRORS):
            raise _unreadable_row(self._name, f"{type(error).__name__}: {error}", self._hint) from error


def _unreadable_row(name: str, found: str, hint: str) -> Corrupt:
    return Corrupt(
        f"The stored rows of {name} cannot be read. {found[:_SHOWN].rstrip('.')}.", hint=hint, details={"id": name}
    )
