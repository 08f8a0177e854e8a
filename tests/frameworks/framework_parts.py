"""Memory clients for framework adapters: in memory, embedding by hashing words, nothing in the background."""

from treering.client import BlockingMemoryClient, MemoryConfig, MemorySystemClient
from treering.testing import HashingEmbedder

_PARTS = {"background": False, "embedder": HashingEmbedder()}


def config(**given):
    """Return a configuration, of a client in memory unless it says otherwise."""
    return MemoryConfig.read({"backend": "in_memory", **given})


def blocking(given=None, **options):
    return BlockingMemoryClient(config(**given or {}), **{**_PARTS, **options})


def asynchronous(given=None, **options):
    return MemorySystemClient(config(**given or {}), **{**_PARTS, **options})
