"""The configuration of a memory client, key by key: the backends first, each with a section of its own."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from treering.core.arguments import check_type
from treering.core.errors import InvalidInput, nearest
from treering.extensions.client.items.documents import RELATIONS
from treering.extensions.client.profiles import (
    BUILT_IN,
    MIN_SIMILARITY,
    AgentProfile,
    ConfigSection,
    ProfileConfig,
    Switches,
    plain_data,
)

LEDGERS = ("sqlite", "in_memory", "postgres")
"""Backends that store memories. Each searches vectors itself unless an engine is configured."""
ENGINES = ("faiss", "redis", "neo4j", "mongodb")
"""Backends that search vectors next to a ledger."""
PGVECTOR = "postgres"
"""As `vector_store.backend` next to another ledger: a Postgres database with pgvector searches vectors."""
HOST_STORES = ("chroma", "qdrant")
"""Vector stores of a host, behind a `VectorStoreAdapter`."""

BACKENDS = (*LEDGERS, *ENGINES)
VECTOR_BACKENDS = (*BACKENDS, *HOST_STORES)


class SqliteConfig(ConfigSection):
    """The location of the space of the backend `sqlite`."""

    path: str | None = None
    """A path, or the name of a space in the data folder; null: a file of the project's own in the data folder."""


class PostgresConfig(ConfigSection):
    """The location of the space of the backend `postgres`."""

    url: str | None = Field(default=None, repr=False)
    """`postgresql://USER@HOST/DATABASE`; not needed if the client gets a pool.

    With `vector_store.backend` `postgres` next to another ledger: the database that has pgvector.
    """
    space: str = "memory"
    """The name of the space in the database."""


class FaissConfig(ConfigSection):
    """Files of the engine `faiss`."""

    path: str | None = None
    """A folder; null: `<space>.faiss`, next to a space that is a file."""
    kind: Literal["flat", "hnsw"] = "flat"


class RedisConfig(ConfigSection):
    """How the engine `redis` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`redis://HOST:PORT/DATABASE`; not needed if the client gets a Redis client."""


class MongoConfig(ConfigSection):
    """How the engine `mongodb` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`mongodb://HOST:PORT/DATABASE`; not needed if the client gets a MongoDB client."""
    database: str | None = None
    """The database; null: the one in `url` or of the client that was given, else `treering`."""


class VectorIndex(ConfigSection):
    """The vector index of the engine `neo4j`. Several spaces, and nodes of other programs, may share it."""

    index_name: str = "memory_embeddings"
    node_label: str = "Memory"
    vector_property: str = "embedding"
    dimensions: int | None = Field(default=None, ge=1)
    """Null, or the same as `vector_store.embedding_dimension`: the embedder determines it."""
    metric: Literal["cosine", "euclidean"] = "cosine"
    """The metric of the index, if the server can be configured. Vectors have unit length: both rank alike."""

    def check(self, dimension: int) -> None:
        """Raise `ValueError` if the index has another dimension than the vectors."""
        if self.dimensions not in {None, dimension}:
            raise ValueError(
                f"neo4j.vector_index.dimensions is {self.dimensions}, but the vectors have {dimension} "
                "components. Omit neo4j.vector_index.dimensions, or name the model that matches it."
            )


class GraphConfig(ConfigSection):
    """Which relations between memories the engine `neo4j` shows, as relationships of their objects."""

    enable_relationships: bool = True
    relationship_types: tuple[str, ...] = ("FOLLOWS", "REFERENCES", "SIMILAR_TO", "CAUSED_BY", "PART_OF")

    @field_validator("relationship_types")
    @classmethod
    def _known_types(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names in capitals. Raises `ValueError` naming the nearest known one."""
        known = [name.upper() for name in RELATIONS]
        for name in names:
            if name.upper() not in known:
                raise ValueError(f"unknown relation {name!r}. {nearest(name.upper(), known)}")
        return tuple(dict.fromkeys(name.upper() for name in names))


class Neo4jConfig(ConfigSection):
    """How the engine `neo4j` is reached."""

    url: str | None = Field(default=None, repr=False)
    """`bolt://USER:PASSWORD@HOST:PORT/DATABASE` or `neo4j://…`; not needed if the client gets a driver."""
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


BUILT_IN_MODEL = "bge-small-en-v1.5"
BUILT_IN_MODELS = frozenset({BUILT_IN_MODEL, "BAAI/bge-small-en-v1.5"})
BUILT_IN_DIMENSION = 384


class Compression(ConfigSection):
    """How the journal of buffered writes packs long texts. The ledger packs its texts by itself, always."""

    enabled: bool = True
    algorithm: Literal["lz4", "gzip", "zstd"] = "zstd"
    min_size_bytes: int = Field(default=1024, ge=0)


class RetrievalConfig(Switches):
    """The defaults of `retrieve`; the keys `enable_…` are switches for all agents."""

    top_k: int = Field(default=5, ge=1, le=200)
    min_similarity: float = Field(default=MIN_SIMILARITY, ge=0, le=1)
    """On the calibrated scale: scores below 0.7 are not distinguishable from chance."""
    max_age_seconds: float | None = Field(default=None, gt=0)
    """The maximum age of retrieved memories; null: no limit."""
    enable_reranking: bool | None = True
    reranking_model: str | None = None
    """`onnx:FOLDER`, or a model of Hugging Face that is on this machine; null: the one TREERING_RERANKER names."""


class Storage(ConfigSection):
    """How memories are written."""

    batch_size: int = Field(default=32, ge=1, le=1_000)
    flush_interval: float = Field(default=300, gt=0)
    """Seconds after which buffered memories are written."""
    enable_async_writes: bool = True
    """Return when a memory is in the journal, and write it in batches; false: when it is in the ledger."""


class VectorStore(ConfigSection):
    """Search by meaning."""

    backend: str | None = None
    """The engine that searches vectors. Null: the engine of `backend`, else the engine the space already uses."""
    embedding_model: str = BUILT_IN_MODEL
    embedding_dimension: int = Field(default=BUILT_IN_DIMENSION, ge=1)
    index_type: Literal["cosine", "euclidean", "dot_product"] = "cosine"
    """Vectors have unit length, so that all three give the same order."""

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, name: str | None) -> str | None:
        return name if name is None else _known(name, VECTOR_BACKENDS)

    @model_validator(mode="after")
    def _fits_the_model(self) -> "VectorStore":
        if self.embedding_model in BUILT_IN_MODELS and self.embedding_dimension != BUILT_IN_DIMENSION:
            raise ValueError(
                f"{self.embedding_model} has vectors of {BUILT_IN_DIMENSION} components, not "
                f"{self.embedding_dimension}. Omit embedding_dimension, or name the model that matches it."
            )
        return self


class MemoryConfig(ConfigSection):
    """The configuration of a memory client. Every key is optional."""

    enabled: bool = True
    backend: str = "sqlite"
    session_ttl: float | None = Field(default=86_400, gt=0)
    """Seconds that a memory is retrieved after it was stored; null: for ever."""
    compression: Compression = Compression()
    retrieval: RetrievalConfig = RetrievalConfig()
    storage: Storage = Storage()
    vector_store: VectorStore = VectorStore()
    profiles: dict[str, ProfileConfig] = Field(default_factory=dict, validate_default=True)
    excluded_agents: tuple[str, ...] = ()
    """Agents, by type, that store and retrieve nothing."""
    sqlite: SqliteConfig = SqliteConfig()
    postgres: PostgresConfig = PostgresConfig()
    faiss: FaissConfig = FaissConfig()
    redis: RedisConfig = RedisConfig()
    neo4j: Neo4jConfig = Neo4jConfig()
    mongodb: MongoConfig = MongoConfig()

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, name: str) -> str:
        return _known(name, BACKENDS)

    @field_validator("profiles", mode="before")
    @classmethod
    def _over_the_built_in(cls, given: Any) -> Any:
        written = given if isinstance(given, Mapping) else {}
        plain = {name: _profile_keys(one) for name, one in written.items()}
        return {name: {**BUILT_IN.get(name, {}), **plain.get(name, {})} for name in (*BUILT_IN, *plain)}

    @model_validator(mode="after")
    def _one_ledger(self) -> "MemoryConfig":
        named = self.vector_store.backend
        if named in LEDGERS and named != self.ledger and self.engine is None:
            raise ValueError(
                f"vector_store.backend is {named!r}, which searches only its own vectors, but memories "
                f"are in {self.ledger!r}. Name an engine ({', '.join((*ENGINES, PGVECTOR))}), or omit "
                "it."
            )
        return self

    @model_validator(mode="after")
    def _index_of_the_model(self) -> "MemoryConfig":
        if self.engine == "neo4j" and "embedding_dimension" in self.vector_store.model_fields_set:
            self.neo4j.vector_index.check(self.vector_store.embedding_dimension)
        return self

    @property
    def ledger(self) -> str:
        """The backend that stores the memories: `sqlite`, `in_memory` or `postgres`."""
        return self.backend if self.backend in LEDGERS else "sqlite"

    @property
    def engine(self) -> str | None:
        """The engine that searches vectors next to the ledger: one of `ENGINES` or `HOST_STORES`, or `PGVECTOR`.

        Empty if the ledger searches them; `None` if the space decides. An engine in `backend` takes precedence over
        `vector_store.backend`.
        """
        if self.backend in ENGINES:
            return self.backend
        named = self.vector_store.backend
        if named in {*ENGINES, *HOST_STORES} or (named == PGVECTOR and self.ledger != PGVECTOR):
            return named
        return "" if named == self.ledger else None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "MemoryConfig":
        """Read a configuration from nested mappings, such as Hydra's, with or without `memory:` around it.

        Raises `InvalidInput` naming the wrong key and the nearest known one.
        """
        check_type(given, Mapping, name="config", expected="a MemoryConfig or nested dictionaries")
        data = plain_data(given)
        inner = data["memory"] if set(data) == {"memory"} else data
        try:
            return cls.model_validate(inner)
        except ValidationError as error:
            raise invalid_config(error) from error

    def profile(self, name: str) -> AgentProfile:
        """Return a profile by name. Raises `InvalidInput` naming the nearest known one."""
        if name not in self.profiles:
            raise InvalidInput(f"Unknown profile {name!r}.", hint=nearest(name, sorted(self.profiles)))
        return AgentProfile.of(name, self.profiles[name])


def _known(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise ValueError(f"unknown backend {name!r}. {nearest(name, known)}")
    return name


def invalid_config(error: ValidationError) -> InvalidInput:
    """Convert a validation error to an error that names the key and the problem."""
    problems = [
        f"{'.'.join(('memory', *map(str, one['loc'])))}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return InvalidInput(problems[0], hint="Correct the configuration.", details={"problems": problems})


def _profile_keys(given: Any) -> Mapping[str, Any]:
    if isinstance(given, AgentProfile):
        switches = given.switches.model_dump(exclude_none=True)
        return {**given.model_dump(exclude={"agent_type", "name", "switches"}, exclude_unset=True), **switches}
    if isinstance(given, ProfileConfig):
        return given.model_dump(exclude_unset=True)
    if not isinstance(given, Mapping):
        raise ValueError(f"a profile is an object of keys, not {type(given).__name__}")  # noqa: TRY004 - pydantic's way
    return given
