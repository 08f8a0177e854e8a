"""Reads of the audit log, patches and idempotency keys."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from treering.core.audit import AuditEvent
from treering.core.patch import PatchRecord, PatchStatus, Remembered
from treering.ports.ledger import AsOf
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import model_of, unpack_model, unpack_sealed
from treering.stores.rows.read_checks import Body, EventRows, ReadChecks, missing_revision


class LogReads(ABC):
    """The audit log, patches and idempotency keys of a ledger, in a transaction.

    With `checks`, records of patches and events about an id are verified when they are read.
    """

    def __init__(self, rows: EventRows, checks: ReadChecks | None) -> None:
        self._rows = rows
        self._checks = checks

    @abstractmethod
    def sequence(self, as_of: AsOf) -> int:
        """Return the sequence number at a point in history; 0 before the first event."""

    def events(self, *, after: int, limit: int) -> list[AuditEvent]:
        """Return up to `limit` events after a sequence number, in order."""
        return [unpack_model(AuditEvent, body) for body in self._events_behind(after, limit)]

    def events_of(self, target: str) -> list[AuditEvent]:
        """Return the events about an id, oldest first."""
        events = [unpack_model(AuditEvent, body) for body in self._events_about([target])]
        if self._checks:
            for event in events:
                self._checks.check_event(event)
        return events

    def require_erased(self, identity: str, number: int) -> None:
        """Raise `Corrupt` if a missing revision belongs to an object that was not erased."""
        if all(event.event_type != "erased" for event in self.events_of(identity)):
            raise missing_revision(identity, number)

    @abstractmethod
    def is_bare(self) -> bool:
        """Return whether the log contains only events about the policy."""

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        body = self._patch(patch_id)
        if body is None:
            return None
        record = unpack_model(PatchRecord, body)
        if self._checks:
            self._checks.check_record(self._rows, record)
        return record

    def newest_records(self, status: PatchStatus | None, limit: int) -> list[PatchRecord]:
        """Return the newest patches, of one status or of all."""
        return [unpack_model(PatchRecord, body) for body in self._newest_patches(status, limit)]

    def proposals(self) -> list[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return [unpack_model(PatchRecord, body) for body in self._proposed()]

    def patches_about(self, targets: Iterable[str]) -> set[str]:
        """Return the ids of the patches in the events about these ids."""
        return {unpack_model(AuditEvent, body).patch_id for body in self._events_about(list(targets))}

    def remembered(self, key: str) -> Remembered | None:
        """Return the value of an idempotency key."""
        body = self._key(key)
        return None if body is None else _remembered(key, body)

    def keys(self, prefix: str) -> Iterator[tuple[str, Remembered]]:
        """Return the keys with a prefix, with their values."""
        return ((key, _remembered(key, body)) for key, body in self._keys(prefix))

    @abstractmethod
    def _events_behind(self, after: int, limit: int) -> Iterable[Body]: ...

    @abstractmethod
    def _events_about(self, targets: Sequence[str]) -> Iterable[Body]: ...

    @abstractmethod
    def _patch(self, patch_id: str) -> Body | None: ...

    @abstractmethod
    def _newest_patches(self, status: PatchStatus | None, limit: int) -> Iterable[Body]: ...

    @abstractmethod
    def _proposed(self) -> Iterable[Body]: ...

    @abstractmethod
    def _key(self, key: str) -> Body | None: ...

    @abstractmethod
    def _keys(self, prefix: str) -> Iterable[tuple[str, Body]]: ...


def _remembered(key: str, body: Body) -> Remembered:
    with row_of(f"the idempotency key {key!r}"):
        return model_of(Remembered, unpack_sealed(body, name=key))
