"""The configuration of a memory client, key by key."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from treering.core.errors import InvalidInput, nearest
from treering.memories.client.profiles import BUILT_IN, AgentProfile, ProfileConfig, Switches, profile_named
from treering.memories.client.sections import ConfigSection, plain_data

BUILT_IN_MODEL = "bge-small-en-v1.5"
BUILT_IN_MODELS = frozenset({BUILT_IN_MODEL, "BAAI/bge-small-en-v1.5"})
BUILT_IN_DIMENSION = 384

BACKENDS = ("sqlite", "in_memory", "faiss", "postgres", "redis", "neo4j", "mongodb")
"""Names that a configuration may hold; which of them can be opened is said by what opens them."""


class Compression(ConfigSection):
    """How the journal of buffered writes packs long texts. The ledger packs its texts by itself, always."""

    enabled: bool = True
    algorithm: Literal["lz4", "gzip", "zstd"] = "zstd"
    min_size_bytes: int = Field(default=1024, ge=0)


class RetrievalConfig(Switches):
    """What `retrieve` gives where a call does not say; the keys `enable_…` are switches for all agents."""

    top_k: int = Field(default=5, ge=1, le=200)
    min_similarity: float = Field(default=0.7, ge=0, le=1)
    """On the calibrated scale: 0.7 is the least that the embedder can tell from chance."""
    max_age_seconds: float | None = Field(default=604_800, gt=0)
    """What tells of something older is not retrieved; null: no limit."""
    enable_reranking: bool | None = True
    reranking_model: str | None = None
    """`onnx:FOLDER`; null: the one that TREERING_RERANKER names, if any."""


class Storage(ConfigSection):
    """How memories are written."""

    batch_size: int = Field(default=32, ge=1, le=1_000)
    flush_interval: float = Field(default=300, gt=0)
    """Seconds after which what is buffered is written, whoever reads."""
    enable_async_writes: bool = True
    """Return when a memory is in the journal, and write it in batches; false: when it is in the ledger."""


class VectorStore(ConfigSection):
    """What is found by meaning."""

    backend: str | None = None
    """Null: that of the client."""
    embedding_model: str = BUILT_IN_MODEL
    embedding_dimension: int = Field(default=BUILT_IN_DIMENSION, ge=1)
    index_type: Literal["cosine", "euclidean", "dot_product"] = "cosine"
    """Vectors have unit length, so that all three give the same order."""

    @model_validator(mode="after")
    def _fits_the_model(self) -> "VectorStore":
        if self.embedding_model in BUILT_IN_MODELS and self.embedding_dimension != BUILT_IN_DIMENSION:
            raise ValueError(
                f"{self.embedding_model} has vectors of {BUILT_IN_DIMENSION} numbers, not {self.embedding_dimension}. "
                "Leave embedding_dimension out, or name the model that has them."
            )
        return self


class SqliteConfig(ConfigSection):
    """Where the space of the backend `sqlite` is."""

    path: str = "memory"
    """A path, or the name of a space in the data folder."""


class VectorIndex(ConfigSection):
    """The vector index of the backend `neo4j`."""

    index_name: str = "memory_embeddings"
    node_label: str = "Memory"
    vector_property: str = "embedding"
    dimensions: int | None = None
    metric: Literal["cosine", "euclidean"] = "cosine"


class GraphConfig(ConfigSection):
    """The relations of the backend `neo4j`."""

    enable_relationships: bool = True
    relationship_types: tuple[str, ...] = ("FOLLOWS", "REFERENCES", "SIMILAR_TO", "CAUSED_BY", "PART_OF")


class Neo4jConfig(ConfigSection):
    """How the backend `neo4j` is reached."""

    use_existing_connection: bool = True
    vector_index: VectorIndex = VectorIndex()
    graph: GraphConfig = GraphConfig()
    batch_size: int = Field(default=100, ge=1)
    connection_pool_size: int = Field(default=10, ge=1)


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
    neo4j: Neo4jConfig = Neo4jConfig()

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, name: str) -> str:
        if name not in BACKENDS:
            raise ValueError(f"there is no backend {name!r}. {nearest(name, BACKENDS)}")
        return name

    @field_validator("profiles", mode="before")
    @classmethod
    def _over_the_built_in(cls, given: Any) -> Any:
        written = given if isinstance(given, Mapping) else {}
        plain = {name: _profile_keys(one) for name, one in written.items()}
        return {name: {**BUILT_IN.get(name, {}), **plain.get(name, {})} for name in (*BUILT_IN, *plain)}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "MemoryConfig":
        """Read a configuration from nested mappings, such as Hydra's, with or without `memory:` around it.

        Raises `InvalidInput` naming the wrong key and the nearest known one.
        """
        data = plain_data(given)
        inner = data["memory"] if set(data) == {"memory"} else data
        try:
            return cls.model_validate(inner)
        except ValidationError as error:
            raise invalid_config(error) from error

    def profile(self, name: str) -> AgentProfile:
        """Return a profile by name. Raises `InvalidInput` naming the nearest known one."""
        return profile_named(name, self.profiles)


def invalid_config(error: ValidationError) -> InvalidInput:
    """Turn what a configuration is refused for into our error: which key, and what is wrong with it."""
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
