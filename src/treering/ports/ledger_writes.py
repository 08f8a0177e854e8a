"""The writes of a ledger, once for all: each is `core.transaction` over a session that the ledger opens."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager

from treering.core import copying, transaction
from treering.core.copying import LedgerPart, Outcomes
from treering.core.patch import Author, Patch, PatchRecord, Receipt
from treering.core.plan import Plan
from treering.core.policy import Policy
from treering.core.session import ImportSession, Session
from treering.ports.ledger import Record


class LedgerWrites(ABC):
    """The writes of `ports.ledger.Ledger`. A subclass opens sessions and ends their transactions."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[ImportSession[Record]]:
        """Hold the one write transaction; keep what the session kept, durably, or nothing where an error came."""

    @abstractmethod
    def _planning(self) -> AbstractContextManager[Session]:
        """Hold a session over the current state that keeps nothing."""

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch in one transaction, durable before this returns."""
        with self._writing() as session:
            return transaction.commit(session, patch, idempotency_key=idempotency_key)

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch against the current state without changing anything."""
        with self._planning() as session:
            return transaction.preview(session, patch)

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Keep a patch for review, checked against the current state."""
        with self._writing() as session:
            return transaction.propose(session, patch, idempotency_key=idempotency_key)

    def approve(self, patch_id: str, *, by: Author) -> Receipt:
        """Apply a proposed patch."""
        with self._writing() as session:
            return transaction.approve(session, patch_id, by=by)

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
        """Turn a proposed patch down."""
        with self._writing() as session:
            return transaction.reject(session, patch_id, by=by, reason=reason)

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:
        """Take back an applied patch, or raise `Conflict` saying what has changed since."""
        with self._writing() as session:
            return transaction.revert(session, patch_id, by=by, reason=reason)

    def change_policy(self, policy: Policy, *, by: Author, reason: str = "") -> bool:
        """Put another policy in force, audited, and tell whether it was another."""
        with self._writing() as session:
            return transaction.change_policy(session, policy, by=by, reason=reason)

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty ledger from an export, in one transaction."""
        with self._writing() as session:
            transaction.load(session, records)

    def append(self, part: LedgerPart) -> None:
        """Keep a part of another ledger behind what is there, in one transaction."""
        with self._writing() as session:
            copying.append(session, part)

    def keep_outcomes(self, outcomes: Outcomes) -> None:
        """Keep records of patches and idempotency keys of another ledger, in one transaction."""
        with self._writing() as session:
            copying.keep_outcomes(session, outcomes)
