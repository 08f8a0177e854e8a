"""Where errors of Postgres and of its driver become ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.stores.rows.packing import RESTORE, pack
from treering.stores.rows.read_checks import Body

_SHOWN = 300


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn every error of the driver into ours, with a hint for each. `place`: the address without its password."""
    try:
        yield
    except TreeringError:
        raise
    except psycopg.Error as error:
        raise translation(place, error) from error


def translation(place: str, error: psycopg.Error) -> TreeringError:
    """Return our error for one of the driver."""
    return next(make(place, error) for kinds, make in _TRANSLATIONS if isinstance(error, kinds))


def closed(place: str) -> Unavailable:
    """Say that a space was closed."""
    return Unavailable(f"{place} was closed.", hint="Open the space again.")


def locked(place: str) -> Unavailable:
    """Say that other writers held the space for too long."""
    return Unavailable(
        f"{place} was locked by other writers for too long.",
        hint="Try again; look for a stuck process (pg_stat_activity).",
    )


def _closed(place: str, _error: psycopg.Error) -> TreeringError:
    return closed(place)


def _busy(place: str, _error: psycopg.Error) -> TreeringError:
    return Unavailable(
        f"{place}: no connection to the server was free or could be made in time.",
        hint="Check that the server runs; allow more connections with ?pool=NUMBER.",
    )


def _locked(place: str, _error: psycopg.Error) -> TreeringError:
    return locked(place)


def _full(place: str, error: psycopg.Error) -> TreeringError:
    return Unavailable(
        f"The server of {place} has run out of disk, memory or connections: {_first_line(error)}.",
        hint="Free some; nothing was changed.",
    )


def _forbidden(place: str, error: psycopg.Error) -> TreeringError:
    return Unavailable(
        f"The database user may not do this at {place}: {_first_line(error)}.",
        hint="Open the space once as the owner of the database, which makes the tables, and grant this user "
        "USAGE on the schema treering and SELECT, INSERT, UPDATE, DELETE on its tables.",
    )


def _read_only(place: str, _error: psycopg.Error) -> TreeringError:
    return Unavailable(
        f"{place} can only be read: the server is a standby, or set to read only.",
        hint="Name the server that takes writes, or add target_session_attrs=read-write.",
    )


def _damaged(place: str, error: psycopg.Error) -> TreeringError:
    return Corrupt(f"The database of {place} is damaged: {_first_line(error)}.", hint=RESTORE)


def _malformed(place: str, error: psycopg.Error) -> TreeringError:
    # SQL that is ours fails like this only where something else changed tables or rows.
    return Corrupt(f"{place} holds tables or rows that Treering did not write: {_first_line(error)}.", hint=RESTORE)


def _unfit(_place: str, error: psycopg.Error) -> TreeringError:
    return InvalidInput(
        f"A value cannot be stored: {_first_line(error)}.", hint="Correct the text; nothing was changed."
    )


def _ended(place: str, error: psycopg.Error) -> TreeringError:
    return Unavailable(f"The server of {place} ended the work: {_first_line(error)}.", hint="Try again.")


def _away(place: str, error: psycopg.Error) -> TreeringError:
    return Unavailable(
        f"The server of {place} cannot be reached: {_first_line(error)}.",
        hint="Check that it runs, and the host, port, database, user and password of the address; then try again.",
    )


_Kinds = tuple[type[psycopg.Error], ...]
_TRANSLATIONS: tuple[tuple[_Kinds, Callable[[str, psycopg.Error], TreeringError]], ...] = (
    ((PoolClosed,), _closed),
    ((PoolTimeout, TooManyRequests), _busy),
    ((errors.LockNotAvailable,), _locked),
    ((errors.InsufficientResources, errors.DiskFull, errors.OutOfMemory, errors.TooManyConnections), _full),
    ((errors.InsufficientPrivilege,), _forbidden),
    ((errors.ReadOnlySqlTransaction,), _read_only),
    ((errors.DataCorrupted, errors.IndexCorrupted), _damaged),
    (
        (
            *(errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected),
            errors.IdleInTransactionSessionTimeout,
        ),
        _ended,
    ),
    ((psycopg.DataError, errors.ProgramLimitExceeded), _unfit),
    ((psycopg.OperationalError, psycopg.InterfaceError), _away),
    ((psycopg.Error,), _malformed),
)


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_SHOWN].rstrip(".")


# How texts lie in columns: packed ones as bytes, names as texts that Postgres takes.


_COMPRESSED = (0xFD2FB528).to_bytes(4, "little")
"""How a frame of zstandard begins. No text in UTF-8 does: its second byte cannot stand there."""
_ESCAPE = "\U000f0000"
"""A character for private use: behind it, `0` stands for a NUL, and `1` for the character itself."""

NAME_CHARS = 200
SCOPE_CHARS = 256
ORIGIN_CHARS = 300
"""Characters of long columns that indexes hold: an entry may have 2,704 bytes at most, and a character takes up to
four."""

AFTER_ALL = "\U0010ffff"
"""Behind a prefix, the end of the range of texts that begin with it."""


def packed(text: str) -> bytes:
    """Return a text as it is kept."""
    stored = pack(text)
    return stored.encode() if isinstance(stored, str) else stored


def body_of(stored: bytes) -> Body:
    """Return what `packed` made in the form that `rows.packing.unpack` reads.

    What is neither a text nor compressed stays bytes, so that unpacking it raises `Corrupt`.
    """
    if stored.startswith(_COMPRESSED):
        return stored
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def to_column(text: str) -> str:
    """Return a text without NUL, which Postgres takes in no text. What begins alike still does."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def from_column(text: str) -> str:
    """Return the text that `to_column` was given."""
    return text if _ESCAPE not in text else text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)
