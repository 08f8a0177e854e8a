"""Background writing: memories are written to a journal at once, and to the ledger in batches."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition, Lock, Thread
from typing import Any

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.client.items.recording import MemoryEntry

_LOG = logging.getLogger(__name__)
_MAX_BATCHES = 8
"""The maximum number of waiting batches; then storing blocks until one is written."""
_ROOM_TIMEOUT = 30.0
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SetAside:
    """A memory that could not be written to the ledger: it is stored separately and does not block others.

    `key` identifies it there. `data` is the memory as in the journal, or the unreadable record.
    """

    key: str
    reason: str
    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The id that `store` returned; empty if the record could not be read."""
        return str(self.data.get("id", ""))

    @property
    def content(self) -> str:
        """The text of the memory."""
        return str(self.data.get("content", ""))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the memory."""
        metadata = self.data.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that the ledger refuses permanently, and the error."""

    entry: MemoryEntry
    error: Exception

    @property
    def reason(self) -> str:
        """The reason as text."""
        return self.error.message if isinstance(self.error, TreeringError) else f"{self.error!r:.500}"


class WriteJournal:
    """Stores entries that are not in the ledger yet. For spaces in memory, only refused ones are stored."""

    def __init__(self) -> None:
        self._aside: dict[str, SetAside] = {}

    def append(self, entry: Mapping[str, Any]) -> None:
        """Store an entry, durably."""

    def cut(self) -> None:
        """Begin a new part: earlier entries can then be dropped without later ones."""

    def drop(self) -> None:
        """Drop all parts except the current one."""

    def left(self) -> Iterable[Mapping[str, Any]]:
        """Take over the entries of processes that ended, oldest first. Unreadable ones are set aside."""
        return ()

    def elsewhere(self) -> Iterable[Mapping[str, Any]]:
        """Return the entries in journals of other clients that are new since the last call. They stay there."""
        return ()

    def set_aside(self, data: Mapping[str, Any], reason: str) -> None:
        """Store an entry that cannot be written separately, durably, with the reason."""
        key = str(data.get("id", len(self._aside)))
        self._aside[key] = SetAside(key, reason, data)

    def aside(self) -> Sequence[SetAside]:
        """Return the entries that were set aside, by any process."""
        return [*self._aside.values()]

    def forget_aside(self, key: str) -> None:
        """Remove the entry that was set aside under a key."""
        self._aside.pop(key, None)

    def close(self) -> None:
        """Release the journal. Entries in it are left for the next process."""


class WriteBuffer:
    """Writes entries in batches in the background. Thread-safe.

    `write` writes a batch to the ledger, and returns entries that the ledger refuses permanently: they are set aside.
    It must be idempotent. A batch is written when `size` entries are waiting, when the oldest has waited for `interval`
    seconds, and by `flush`. If writing fails, the entries stay, and `flush` raises the error of `write`.
    """

    def __init__(
        self,
        write: Callable[[Sequence[MemoryEntry]], Sequence[RefusedEntry]],
        journal: WriteJournal,
        *,
        size: int,
        interval: float,
    ) -> None:
        self._write = write
        self._journal = journal
        self._size = size
        self._interval = interval
        self._waiting: list[MemoryEntry] = []
        self._changed = Condition()
        self._writing = Lock()
        self._writer: Thread | None = None
        self._closed = False
        self._waiting += self._left_by_others()

    def add(self, entry: MemoryEntry) -> None:
        """Write an entry to the journal, and enqueue it. Blocks while too many entries are waiting.

        Raises `Unavailable` if the ledger cannot be written.
        """
        with self._changed:
            self._start()
            if len(self._waiting) >= self._size * _MAX_BATCHES:
                self._changed.wait_for(self._has_room, timeout=_ROOM_TIMEOUT)
            if not self._has_room():
                raise Unavailable(
                    f"{len(self._waiting)} memories are waiting to be written, but writing is blocked.",
                    hint="Call flush(): it raises the error that blocks writing.",
                )
            self._journal.append(entry.data)
            self._waiting.append(entry)
            if len(self._waiting) == 1 or len(self._waiting) >= self._size:
                self._changed.notify_all()

    def flush(self) -> None:
        """Write all waiting entries. Raises the errors of the ledger; the entries then stay."""
        with self._writing:
            with self._changed:
                batch = list(self._waiting)
                if batch:
                    self._journal.cut()
            if not batch:
                return
            for start in range(0, len(batch), self._size):
                for refused in self._write(batch[start : start + self._size]):
                    self._set_aside(refused.entry.data, refused.reason)
            self._journal.drop()
            with self._changed:
                del self._waiting[: len(batch)]
                self._changed.notify_all()

    def close(self) -> None:
        """Write all waiting entries, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._writer:
            self._writer.join()
        try:
            self.flush()
        finally:
            self._journal.close()

    def _left_by_others(self) -> list[MemoryEntry]:
        entries: list[MemoryEntry] = []
        for data in self._journal.left():
            try:
                entries.append(MemoryEntry.read(data))
            except (KeyError, TypeError, ValueError) as error:
                self._set_aside(data, f"It is not a journal entry: {error!r}.")
        return entries

    def _set_aside(self, data: Mapping[str, Any], reason: str) -> None:
        self._journal.set_aside(data, reason)
        _LOG.warning("Memory %s could not be written and was set aside: %s", data.get("id", "without an id"), reason)

    def _has_room(self) -> bool:
        return len(self._waiting) < self._size * _MAX_BATCHES

    def _start(self) -> None:
        if self._writer is None:
            self._writer = Thread(target=self._run, name="treering-memory-writer", daemon=True)
            self._writer.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if not self._closed:
                    self._changed.wait_for(self._is_due, timeout=self._interval)
                if self._closed:
                    return
            try:
                self.flush()
            except (TreeringError, OSError) as error:
                _LOG.warning("Memories are waiting to be written: %s", error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, timeout=_RETRY_SECONDS)

    def _is_due(self) -> bool:
        return self._closed or len(self._waiting) >= self._size
