"""Tables in memory that follow the passage log, and start from a file saved by another process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt
from treering.retrieval.index.tables import PackedTable
from treering.stores.rows.passage_log import Moment, PassageLog, follow_log

MIN_SAVED_PASSAGES = 5_000
"""Smaller tables are loaded from the database faster than a file is opened and checked."""

_MAX_CHANGED_DIVISOR = 16
"""A table is saved again if a process had to read more than one of this many passages from the database."""

Log = TypeVar("Log", bound=PassageLog)
Log_contra = TypeVar("Log_contra", bound=PassageLog, contravariant=True)


class SavedTable(Protocol[Log_contra]):
    """A file with the content of a table, for all processes that use the space."""

    @property
    def at_once(self) -> bool:
        """Whether a process that meets a missing or outdated file saves the table, because no other process would."""
        ...

    def read(self, log: Log_contra) -> tuple[PackedTable, Moment] | None:
        """Return the saved table and its moment, or `None` if the log cannot continue from a saved table."""
        ...

    def save(self, log: Log_contra, packed: Callable[[], PackedTable]) -> PackedTable | None:
        """Save a table as of the moment of the log; return the table as read from the file, or `None` if not saved.

        `packed` is called only if the table can be saved.
        """
        ...

    def is_due(self, log: Log_contra, most: float) -> bool:
        """Return whether a table can be saved, and the saved one is missing or lacks more than `most` changes."""
        ...

    def is_replaced(self) -> bool:
        """Return whether the file differs from the file read or saved here: a newer one, or none after an erasure."""
        ...

    @property
    def is_mapped(self) -> bool:
        """Whether the table uses a file."""
        ...

    def delete(self) -> None:
        """Delete the file."""
        ...


class FollowedTable(ABC, Generic[Log]):
    """A table in memory that follows the passage log. Not thread-safe."""

    def __init__(self, saved: SavedTable[Log] | None = None) -> None:
        self._saved = saved
        self._seen: Moment | None = None
        self._changed = 0
        """The number of passages read since the table was loaded or unpacked."""

    def _follow(self, log: Log) -> None:
        """Bring the table up to date."""
        saved, is_first = self._saved, self._seen is None
        if saved and saved.is_replaced():
            was_mapped = saved.is_mapped
            if not self._unpack_saved(log, saved) and was_mapped:
                self._detach(log)
        self._advance(log)
        if saved and saved.at_once and is_first and self._changed > self._max_changed(self._size()):
            self._save(log, saved)

    def is_due(self, log: Log, size: int) -> bool:
        """Return whether `prepare` would save a table of this size."""
        return self._saved is not None and self._saved.is_due(log, self._max_changed(size))

    def prepare(self, log: Log) -> None:
        """Save the table as of now for all processes."""
        self._follow(log)
        if self._saved:
            self._save(log, self._saved)

    def _max_changed(self, size: int) -> float:
        """Return the number of changes after which a table is saved again."""
        return size // _MAX_CHANGED_DIVISOR if size >= self._min_saved() else inf

    def _save(self, log: Log, saved: SavedTable[Log]) -> None:
        if packed := saved.save(log, partial(self._packed, log)):
            self._unpack(packed)

    def _unpack_saved(self, log: Log, saved: SavedTable[Log]) -> bool:
        """Unpack the saved table, and return whether there was a valid one."""
        content = saved.read(log)
        if content is None:
            return False
        packed, moment = content
        try:
            self._unpack(packed)
        except Corrupt:
            saved.delete()
            return False
        self._seen, self._changed = moment, 0
        return True

    def _advance(self, log: Log) -> None:
        def load() -> None:
            self._load(log)
            self._changed = self._size()

        def reread(keys: Sequence[int]) -> None:
            self._reread(log, keys)
            self._changed += len(keys)

        self._seen = follow_log(log, self._seen, load=load, reread=reread)

    def _min_saved(self) -> int:
        """Return the least size of a table that is saved."""
        return MIN_SAVED_PASSAGES

    def _detach(self, log: Log) -> None:
        """Stop using a mapped file that was deleted."""
        self._unpack(_copy(self._packed(log)))

    @abstractmethod
    def _load(self, log: Log) -> None:
        """Replace the content with all passages of the database."""

    @abstractmethod
    def _reread(self, log: Log, keys: Sequence[int]) -> None:
        """Read some passages again."""

    @abstractmethod
    def _size(self) -> int:
        """Return the number of passages in the table."""

    @abstractmethod
    def _packed(self, log: Log) -> PackedTable:
        """Return the content as arrays."""

    @abstractmethod
    def _unpack(self, packed: PackedTable) -> None:
        """Replace the content with arrays. Raises `Corrupt`, and changes nothing, if they are inconsistent."""


def _copy(packed: PackedTable) -> PackedTable:
    """Copy a table, so that it no longer uses a mapped file."""
    parts: dict[str, list[npt.NDArray[Any]]] = {}
    for part in packed.parts:
        for name, array in part.items():
            parts.setdefault(name, []).append(array)
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return PackedTable(packed.numbers, {name: array.copy() for name, array in packed.arrays.items()} | joined)
