"""The writes of a ledger, each in one transaction, and its change feed, for ledgers of any technology."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar

from treering.core.audit import AuditEvent
from treering.core.objects import Object
from treering.core.patch import Author, Patch, PatchRecord, Receipt
from treering.core.policy import Policy
from treering.core.writing import transaction
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import ImportSession, Session
from treering.ports.index import Change
from treering.ports.ledger import Record

_Result = TypeVar("_Result")


class LedgerWrites(ABC):
    """The writes of `ports.ledger.Ledger`, each a function of `core.writing.transaction` over a session.

    A subclass opens sessions and ends their transactions.
    """

    @abstractmethod
    def _writing(self) -> AbstractContextManager[ImportSession[Record]]:
        """Hold the only write transaction; commit it durably, or roll it back after an error."""

    @abstractmethod
    def _planning(self) -> AbstractContextManager[Session]:
        """Hold a session over the current state that stores nothing."""

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch in one transaction, durable before this returns."""
        with self._writing() as session:
            return transaction.commit(session, patch, idempotency_key=idempotency_key)

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch against the current state without changing anything."""
        with self._planning() as session:
            return transaction.preview(session, patch)

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Store a patch for review, checked against the current state."""
        with self._writing() as session:
            return transaction.propose(session, patch, idempotency_key=idempotency_key)

    def approve(self, patch_id: str, *, by: Author) -> Receipt:
        """Apply a proposed patch."""
        with self._writing() as session:
            return transaction.approve(session, patch_id, by=by)

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
        """Reject a proposed patch."""
        with self._writing() as session:
            return transaction.reject(session, patch_id, by=by, reason=reason)

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:
        """Revert an applied patch. Raises `Conflict` with the changes since if that is not possible."""
        with self._writing() as session:
            return transaction.revert(session, patch_id, by=by, reason=reason)

    def change_policy(self, policy: Policy, *, by: Author, reason: str = "") -> bool:
        """Replace the policy, with an audit event; return whether it changed."""
        with self._writing() as session:
            return transaction.change_policy(session, policy, by=by, reason=reason)

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty ledger from an export, in one transaction."""
        with self._writing() as session:
            transaction.load(session, records)

    def transact(self, work: Callable[[Session], _Result]) -> _Result:
        """Call a function with a session in one transaction, which is rolled back if it raises; return its result."""
        with self._writing() as session:
            return work(session)


ReadRevision = Callable[[str, int], Object | None]
"""Return one revision of an object by id and number, or `None` if the object was erased since."""


def changes_in(events: Iterable[AuditEvent], revision: ReadRevision) -> list[Change]:
    """Return the changes of objects in some events, in order: the reference implementation of `Ledger.changes`."""
    # Consecutive events about an object share a revision.
    read = cache(revision)
    return [change for event in events if (change := _change(event, read))]


def revisions_in(events: Iterable[AuditEvent]) -> list[tuple[str, int]]:
    """Return id and number of the revisions that `changes_in` may read, each once, to read them together."""
    states = (
        (event.target, state)
        for event in events
        if event.event_type != "erased"
        for state in (event.before, event.after)
    )
    return list(dict.fromkeys((target, number) for target, state in states if (number := _revision_in(state))))


def _change(event: AuditEvent, revision: ReadRevision) -> Change | None:
    if event.event_type == "erased":
        return Change(event.seq, event.target, None, None)
    number, earlier = _revision_in(event.after), _revision_in(event.before)
    after = revision(event.target, number) if number else None
    if after is None:
        return None  # about a link, a patch, or an object that was erased since
    return Change(event.seq, event.target, revision(event.target, earlier) if earlier else None, after)


def _revision_in(state: dict[str, object] | None) -> int:
    number = state.get("revision") if state else None
    return number if isinstance(number, int) else 0
