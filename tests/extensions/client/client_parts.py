"""Memory clients that embed by hashing words, without anything in the background."""

from datetime import timedelta

import treering
from treering.client import AgentProfile, BlockingMemoryClient, MemoryConfig, MemorySystemClient
from treering.core.scope import ROOT
from treering.ports.ledger import Selection
from treering.testing import HashingEmbedder

PARTS = {"background": False, "embedder": HashingEmbedder()}
ALL_SOURCES = Selection(ROOT, descend=True, types=("source",))
EVERYTHING = AgentProfile(agent_type="", relevance_threshold=0)


def config(**given):
    """Return a configuration, of a client in memory unless it says otherwise."""
    return MemoryConfig.read({"backend": "in_memory", **given})


def blocking(given=None, **options):
    return BlockingMemoryClient(given or config(), **{**PARTS, **options})


def asynchronous(given=None, **options):
    return MemorySystemClient(given or config(), **{**PARTS, **options})


def created(path):
    """Return the ids of what was created in a space."""
    if not path.exists():
        return []
    with treering.open(str(path), background=False, embedder=PARTS["embedder"]) as space:
        return [one.target for one in space.engine.ledger.events(after=0) if one.event_type == "created"]


def texts(memories):
    return [memory.content for memory in memories]


class Later:
    """A clock that can be set forward."""

    def __init__(self, clock):
        self._clock = clock
        self.ahead = 0.0

    def now(self):
        return self._clock.now() + timedelta(seconds=self.ahead)

    def elapsed(self):
        return self._clock.elapsed() + self.ahead

    def random_bytes(self, count):
        return self._clock.random_bytes(count)
