"""What writing asks of a store: a `Session` over its open write transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.draft import View
from treering.core.journal import Journal, Notice
from treering.core.patch import Patch, PatchRecord, Remembered
from treering.core.plan import Plan
from treering.core.policy import Policy

_Record = TypeVar("_Record", contravariant=True)


class Session(Protocol):
    """A store inside its one write transaction: what it holds now, and what it is told to keep.

    No other writer comes between. Nothing that is kept is seen by others before the transaction ends.
    """

    @property
    def view(self) -> View:
        """The objects and links as they stand."""
        ...

    @property
    def default_policy(self) -> Policy:
        """The policy that holds as long as the audit log tells of none."""
        ...

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Read together what committing a patch will ask, where that is quicker; it is asked as always then."""
        ...

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Read together what changing these objects will ask, where that is quicker; it is asked as always then."""
        ...

    def told_policy(self) -> Policy | None:
        """Return the policy that the audit log tells of last, or `None`. Raises `Corrupt` where it was changed."""
        ...

    def now(self) -> datetime:
        """Return the time in UTC: by a clock that all writers of the store share, where it has one."""
        ...

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing of `kind` (`patch`, `audit_event`)."""
        ...

    def fresh_salt(self) -> str:
        """Make a salt: 16 random bytes, in hex."""
        ...

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        ...

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        ...

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`. Raises `Corrupt` where it is not what the audit log says."""
        ...

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the records of the patches that wait for review, by id."""
        ...

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that an audit event about one of these objects names."""
        ...

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this idempotency key."""
        ...

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the idempotency keys that begin so, each with what it stands for."""
        ...

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new idempotency key stands for."""
        ...

    def forget(self, key: str) -> None:
        """Remove an idempotency key."""
        ...

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep each write under the sequence number of its event, then all events and records of the journal."""
        ...

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        ...

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        ...


class ImportSession(Session, Protocol[_Record]):
    """A store inside the transaction that fills it from an export."""

    def is_bare(self) -> bool:
        """Tell whether the audit log tells of nothing but the policy (the target `core.policy_log.POLICY`)."""
        ...

    def clear(self) -> None:
        """Remove the events of a log that is bare."""
        ...

    def fill(self, records: Iterable[_Record]) -> None:
        """Keep the records of an export, in the order they come. Raises `InvalidInput` for what is not an export."""
        ...

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head. Raises `Corrupt`."""
        ...
