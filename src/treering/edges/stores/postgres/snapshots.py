"""A space as it was at one moment, for as long as somebody holds it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from treering.core.errors import InvalidInput
from treering.edges.stores.postgres.transactions import Transaction


class HeldSpace:
    """`space.Transactions` over one transaction: everything that is read is of its moment."""

    def __init__(self, place: str, transaction: Transaction) -> None:
        self.place = place
        self._transaction = transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Give the transaction."""
        yield self._transaction

    def write(self) -> AbstractContextManager[Transaction]:
        """Refuse it."""
        raise InvalidInput(
            f"{self.place} shows one moment of a space, and cannot be written to.", hint="Write to the space itself."
        )

    def close(self) -> None:
        """Leave the transaction to who holds it."""
