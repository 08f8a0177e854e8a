"""Writing the memories of a client to the ledger: at once, or in the background with a journal."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock

from treering.core.errors import Conflict, Corrupt, TreeringError, Unavailable
from treering.core.scope import ROOT
from treering.extensions.client.config import Storage
from treering.extensions.client.items.buffering import RefusedEntry, SetAside, WriteBuffer, WriteJournal
from treering.extensions.client.items.recalling import Who
from treering.extensions.client.items.recording import (
    MemoryEntry,
    check_writable,
    named_ids,
    operations_of,
)
from treering.verbs.crystallize.submission import apply_directly, check_direct
from treering.verbs.engine import Engine

_LOG = logging.getLogger(__name__)

WHAT = "The memory client"
_ENTRY_ERRORS = (TreeringError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
"""The errors with which an entry may be refused; `Unavailable` instead means that the ledger cannot be written now."""


class MemoryWriter:
    """Writes memories to one space. Safe to use from many threads; many processes may use one space."""

    def __init__(self, engine: Engine, storage: Storage, journal: WriteJournal) -> None:
        self._engine = engine
        self._storage = storage
        self._journal = journal
        self._of_others: list[MemoryEntry] = []
        self._reading_others = Lock()
        self._buffer = WriteBuffer(self._write, journal, size=storage.batch_size, interval=storage.flush_interval)

    def submit(self, entries: Sequence[MemoryEntry]) -> None:
        """Write entries, or buffer them, as configured. Raises `InvalidInput` for an invalid one."""
        storage = self._storage
        check_direct(self._engine, [], what=WHAT)
        for entry in entries:
            check_writable(self._engine, entry)
        if storage.enable_async_writes:
            for entry in entries:
                self._buffer.add(entry)
            return
        for start in range(0, len(entries), storage.batch_size):
            for refused in self._write(entries[start : start + storage.batch_size]):
                raise refused.error

    def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        self._buffer.flush()

    def flush_all(self) -> None:
        """Write buffered memories, also from the journals of other clients on this machine.

        The other clients skip them later, and set refused ones aside. Raises the errors of `flush`.
        """
        self.flush()
        with self._reading_others:
            for data in self._journal.elsewhere():
                with suppress(KeyError, TypeError, ValueError):
                    self._of_others.append(MemoryEntry.read(data))
            while self._of_others:
                self._write(self._of_others[: self._storage.batch_size])
                del self._of_others[: self._storage.batch_size]

    def close(self) -> None:
        """Write buffered memories, and stop."""
        self._buffer.close()

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason."""
        return self._journal.aside()

    def forget_aside(self, memory_id: str) -> bool:
        """Remove a memory that was set aside; return whether there was one."""
        aside = [one for one in self._journal.aside() if one.id == memory_id]
        for one in aside:
            self._journal.forget_aside(one.key)
        return bool(aside)

    def retry_set_aside(self, who: Who) -> int:
        """Try again to write memories that were set aside and that `who` sees; return the number written."""
        written = 0
        for one in self._journal.aside():
            if not who.owns(one.metadata):
                continue
            try:
                entry = MemoryEntry.read(one.data)
            except (KeyError, TypeError, ValueError):
                continue
            if not self._write([entry]):
                self._journal.forget_aside(one.key)
                written += 1
        return written

    def _write(self, entries: Sequence[MemoryEntry]) -> list[RefusedEntry]:
        """Write the entries that are not in the ledger yet, in one patch; return the refused ones.

        If the patch is refused, write each entry separately. Raises `Unavailable` if the ledger cannot be written now.
        """
        ids = [entry.id for entry in entries]
        heads = self._engine.ledger.heads([*ids, *named_ids(entries)])
        new = [entry for entry in entries if entry.id not in heads]
        if not new:
            return []
        try:
            self._apply(new, heads)
        except Unavailable:
            raise
        except _ENTRY_ERRORS as error:
            if len(new) == 1:
                return self._write_without_links(new[0], error)
            return [refused for entry in new for refused in self._write([entry])]
        return []

    def _write_without_links(self, entry: MemoryEntry, error: Exception) -> list[RefusedEntry]:
        """Write an entry without its links if they are refused; its metadata still contains the related ids."""
        if isinstance(error, Conflict):
            # Another process wrote it, or it was written before a crash and erased since: then it stays erased.
            if not self._engine.ledger.heads([entry.id]):
                _LOG.warning("%s was not written: it was erased.", entry.id)
            return []
        try:
            self._apply([entry], ())
        except (Unavailable, Corrupt):
            raise
        except _ENTRY_ERRORS as again:
            return [RefusedEntry(entry, again)]
        _LOG.warning("%s was written without its links: %s", entry.id, error)
        return []

    def _apply(self, entries: Sequence[MemoryEntry], known: Iterable[str]) -> None:
        operations = operations_of(self._engine, entries, known)
        apply_directly(self._engine, ROOT, operations, what=WHAT, reason="Stored memories")
