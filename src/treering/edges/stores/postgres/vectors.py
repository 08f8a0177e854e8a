"""Vectors of passages: durable by content hash."""

from collections.abc import Mapping, Sequence

from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.vectors import Lag, Near, NearRequest, Pending, Vector


class PostgresVectors:
    """`ports.vectors.Vectors` over a `PostgresSpace`."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        self._space = space

    def recognise(self, transaction: Transaction) -> bool:
        """Tell whether the space knows the model."""
        return True

    def register(self, transaction: Transaction) -> None:
        """Make the model known to the space, in a write transaction. What it has not embedded is queued."""

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, all of one moment."""
        return [Near(frozenset(), [{} for _ in request.vectors]) for request in requests]

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        return Lag(0, 0, 0)

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector."""
        return []

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably."""
