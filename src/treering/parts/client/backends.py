"""Where memories lie and what searches their vectors: the sections of a configuration, one for each backend."""

from typing import Literal

from pydantic import Field, field_validator

from treering.core.errors import nearest
from treering.parts.client.items.documents import RELATIONS
from treering.parts.client.profiles import ConfigSection

LEDGERS = ("sqlite", "in_memory", "postgres")
"""Backends that keep memories. Each searches vectors itself where no engine is named."""
ENGINES = ("faiss", "redis", "neo4j", "mongodb")
"""Backends that search vectors beside a ledger."""
PGVECTOR = "postgres"
"""As `vector_store.backend` beside another ledger: a Postgres that has pgvector searches vectors."""
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
    """`postgresql://USER@HOST/DATABASE`; not needed where the client is given a pool. With `vector_store.backend`
    `postgres` beside another ledger: the database that has pgvector."""
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
    """The database; null: the one in `url` or of the client that was given, else `treering`."""


class VectorIndex(ConfigSection):
    """The vector index of the engine `neo4j`. Several spaces, and nodes of other programs, may share it."""

    index_name: str = "memory_embeddings"
    node_label: str = "Memory"
    vector_property: str = "embedding"
    dimensions: int | None = Field(default=None, ge=1)
    """Null, or `vector_store.embedding_dimension` again: the embedder says how many there are."""
    metric: Literal["cosine", "euclidean"] = "cosine"
    """Of the index, where the server can be told to make one. Vectors have unit length: both give the same order."""

    def check(self, dimension: int) -> None:
        """Raise `ValueError` where the index is said to be of another dimension than the vectors."""
        if self.dimensions not in {None, dimension}:
            raise ValueError(
                f"neo4j.vector_index.dimensions is {self.dimensions}, and the vectors have {dimension} numbers. "
                "Leave neo4j.vector_index.dimensions out, or name the model that has them."
            )


class GraphConfig(ConfigSection):
    """Which relations between memories the engine `neo4j` shows, as relationships of their objects."""

    enable_relationships: bool = True
    relationship_types: tuple[str, ...] = ("FOLLOWS", "REFERENCES", "SIMILAR_TO", "CAUSED_BY", "PART_OF")

    @field_validator("relationship_types")
    @classmethod
    def _known_types(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names in capitals. Raises what names the nearest known one."""
        known = [name.upper() for name in RELATIONS]
        for name in names:
            if name.upper() not in known:
                raise ValueError(f"there is no relation {name!r}. {nearest(name.upper(), known)}")
        return tuple(dict.fromkeys(name.upper() for name in names))


class Neo4jConfig(ConfigSection):
    """How the engine `neo4j` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`bolt://USER:PASSWORD@HOST:PORT/DATABASE` or `neo4j://…`; not needed where the client is given a driver."""
    database: str | None = None
    """The database; null: the one in `url`, else the default one of the server."""
    use_existing_connection: bool = True
    """Whether a driver may be given to the client."""
    vector_index: VectorIndex = VectorIndex()
    graph: GraphConfig = GraphConfig()
    batch_size: int = Field(default=100, ge=1, le=100_000)
    """Rows that one statement writes."""
    connection_pool_size: int = Field(default=10, ge=1, le=100_000)
    """Connections at most. A driver that was given has its own."""
