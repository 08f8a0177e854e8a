"""The audit log, patches and idempotency keys of a ledger."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.canonical import parse_time, render_time
from treering.core.patch import PatchRecord, PatchStatus, Remembered
from treering.core.policy import Policy
from treering.ports.ledger import AsOf
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import model_of, unpack_model, unpack_sealed
from treering.stores.rows.read_checks import Body, EventRows, ReadChecks, missing_revision, policy_told


@dataclass(frozen=True, slots=True)
class StoredLogEnd:
    """The end of the audit log: the last event, and the last one about the policy. The default is an empty log."""

    sequence: int = 0
    hash: str = GENESIS
    last_time: str | None = None
    policy_seq: int | None = None
    policy: Body | None = None
    """The stored event with the policy."""

    @property
    def head(self) -> Anchor:
        """The head of the audit log."""
        with row_of("the audit log"):
            return Anchor.model_validate({"seq": self.sequence, "hash": self.hash})

    @property
    def time_of_last(self) -> datetime | None:
        """The time of the last event, or `None` before the first."""
        with row_of("the audit log"):
            return parse_time(self.last_time) if self.last_time is not None else None

    @property
    def recorded_policy(self) -> Policy | None:
        """The last policy in the log, or `None`. Raises `Corrupt` if its event was modified."""
        body = self.policy_body
        return None if self.policy_seq is None or body is None else policy_told(self.policy_seq, body)

    @property
    def policy_body(self) -> Body | None:
        """The stored event with the policy, in the form for `rows.packing.unpack`."""
        return self.policy


class LedgerLog(ABC):
    """The audit log, patches and idempotency keys of a ledger, in a transaction.

    With `checks`, records of patches and events about an id are verified when they are read.
    """

    def __init__(self, rows: EventRows, checks: ReadChecks | None) -> None:
        self._rows = rows
        self._checks = checks

    @property
    @abstractmethod
    def end(self) -> StoredLogEnd:
        """The end of the log."""

    @property
    @abstractmethod
    def reached(self) -> Anchor | None:
        """The head of the log after this transaction, or `None` if it wrote no event."""

    def sequence(self, as_of: AsOf) -> int:
        """Return the sequence number at a point in history; 0 before the first event."""
        match as_of:
            case None:
                return self.end.sequence
            case int():
                return max(0, min(as_of, self.end.sequence))
            case datetime():
                return self._sequence_at(render_time(as_of))

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
    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Store events."""

    @abstractmethod
    def keep_records(self, records: Sequence[PatchRecord]) -> None:
        """Store the records of patches, replacing earlier ones."""

    @abstractmethod
    def keep_key(self, key: str, outcome: str) -> None:
        """Store the value of a new idempotency key, as JSON."""

    @abstractmethod
    def forget(self, key: str) -> None:
        """Remove an idempotency key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all events."""

    @abstractmethod
    def _sequence_at(self, time: str) -> int: ...

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
