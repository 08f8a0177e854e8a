"""An engine on the toy store, put together by hand as `edges.wiring` does it for SQLite."""

from toy_store.toy_index import ToyIndex
from treering.core.patch import Author
from treering.edges.models.vectoriser import BackgroundVectoriser
from treering.edges.sources.formats import BUILT_IN
from treering.edges.sources.path import PathAdapter
from treering.edges.sources.repo import RepoAdapter
from treering.edges.wiring import OnRequest
from treering.ports.adapter import ReadLimits
from treering.testing.clocks import SteppingClock
from treering.testing.hashing_embedder import HashingEmbedder
from treering.testing.memory_jobs import MemoryJobs
from treering.testing.memory_leases import MemoryLeases
from treering.testing.memory_ledger import MemoryLedger
from treering.tools.engine import Engine


def toy_engine(*, policy=None, channel="user", late=False, clock=None):
    """Return an engine of which no part is SQLite's. A late index is caught up by its `catch_up`."""
    clock, embedder = clock or SteppingClock(), HashingEmbedder()
    ledger, leases = MemoryLedger(clock=clock, policy=policy), MemoryLeases(clock=clock)
    index = ToyIndex(ledger, dimension=embedder.dimension, late=late)
    return Engine(
        ledger=ledger,
        index=index,
        embedder=embedder,
        vectoriser=OnRequest(BackgroundVectoriser(index.vectors, leases, embedder, clock)),
        jobs=MemoryJobs(ledger),
        leases=leases,
        adapters={"path": PathAdapter(BUILT_IN), "repo": RepoAdapter(BUILT_IN)},
        clock=clock,
        author=Author(actor="ada", channel=channel),
        limits=ReadLimits(),
        segmenters=BUILT_IN.segmenters,
    )
