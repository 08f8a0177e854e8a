"""Tables in memory saved in the ready folder of a space, which other processes map.

A saved table is only a cache. It is deleted if its moment does not belong to the space, or if something was erased
since. An erasure deletes all saved files (`ready.remove_ready`). A new file is renamed while no process writes, after a
check for erasures since its moment, so that it contains no erased data.

A mapped file is never truncated: only its user can open the folder, and files are replaced by renaming.
"""

import json
import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4

import apsw
import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt, TreeringError
from treering.retrieval.index.tables import PackedTable, unfit
from treering.stores.rows.passage_log import Moment
from treering.stores.rows.vector_feed import FeedPlace
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.passage_log import SqliteLog, count_forgotten, known_place, place_now
from treering.stores.sqlite.ready import ready_folder
from treering.system.machine import held_alone, private, sync_folder

_MAGIC = b"treering table 2"


_START = struct.Struct(
    "=16sI32s"
)  # in the byte order of this machine; another machine does not recognize the magic number


_FRONT = 4_096
"""Size of the header."""


_ALIGNED = 64


_SUMMED_BYTES = 2**20
"""Bytes of a file that are read at a time; they fit into the cache of a core."""


_KINDS = frozenset(np.dtype(kind).str for kind in ("i2", "i4", "i8", "u4", "u8"))


class _Place(NamedTuple):
    """The position, type and shape of an array in a file."""

    start: int
    kind: str
    shape: tuple[int, ...]


class SqliteSavedTable:
    """`rows.followed_table.SavedTable` for a space in a file."""

    def __init__(self, database: Database, name: str, *, at_once: bool) -> None:
        self.at_once = at_once
        self._database = database
        self._name = f"{name}.table"
        self._inode = 0
        """The inode of the file that was read or saved; 0 if none."""

    def read(self, log: "SqliteLog") -> tuple[PackedTable, Moment] | None:
        """Map the table, and return it with its moment. Delete a file that cannot be used."""
        self._inode = 0
        if self._file is None:
            return None
        try:
            with open(self._file, "rb", opener=_opened) as file:
                moment, packed = _mapped(file)
                inode = os.fstat(file.fileno()).st_ino
        except OSError:
            return None
        except Corrupt:
            self.delete()
            return None
        place = known_place(log.connection, moment)
        if place is None:
            # Another process may have saved a later moment than that of the log.
            self._database.while_nobody_writes(lambda now: None if known_place(now, moment) else self.delete())
            return None
        if count_forgotten(log.connection, place.position):
            self.delete()
            return None
        self._inode = inode
        return packed, (place.epoch, place.position)

    def is_due(self, log: "SqliteLog", most: float) -> bool:
        """Return whether a table can be saved, and the saved one is missing or lacks more than `most` changes."""
        position = log.moment()[1]
        if position <= most or not self._can_save():
            return False
        with suppress(OSError, Corrupt), open(str(self._file), "rb", opener=_opened) as file:
            place = known_place(log.connection, _header(file.read(_FRONT))["moment"])
            if place is not None and not count_forgotten(log.connection, place.position):
                return position - place.position > most
        return True

    def _can_save(self) -> bool:
        if self._file is None or os.name != "posix" or self._database.read_only:
            return False
        with suppress(OSError):
            return os.access(ready_folder(self._database.path, make=True), os.W_OK)
        return False

    def save(self, log: "SqliteLog", packed: Callable[[], PackedTable]) -> PackedTable | None:
        """Save and map a table as of the moment of the log, unless another process is saving it."""
        if not self._can_save():
            return None
        place = place_now(log.connection)
        with suppress(OSError, TreeringError):
            folder = ready_folder(self._database.path)
            with held_alone(folder / f"{self._name}.lock") as is_alone:
                return self._write(folder, place, packed()) if is_alone else None
        return None

    def is_replaced(self) -> bool:
        """Return whether the file is not the mapped one: its content may have been erased."""
        if self._file is None:
            return False
        try:
            return self._file.stat().st_ino != self._inode
        except OSError:
            return self.is_mapped

    @property
    def is_mapped(self) -> bool:
        """Whether a file was read or saved, and not deleted here."""
        return self._inode > 0

    @cached_property  # a search checks several times whether the file exists
    def _file(self) -> Path | None:
        with suppress(OSError):
            return None if self._database.in_memory else ready_folder(self._database.path) / self._name
        return None

    def delete(self) -> None:
        """Delete the file."""
        self._inode = 0
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _write(self, folder: Path, place: FeedPlace, packed: PackedTable) -> PackedTable | None:
        with _prepared(folder, self._name) as new:
            with open(new, "x+b", opener=private) as file:
                _write(file, str(place), packed)
                _, mapped = _mapped(file)
                inode = os.fstat(file.fileno()).st_ino
            if not self._publish(new, folder / self._name, place):
                return None
            self._inode = inode
            return mapped

    def _publish(self, new: Path, file: Path, place: FeedPlace) -> bool:
        """Rename a file to its name, unless something was erased since its moment. Return whether it was renamed."""

        def rename(connection: apsw.Connection) -> None:
            if known_place(connection, str(place)) and not count_forgotten(connection, place.position):
                new.replace(file)

        return self._database.while_nobody_writes(rename) and not new.exists()


@contextmanager
def _prepared(folder: Path, name: str) -> Iterator[Path]:
    """Yield the name for a new file. Afterwards, delete it if it was not renamed, and files of killed processes."""
    for left in folder.glob(f"{name}.*.new"):
        left.unlink(missing_ok=True)
    new = folder / f"{name}.{uuid4().hex}.new"
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)
        sync_folder(folder)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _write(file: BinaryIO, moment: str, packed: PackedTable) -> None:
    """Write a table. The header is written last, when the positions of all arrays are known."""
    places, end = {}, _FRONT
    for name, array in packed.arrays.items():
        places[name] = _Place(_aligned(end), array.dtype.str, array.shape)
        end = _put(file, places[name].start, array)
    for part in packed.parts:
        for name, array in part.items():
            if name not in places:
                places[name] = _Place(_aligned(end), array.dtype.str, (0,))
                end = places[name].start + packed.most * array.itemsize
            place = places[name]
            _put(file, place.start + place.shape[0] * array.itemsize, array)
            places[name] = place._replace(shape=(place.shape[0] + len(array),))
    file.truncate(_aligned(max(end, _FRONT)))
    file.flush()
    total = _sum(file)
    header = json.dumps({"moment": moment, "numbers": packed.numbers, "places": places, "sum": total}).encode()
    front = _START.pack(_MAGIC, len(header), blake2b(header, digest_size=32).digest()) + header
    _put(file, 0, np.frombuffer(front, np.uint8))
    file.flush()
    os.fsync(file.fileno())


def _put(file: BinaryIO, place: int, array: npt.NDArray[Any]) -> int:
    """Write an array at a position; return the end."""
    file.seek(place)
    file.write(np.ascontiguousarray(array).data)
    return place + array.nbytes


def _mapped(file: BinaryIO) -> tuple[str, PackedTable]:
    """Map a file; return its moment and its arrays, whose changes are not written. Raises `Corrupt` if invalid."""
    size = os.fstat(file.fileno()).st_size
    if size < _FRONT or size % _ALIGNED:
        raise unfit()
    content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    header = _header(content[:_FRONT])
    try:
        places = {name: _Place(*place) for name, place in header["places"].items()}
        arrays = {name: _array(content, place) for name, place in places.items()}
        numbers = dict(header["numbers"])
        is_whole = header["sum"] == _sum(file)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise unfit() from error
    if not is_whole:
        raise unfit()
    return header["moment"], PackedTable(numbers, arrays)


def _header(front: bytes) -> dict[str, Any]:
    """Parse the start of a file. Raises `Corrupt` if it is not a header with a moment."""
    if len(front) < _FRONT:
        raise unfit()
    magic, length, digest = _START.unpack_from(front)
    content = front[_START.size : _START.size + length]
    if magic != _MAGIC or blake2b(content, digest_size=32).digest() != digest:
        raise unfit()
    try:
        header: dict[str, Any] = json.loads(content)
        return {**header, "moment": str(header["moment"])}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise unfit() from error


def _array(content: mmap.mmap, place: _Place) -> npt.NDArray[Any]:
    """Return an array of a file. Raises `Corrupt`, `ValueError` or `TypeError` if it is outside the file."""
    if place.kind not in _KINDS or place.start < _FRONT or any(size < 0 for size in place.shape):
        raise unfit()
    return np.frombuffer(content, place.kind, math.prod(place.shape), place.start).reshape(place.shape)


def _sum(file: BinaryIO) -> int:
    """Return the sum of the words after the header. It reveals damage at a fifteenth of the cost of SHA-256.

    The file is read, because all pages of a mapping would stay resident.
    """
    total = 0
    file.seek(_FRONT)
    while part := file.read(_SUMMED_BYTES):
        total += int(np.frombuffer(part, np.uint64).sum())
    return total % 2**64


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED
