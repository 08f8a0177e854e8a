"""Run LangGraph's tests of its SQLite store with a store over a space in its place."""

from contextlib import asynccontextmanager, contextmanager

import langgraph.store.sqlite
import langgraph.store.sqlite.aio
from suite_parts import GivenEmbedder, client

from treering.langgraph import TreeringStore


def opened(address, index):
    embedder = GivenEmbedder(index["embed"], index["dims"]) if index else None
    return client(address, embedder)


def options(index, ttl):
    fields = index.get("text_fields") if index else None
    return {"ttl": ttl, **({"fields": fields} if fields else {})}


class Store(TreeringStore):
    """A `TreeringStore` with the constructors of `SqliteStore`."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, address, *, index=None, ttl=None):
        with opened(address, index) as used:
            yield cls(used, **options(index, ttl))

    def setup(self):
        """Do nothing: a space needs no setup."""


class AsyncStore(TreeringStore):
    """A `TreeringStore` with the constructors of `AsyncSqliteStore`."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, address, *, index=None, ttl=None):
        with opened(address, index) as used:
            yield cls(used, **options(index, ttl))

    async def setup(self):
        """Do nothing: a space needs no setup."""

    async def sweep_ttl(self):
        return super().sweep_ttl()


langgraph.store.sqlite.SqliteStore = Store
langgraph.store.sqlite.AsyncSqliteStore = langgraph.store.sqlite.aio.AsyncSqliteStore = AsyncStore
