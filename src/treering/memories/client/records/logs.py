"""Logs: records in the order in which they came, such as the items of a conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treering.memories.client.records.names import KeptRecord, RecordCollection, RecordDraft, RecordName
from treering.memories.client.records.records import Records
from treering.tools.retrying import retry_on_conflict

_ATTEMPTS = 20
_HEAD = "log"
_END = "end"


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One entry of a log. `text` is what is searched; `metadata` what filters compare."""

    value: Mapping[str, Any]
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RecordLog:
    """The log of one collection. Many processes may append to it: entries of one call stay together.

    A record of its own counts the entries, so that a call costs what it reads or writes, however long the log is.
    """

    def __init__(self, records: Records, collection: RecordCollection) -> None:
        self._records = records
        self._collection = collection

    def append(self, entries: Sequence[RecordEntry], *, reason: str) -> None:
        """Put entries at the end."""
        if entries:
            retry_on_conflict(lambda: self._append(entries, reason), attempts=_ATTEMPTS)

    def entries(self, last: int | None = None) -> list[KeptRecord]:
        """Return the entries, oldest first; of more than `last` these last ones."""
        end = self._end(self._head())
        start = 0 if last is None else max(end - last, 0)
        names = [self._name(number) for number in range(start, end)]
        found = self._records.get(names)
        return [found[name] for name in names if name in found]

    def pop(self, *, reason: str, erase: bool = False) -> KeptRecord | None:
        """Take the last entry away, and return it; `None` where there is none. `erase`: leave nothing of it."""
        popped = retry_on_conflict(lambda: self._pop(reason), attempts=_ATTEMPTS)
        if popped and erase:
            self._records.erase([popped.id], reason=reason)
        return popped

    def clear(self, *, reason: str, erase: bool = False) -> None:
        """Take all entries away. `erase`: leave nothing of them, nor of those that were taken away before."""
        retry_on_conflict(lambda: self._clear(reason), attempts=_ATTEMPTS)
        if erase:
            self._records.erase_collection(self._collection, reason=reason)

    def _append(self, entries: Sequence[RecordEntry], reason: str) -> None:
        head = self._head()
        start = self._end(head)
        drafts = [
            RecordDraft(self._name(number), entry.value, entry.text, entry.metadata, expected_revision=0)
            for number, entry in enumerate(entries, start=start)
        ]
        self._records.write([self._counted(head, start + len(entries)), *drafts], reason=reason)

    def _pop(self, reason: str) -> KeptRecord | None:
        head = self._head()
        end = self._end(head)
        if not end:
            return None
        name = self._name(end - 1)
        found = self._records.get([name]).get(name)
        self._records.write([self._counted(head, end - 1)], remove=[name], reason=reason)
        return found

    def _clear(self, reason: str) -> None:
        head = self._head()
        if head and (end := self._end(head)):
            names = [self._name(number) for number in range(end)]
            self._records.write([self._counted(head, 0)], remove=names, reason=reason)

    def _head(self) -> KeptRecord | None:
        name = self._collection.name(_HEAD)
        return self._records.get([name]).get(name)

    def _end(self, head: KeptRecord | None) -> int:
        return int(head.value.get(_END, 0)) if head else 0

    def _counted(self, head: KeptRecord | None, end: int) -> RecordDraft:
        at = head.revision if head else 0
        return RecordDraft(self._collection.name(_HEAD), {_END: end}, expected_revision=at)

    def _name(self, number: int) -> RecordName:
        return self._collection.name(f"{_HEAD}/{number:09}")
