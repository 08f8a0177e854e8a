"""The graph of a space in a file beside it: a process maps what an earlier one read and sorted.

It is never the source of truth. A file of a moment that the space never had, or after which something was erased, is
removed and made anew. An erasure removes it with all that is kept ready (`files.remove_ready`); and it gets its name
while nobody writes, after a look whether something was erased since its moment, so that none comes back.
"""

import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import apsw
import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt, TreeringError
from treering.retrieval.graph.graph_table import PACKED_TYPES, GraphTable, Packed
from treering.stores.rows.passage_log import FeedPlace, Moment
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.files import ready_folder
from treering.stores.sqlite.index.vectors import count_forgotten, known_place, place_now
from treering.system.machine import held_alone, private, sync_folder

if TYPE_CHECKING:
    from treering.stores.sqlite.index.graph import SqliteGraphRows

_NAME, _LOCK = "graph.table", "graph.lock"
_MAGIC = b"treering graph 1"
_START = struct.Struct("=16sI32s")  # with the byte order of this machine: another one does not find the magic
_FRONT = 4_096
"""Bytes for what stands at the front."""
_ALIGNED = 64
_END = 4
"""Bytes of a reference, and of a row."""


class SqliteKeptGraph:
    """`rows.graph.KeptGraph` of a space that is a file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._inode = 0
        """Of the file that was read or kept; 0 where none was."""

    def read(self, rows: "SqliteGraphRows") -> tuple[GraphTable, Moment] | None:
        """Map the table, and return the moment it is of; remove a file that is of no use."""
        self._inode = 0
        if self._file is None:
            return None
        try:
            with open(self._file, "rb", opener=_opened) as file:
                moment, packed = _mapped(file)
                inode = os.fstat(file.fileno()).st_ino
                table = GraphTable.of(packed)
        except OSError:
            return None
        except Corrupt:
            self._remove()
            return None
        place = known_place(rows.connection, moment)
        if place is None:
            # Another process may have kept a later moment than that of the rows.
            self._database.while_nobody_writes(lambda now: None if known_place(now, moment) else self._remove())
            return None
        if count_forgotten(rows.connection, place.position):
            self._remove()
            return None
        self._inode = inode
        return table, (place.epoch, place.position)

    def keep(self, rows: "SqliteGraphRows", table: GraphTable) -> GraphTable | None:
        """Write a table of the moment of the rows, and map it. Where another process is at it, that is left to it."""
        if self._file is None or os.name != "posix" or self._database.read_only:
            return None
        place = place_now(rows.connection)
        with suppress(OSError, TreeringError):
            folder = ready_folder(self._database.path, make=True)
            with held_alone(folder / _LOCK) as is_alone:
                return self._write(folder, place, table) if is_alone else None
        return None

    def is_gone(self) -> bool:
        """Tell whether the file that is mapped here lies there no more: its content may have been erased."""
        if not self._inode or self._file is None:
            return False
        try:
            return self._file.stat().st_ino != self._inode
        except OSError:
            return True

    @property
    def _file(self) -> Path | None:
        return None if self._database.in_memory else ready_folder(self._database.path) / _NAME

    def _remove(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _write(self, folder: Path, place: FeedPlace, table: GraphTable) -> GraphTable | None:
        with _prepared(folder) as new:
            with open(new, "x+b", opener=private) as file:
                _write(file, str(place), table)
                _, packed = _mapped(file)
                inode = os.fstat(file.fileno()).st_ino
            if not self._publish(new, folder / _NAME, place):
                return None
            self._inode = inode
            return GraphTable.of(packed)

    def _publish(self, new: Path, file: Path, place: FeedPlace) -> bool:
        """Give a file its name, unless something was erased since its moment; tell whether it has it."""

        def rename(connection: apsw.Connection) -> None:
            if known_place(connection, str(place)) and not count_forgotten(connection, place.position):
                new.replace(file)

        return self._database.while_nobody_writes(rename) and not new.exists()


@contextmanager
def _prepared(folder: Path) -> Iterator[Path]:
    """Name a new file; remove it where it has no other name in the end, and those that killed processes left."""
    for left in folder.glob(f"{_NAME}.*.new"):
        left.unlink(missing_ok=True)
    new = folder / f"{_NAME}.{uuid4().hex}.new"
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)
        sync_folder(folder)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _write(file: BinaryIO, moment: str, table: GraphTable) -> None:
    """Write a table: what stands at the front comes last, once the place of each array is known."""
    packed = table.rows()
    places, end = {}, _FRONT
    for name, array in packed.arrays.items():
        places[name] = (_aligned(end), len(array))
        end = _put(file, places[name][0], array)
    most, parts = table.ends()
    references = _aligned(end)
    rows = _aligned(references + most * _END)
    nodes, bounds, size = [], [np.zeros(1, np.int32)], 0
    for part in parts:
        _put(file, references + size * _END, part.references)
        _put(file, rows + size * _END, part.rows)
        nodes.append(part.nodes)
        bounds.append(part.bounds[1:] + np.int32(size))
        size += part.size
    end = rows + most * _END
    places |= {"references": (references, size), "rows": (rows, size)}
    for name, of_parts in (("nodes", nodes), ("bounds", bounds)):
        array = np.concatenate([np.zeros(0, PACKED_TYPES[name]), *of_parts])
        places[name] = (_aligned(end), len(array))
        end = _put(file, places[name][0], array)
    told = json.dumps({"moment": moment, "counts": packed.counts, "places": places}).encode()
    front = _START.pack(_MAGIC, len(told), blake2b(told, digest_size=32).digest()) + told
    _put(file, 0, np.frombuffer(front, np.uint8))
    file.flush()
    os.fsync(file.fileno())


def _put(file: BinaryIO, place: int, array: npt.NDArray[Any]) -> int:
    """Write an array at a place; return where it ends."""
    file.seek(place)
    file.write(np.ascontiguousarray(array).data)
    return place + array.nbytes


def _mapped(file: BinaryIO) -> tuple[str, Packed]:
    """Map a file: its moment, and arrays whose changes stay in this process. Raises `Corrupt` for another file."""
    size = os.fstat(file.fileno()).st_size
    if size < _FRONT:
        raise _damaged()
    content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    magic, length, digest = _START.unpack_from(content)
    front = content[_START.size : min(_START.size + length, _FRONT)]
    if magic != _MAGIC or blake2b(front, digest_size=32).digest() != digest:
        raise _damaged()
    told: Mapping[str, Any] = json.loads(front)
    arrays = {}
    for name, kind in PACKED_TYPES.items():
        start, count = told["places"][name]
        if start + count * np.dtype(kind).itemsize > size:
            raise _damaged()
        arrays[name] = np.frombuffer(content, kind, count, start)
    return told["moment"], Packed(told["counts"], arrays)


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED


def _damaged() -> Corrupt:
    return Corrupt("A kept graph cannot be read.", hint="It is made anew from the space.")
