"""Run CrewAI's tests of its memory and storages with a storage over a space in place of LanceDB and Qdrant."""

import crewai.memory.storage.lancedb_storage as lancedb
import crewai.memory.storage.qdrant_edge_storage as qdrant
from suite_parts import client

from treering.crewai import TreeringStorage

OF_OTHERS = ("exceeding_scan_cap", "flush_to_central", "dual_shard", "orphaned_shard")
"""Words in the names of tests about tables of LanceDB and shards of Qdrant."""

opened = {}


class Storage(TreeringStorage):
    """A `TreeringStorage` with the constructor of CrewAI's storages; the space of a path is open until the end."""

    def __init__(self, path=None, **_tables):
        super().__init__(opened.setdefault(str(path), client()))

    def close(self):
        """Leave the space open for other storages of the path."""


lancedb.LanceDBStorage = qdrant.QdrantEdgeStorage = Storage


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(word in item.name for word in OF_OTHERS)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_unconfigure():
    for one in opened.values():
        one.close()
