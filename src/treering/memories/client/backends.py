"""Where memories lie and what searches their vectors: the sections of a configuration, one for each backend."""

from typing import Literal

from pydantic import Field

from treering.memories.client.sections import ConfigSection

LEDGERS = ("sqlite", "in_memory", "postgres")
"""Backends that keep memories. Each searches vectors itself where no engine is named."""
ENGINES = ("faiss", "redis", "neo4j", "mongodb")
"""Backends that search vectors beside a ledger."""
HOST_STORES = ("chroma", "qdrant")
"""Vector stores that a host brings, behind a `VectorStoreAdapter`."""

BACKENDS = (*LEDGERS, *ENGINES)
VECTOR_BACKENDS = (*BACKENDS, *HOST_STORES)


class SqliteConfig(ConfigSection):
    """Where the space of the backend `sqlite` is."""

    path: str = "memory"
    """A path, or the name of a space in the data folder."""


class PostgresConfig(ConfigSection):
    """Where the space of the backend `postgres` is."""

    url: str | None = Field(default=None, repr=False)
    """`postgresql://USER@HOST/DATABASE`; not needed where the client is given a pool."""
    space: str = "memory"
    """The name of the space in the database."""


class FaissConfig(ConfigSection):
    """Files of the engine `faiss`."""

    path: str | None = None
    """A folder; null: `<space>.faiss`, beside a space that is a file."""
    kind: Literal["flat", "hnsw"] = "flat"


class RedisConfig(ConfigSection):
    """How the engine `redis` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`redis://HOST:PORT/DATABASE`; not needed where the client is given a client of Redis."""


class MongoConfig(ConfigSection):
    """How the engine `mongodb` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`mongodb://HOST:PORT/DATABASE`; not needed where the client is given a client of MongoDB."""
    database: str | None = None
    """The database that is used of a client that was given; null: the one in its address, else `treering`."""


class VectorIndex(ConfigSection):
    """The vector index of the engine `neo4j`."""

    index_name: str = "memory_embeddings"
    node_label: str = "Memory"
    vector_property: str = "embedding"
    dimensions: int | None = None
    metric: Literal["cosine", "euclidean"] = "cosine"


class GraphConfig(ConfigSection):
    """The relations of the engine `neo4j`."""

    enable_relationships: bool = True
    relationship_types: tuple[str, ...] = ("FOLLOWS", "REFERENCES", "SIMILAR_TO", "CAUSED_BY", "PART_OF")


class Neo4jConfig(ConfigSection):
    """How the engine `neo4j` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`bolt://USER:PASSWORD@HOST:PORT/DATABASE` or `neo4j://…`; not needed where the client is given a driver."""
    database: str | None = None
    """The database that is used of a driver that was given; null: its default one."""
    use_existing_connection: bool = True
    vector_index: VectorIndex = VectorIndex()
    graph: GraphConfig = GraphConfig()
    batch_size: int = Field(default=100, ge=1)
    connection_pool_size: int = Field(default=10, ge=1)
