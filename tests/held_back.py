"""An index in a ledger's own database that is late all the same: it applies what was written only when it is told to.

So a store whose index is never late can be held to the contract of late ones.
"""

from dataclasses import replace

from treering.ports.index import Behind
from treering.testing.index_contract import EMBEDDER

_AT_ONCE = 1_000


class HeldBack:
    """A follower that keeps what a ledger tells, until it is to catch up. `write` opens a write transaction."""

    def __init__(self, follower, write):
        self._follower = follower
        self._write = write
        self._waiting = []
        self.is_prepared, self.prepare = follower.is_prepared, follower.prepare

    def read_ahead(self, _transaction):
        """Read nothing: what comes is applied in a transaction of its own."""

    def follow(self, _transaction, changes):
        self._waiting.append(changes)

    def unknown(self):
        """Count the changes that were not applied yet."""
        return sum(map(len, self._waiting))

    def catch_up(self):
        waiting, self._waiting = self._waiting, []
        with self._write() as transaction:
            for changes in waiting:
                self._follower.follow(transaction, changes)


class HeldBackIndex:
    """`ports.index.Index` over an index whose follower is held back: it says how late it is."""

    def __init__(self, index, held):
        self.passages, self.text, self.graph = index.passages, index.text, index.graph
        self.vectors = _HeldBackVectors(index.vectors, held)
        self.upkeep = _HeldBackUpkeep(index.upkeep, held)


class _HeldBackVectors:
    def __init__(self, vectors, held):
        self._vectors = vectors
        self._held = held
        self.search, self.pending, self.add = vectors.search, vectors.pending, vectors.add

    def lag(self):
        lag = self._vectors.lag()
        return replace(lag, behind=lag.behind + self._held.unknown())


class _HeldBackUpkeep:
    def __init__(self, upkeep, held):
        self._upkeep = upkeep
        self._held = held
        self.remains, self.rebuild, self.differences = upkeep.remains, upkeep.rebuild, upkeep.differences

    def behind(self):
        unknown = self._held.unknown()
        return Behind(0, unknown) if unknown else self._upkeep.behind()

    def advance(self):
        if not self._held.unknown():
            return self._upkeep.advance()
        self._held.catch_up()
        return self.behind()


def embed_all(index):
    """Make the vectors of all texts that wait."""
    while waiting := index.vectors.pending(_AT_ONCE):
        vectors = EMBEDDER.embed_documents([item.text for item in waiting])
        index.vectors.add({item.text_hash: vector for item, vector in zip(waiting, vectors, strict=True)})
