"""A space of ledger and index for tests, and short ways to ask it."""

from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract.stage import IndexedSpace, LedgerWithIndex, seen

__all__ = ["EMBEDDER", "Space", "open_space", "seen"]

EMBEDDER = HashingEmbedder()


class Space(IndexedSpace):
    """One space, open."""

    index: SqliteIndex
    ledger: SqliteLedger

    def __init__(self, database: Database, index: SqliteIndex, clock: SteppingClock) -> None:
        super().__init__(LedgerWithIndex(SqliteLedger(database, clock=clock, followers=[index]), index), clock)
        self.database = database

    def embed(self) -> None:
        """Embed all texts, however many wait."""
        while self.index.vectors.lag().pending:
            super().embed()


def open_space(path: str = MEMORY, *, clock: SteppingClock | None = None, dimension: int = 64, **options) -> Space:
    database = Database(path)
    index = SqliteIndex(database, model_id=f"hashing/{dimension}", dimension=dimension, **options)
    return Space(database, index, clock or SteppingClock())
