"""What lives beside the ledger in its database and moves with it, in the same transaction."""

from collections.abc import Sequence
from typing import Protocol

from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.projection import Change


class LedgerFollower(Protocol):
    """A projection in the ledger's own database."""

    def is_prepared(self, transaction: Transaction) -> bool:
        """Tell whether everything is there as `prepare` would leave it, so that opening need not wait for a writer."""
        ...

    def prepare(self, transaction: Transaction) -> None:
        """Make what is missing. In a write transaction, when a space is opened that is not prepared."""
        ...

    def read_ahead(self, transaction: Transaction) -> None:
        """Read what following any change needs: called while the transaction asks ahead, and with the answers."""
        ...

    def follow(self, transaction: Transaction, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        ...
