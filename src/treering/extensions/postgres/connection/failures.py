"""Convert errors of Postgres and its driver, and values to the forms in which the server stores them."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.stores.rows.damage import RESTORE
from treering.stores.rows.packing import pack, unpack
from treering.stores.rows.read_checks import Body

_SHOWN = 300


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Convert errors of the driver to ours with a hint. `place`: the address without its password."""
    try:
        yield
    except TreeringError:
        raise
    except psycopg.Error as error:
        raise translation(place, error) from error


def translation(place: str, error: psycopg.Error) -> TreeringError:
    """Return our error for an error of the driver."""
    kind, message, hint = next(row[1:] for row in _TRANSLATIONS if isinstance(error, row[0]))
    translated_error = kind(message.format(place=place, error=_first_line(error)), hint=hint)
    if kind is not InvalidInput:
        public = message.format(place="the database", error="the log of this server has the reason")
        translated_error.public_message = public[0].upper() + public[1:]
    return translated_error


def closed(place: str) -> TreeringError:
    """Return the error for a closed space."""
    return translation(place, PoolClosed())


def locked(place: str) -> TreeringError:
    """Return the error for a space that other writers locked for too long."""
    return translation(place, errors.LockNotAvailable())


_Kinds = tuple[type[psycopg.Error], ...]
# By errors of the driver: the class, message and hint of our error. The first match is used.
_TRANSLATIONS: tuple[tuple[_Kinds, type[Unavailable | InvalidInput | Corrupt], str, str], ...] = (
    ((PoolClosed,), Unavailable, "{place} was closed.", "Open the space again."),
    (
        (PoolTimeout, TooManyRequests),
        Unavailable,
        "{place}: no connection to the server was available in time.",
        "Check that the server runs; allow more connections with ?pool=NUMBER.",
    ),
    (
        (errors.LockNotAvailable,),
        Unavailable,
        "{place} was locked by other writers for too long.",
        "Try again; look for a stuck process (pg_stat_activity).",
    ),
    (
        (errors.InsufficientResources, errors.DiskFull, errors.OutOfMemory, errors.TooManyConnections),
        Unavailable,
        "The server of {place} is out of disk space, memory or connections: {error}.",
        "Free some; nothing was changed.",
    ),
    (
        (errors.InsufficientPrivilege,),
        Unavailable,
        "The database user lacks a permission at {place}: {error}.",
        "Open the space once as the owner of the database, which makes the tables, and run the output of "
        "`treering postgres plan --writer ROLE` as the owner. Only the owner can create and revoke keys.",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        Unavailable,
        "{place} is read-only: the server is a standby, or set to read only.",
        "Use the server that accepts writes, or add target_session_attrs=read-write.",
    ),
    ((errors.DataCorrupted, errors.IndexCorrupted), Corrupt, "The database of {place} is damaged: {error}.", RESTORE),
    (
        (
            *(errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected),
            errors.IdleInTransactionSessionTimeout,
        ),
        Unavailable,
        "The server of {place} cancelled the operation: {error}.",
        "Try again.",
    ),
    (
        # Of Citus, such as a coordinator that lost a worker.
        (errors.InternalError_,),
        Unavailable,
        "The server of {place} failed: {error}.",
        "Try again; see the log of the server.",
    ),
    (
        (psycopg.DataError, errors.ProgramLimitExceeded),
        InvalidInput,
        "A value cannot be stored: {error}.",
        "Correct the text; nothing was changed.",
    ),
    (
        (psycopg.OperationalError, psycopg.InterfaceError),
        Unavailable,
        "Cannot reach the server of {place}: {error}.",
        "Check that it runs, and check host, port, database, user and password of the address; then try again.",
    ),
    # Our SQL raises other errors only if another program changed tables or rows.
    ((psycopg.Error,), Corrupt, "{place} contains tables or rows that Treering did not write: {error}.", RESTORE),
)


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_SHOWN].rstrip(".")


_COMPRESSED = (0xFD2FB528).to_bytes(4, "little")
"""The first bytes of a zstd frame. UTF-8 text cannot begin with them, because of the second byte."""
_ESCAPE = "\U000f0000"
"""A private-use character: followed by `0`, it stands for NUL; followed by `1`, for itself."""

AFTER_ALL = "\U0010ffff"
"""Appended to a prefix, the end of the range of texts with this prefix."""


def packed(text: str) -> bytes:
    """Return the stored form of a text."""
    stored = pack(text)
    return stored.encode() if isinstance(stored, str) else stored


def body_of(stored: bytes) -> Body:
    """Return the result of `packed` in the form for `rows.packing.unpack`.

    Values that are neither text nor compressed remain bytes, so that unpacking them raises `Corrupt`.
    """
    if stored.startswith(_COMPRESSED):
        return stored
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def text_of(stored: bytes) -> str:
    """Return the text of which `packed` made a value. Raises `Corrupt` if the value is damaged."""
    return unpack(body_of(stored))


def to_column(text: str) -> str:
    """Return a text without NUL, which Postgres does not accept. Common prefixes are preserved."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def from_column(text: str) -> str:
    """Return the text that was passed to `to_column`."""
    return text if _ESCAPE not in text else text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


# Arrays in the binary form of the server. The driver would write, and the server parse, each element as text (bytes as
# hexadecimal digits), which takes ten times as long on both sides.


class _Kind(NamedTuple):
    """An element type: its OID, the OID of its arrays, and the format of a number."""

    element: int
    array: int
    packed: np.dtype[Any] | None = None
    """For numbers: the layout of an array element, its size and its value."""


def _number(element: int, array: int, packed: str) -> _Kind:
    return _Kind(element, array, np.dtype([("size", ">i4"), ("value", packed)]))


_ARRAYS = {
    "boolean": _number(16, 1000, "?"),
    "smallint": _number(21, 1005, ">i2"),
    "integer": _number(23, 1007, ">i4"),
    "bigint": _number(20, 1016, ">i8"),
    "double precision": _number(701, 1022, ">f8"),
    "text": _Kind(25, 1009),
    "bytea": _Kind(17, 1001),
    "jsonb": _Kind(3802, 3807),
}
_KINDS: Mapping[type, str] = {bool: "boolean", int: "bigint", float: "double precision", str: "text", bytes: "bytea"}
_NULL = struct.pack(">i", -1)
_size = struct.Struct(">i").pack


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one SQL type; `None` for NULL."""

    kind: str
    values: Sequence[Any]

    @property
    def oid(self) -> int:
        """The OID of the type."""
        return _ARRAYS[self.kind].array

    def packed(self, encoding: str) -> bytes:
        """Return the binary form of a one-dimensional array. Raises `psycopg.DataError` for a text with NUL."""
        kind, values = _ARRAYS[self.kind], self.values
        has_null = None in values
        header = struct.pack(">iiiii", 1, has_null, kind.element, len(values), 1)
        if kind.packed and not has_null:
            column = np.empty(len(values), kind.packed)
            column["size"] = kind.packed["value"].itemsize
            column["value"] = values
            return header + column.tobytes()
        packed: Iterator[bytes | None]
        if kind.packed:
            of_value = kind.packed["value"]
            packed = (None if value is None else np.array(value, of_value).tobytes() for value in values)
        elif self.kind == "bytea":
            packed = iter(values)
        else:
            begin = b"\1" if self.kind == "jsonb" else b""  # the version of the format
            packed = (None if value is None else begin + value.encode(encoding) for value in values)
            if any(value is not None and "\0" in value for value in values):
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return header + b"".join([_NULL if each is None else _size(len(each)) + each for each in packed])


def array_of(value: object) -> Array | None:
    """Return a list of values of one type as an array; `None` for values that the driver should convert."""
    if isinstance(value, Array):
        return value
    if not isinstance(value, list) or not value:
        return None
    kinds = set(map(type, value)) - {type(None)}
    kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    return Array(kind, value) if kind else None
