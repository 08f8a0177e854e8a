"""An engine on the toy store, put together by hand as `spaces.wiring` does it for SQLite."""

from toy_store.toy_index import ToyIndex
from treering.core.patch import Author
from treering.extensions.code.repository.repo import RepoAdapter
from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.adapter import ReadLimits
from treering.retrieval.index.lookup import IndexLookup
from treering.sources.formats import built_in_formats
from treering.sources.path import PathAdapter
from treering.testing.fakes import HashingEmbedder, MemoryJobs, MemoryLeases, SteppingClock
from treering.testing.memory_ledger import MemoryLedger
from treering.verbs.engine import Engine


def toy_engine(*, policy=None, channel="user", late=False, clock=None):
    """Return an engine of which no part is SQLite's. A late index is caught up by its `catch_up`."""
    clock, embedder = clock or SteppingClock(), HashingEmbedder()
    ledger, leases = MemoryLedger(clock=clock, policy=policy), MemoryLeases(clock=clock)
    index = ToyIndex(ledger, dimension=embedder.dimension, late=late)
    return Engine(
        ledger=ledger,
        index=index,
        lookup=IndexLookup(index),
        embedder=embedder,
        vectoriser=BackgroundVectoriser(index.vectors, leases, embedder, clock, in_background=False),
        jobs=MemoryJobs(ledger),
        leases=leases,
        adapters={"path": PathAdapter(), "repo": RepoAdapter()},
        clock=clock,
        author=Author(actor="ada", channel=channel),
        limits=ReadLimits(),
        segmenters=built_in_formats().segmenters,
    )
