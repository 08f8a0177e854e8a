"""What searches the vectors of a client's memories, as its configuration says: an engine's address and options."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TypeGuard, cast

from treering.core.errors import InvalidInput, MissingExtra, TreeringError, Unavailable, as_sentence
from treering.models.embedders import EmbeddingFunction, FunctionEmbedder
from treering.models.onnx import SCHEME
from treering.parts.client.config import (
    BUILT_IN_DIMENSION,
    BUILT_IN_MODEL,
    BUILT_IN_MODELS,
    HOST_STORES,
    MemoryConfig,
    Neo4jConfig,
)
from treering.ports.models import Embedder
from treering.spaces.wiring import EMBEDDERS, embedder_named
from treering.stores.engines.engine_address import (
    BATCH,
    FAISS,
    OVER_CONNECTIONS,
    POOL,
    EngineAddress,
    EngineBackend,
    Neo4jOptions,
    backend_of,
    given_address,
    parse_engine_address,
)
from treering.stores.engines.engine_address import ENGINES as WIRED_ENGINES
from treering.system.address import Address
from treering.system.settings import Settings

_LOG = logging.getLogger(__name__)

DRIVERS: Mapping[str, str] = {
    "postgres": "psycopg_pool.ConnectionPool",
    "redis": "redis.Redis",
    "neo4j": "neo4j.Driver",
    "mongodb": "pymongo.MongoClient",
}
"""Drivers that a host may give, by the backend they are of."""
USUAL: Mapping[str, str] = {
    "redis": "redis://localhost:6379/0",
    "neo4j": "neo4j://localhost:7687",
    "mongodb": "mongodb://localhost:27017",
}
"""Where a server usually is that nothing says where it is."""


def check_engine(config: MemoryConfig, connection: object | None) -> None:
    """Raise `InvalidInput` for an engine that is not there, or lacks what says where it is. Opens nothing."""
    named, engine = config.vector_store.backend, config.engine
    if engine in HOST_STORES:
        raise InvalidInput(
            f"memory.vector_store.backend: {engine!r} is a vector store of the host, but none was given.",
            hint="Give the client vector_store=VectorStoreAdapter(STORE).",
        )
    if engine and named not in {None, engine}:
        not_used(f"vector_store.backend {named!r}", f"memory.backend is {engine!r}")
    if engine and engine != FAISS:
        _check_server(config, engine, connection)


def _check_server(config: MemoryConfig, engine: str, connection: object | None) -> None:
    if connection is not None:
        _over(config, engine, connection)
        _warn_of_what_a_driver_has(config, engine)
    elif _url(config, engine) is None:
        raise lacks(engine)
    address = _given(config, engine) if connection is not None else _address(config, engine)
    if connection is None:
        backend_of(address, WIRED_ENGINES).check()
    if engine == "neo4j":
        try:
            Neo4jOptions.of(address)
        except InvalidInput as error:
            raise InvalidInput(f"memory.neo4j: {error.message}", hint=error.hint) from error


def engine_of(
    config: MemoryConfig, beside: Path | None, connection: object | None
) -> tuple[str | None, EngineBackend | None]:
    """Return the address of the engine, and what opens it where a driver was given for it.

    The address is empty where the ledger's own vectors are searched, and `None` where the space says.
    Raises `InvalidInput` and `MissingExtra` for what cannot be had.
    """
    name = config.engine
    if not name:
        return name, None
    if connection is not None:
        return _given(config, name).url, _over(config, name, connection)
    address = parse_engine_address(_faiss(config, beside)) if name == FAISS else _address(config, name)
    backend_of(address, WIRED_ENGINES).check()
    return address.url, None


def _over(config: MemoryConfig, engine: str, connection: object) -> EngineBackend:
    """Return what opens an engine over a driver. Connects to nothing. Raises `InvalidInput` for another driver."""
    database = getattr(getattr(config, engine), "database", None)
    return OVER_CONNECTIONS[engine].over(connection, database)


def lacks(backend: str) -> InvalidInput:
    """Return the error of a backend that nothing says where it is."""
    return InvalidInput(
        f"memory.{backend}.url is not set, and no connection was given.",
        hint=f"Set it, or pass the client connection= with a {DRIVERS[backend]}.",
    )


def not_used(what: str, why: str) -> None:
    """Warn of what a configuration says and nothing uses."""
    _LOG.warning("memory.%s is ignored: %s", what, as_sentence(why))


def _warn_of_what_a_driver_has(config: MemoryConfig, engine: str) -> None:
    section = getattr(config, engine)
    for name in ("url", "connection_pool_size"):
        field = type(section).model_fields.get(name)
        if field and getattr(section, name) != field.default:
            not_used(f"{engine}.{name}", "a connection was given, which has its own")


def _faiss(config: MemoryConfig, beside: Path | None) -> str:
    folder = config.faiss.path or (beside and f"{beside}.faiss")
    if not folder:
        raise InvalidInput(
            f"memory.faiss.path is not set, and memories in {config.ledger!r} have no folder next to them.",
            hint="Set it to a folder for the vector files.",
        )
    return f"{FAISS}:{os.fspath(folder)}?kind={config.faiss.kind}"


def _url(config: MemoryConfig, engine: str) -> str | None:
    url: str | None = getattr(config, engine).url
    return url or USUAL.get(engine)


def at_usual_place(config: MemoryConfig, error: TreeringError) -> TreeringError:
    """Return why an engine cannot be used, with what to set where only its usual address was tried."""
    engine = config.engine or ""
    if engine not in USUAL or getattr(config, engine).url is not None:
        return error
    return Unavailable(
        f"{error.message} memory.{engine}.url is not set, so the default address was tried.",
        hint=f"Start the server there, set memory.{engine}.url ({_FORMS[engine]}), or pass the "
        f"client connection= with a {DRIVERS[engine]}.",
    )


_FORMS = {
    "redis": "redis://:PASSWORD@HOST:PORT/0",
    "neo4j": "neo4j://USER:PASSWORD@HOST:PORT",
    "mongodb": "mongodb://USER:PASSWORD@HOST:PORT/DATABASE",
}


def _given(config: MemoryConfig, engine: str) -> EngineAddress:
    return given_address(engine).with_options(_options(config, engine))


def _address(config: MemoryConfig, engine: str) -> EngineAddress:
    """Return the address of an engine on a server: its URL, with the database and the options of its section."""
    address = parse_engine_address(_url(config, engine) or "")
    if engine == "postgres":
        return EngineAddress(replace(address.address, scheme="pgvector", options=_without_space(address.address)))
    database = getattr(getattr(config, engine), "database", None)
    if database:
        address = EngineAddress(_in_database(address.address, database, engine))
    return address.with_options(_options(config, engine))


def _without_space(address: Address) -> tuple[tuple[str, str], ...]:
    """Return the options that Postgres knows: `space` names a ledger's space, which an engine is not."""
    return tuple(one for one in address.options if one[0] != "space")


def _in_database(address: Address, database: str, engine: str) -> Address:
    host, _, named = address.place.partition("/")
    if named not in {"", database}:
        raise InvalidInput(
            f"memory.{engine}.database is {database!r}, but memory.{engine}.url names the database {named!r}.",
            hint="Remove one of them.",
        )
    return replace(address, place=f"{host}/{database}")


def _options(config: MemoryConfig, engine: str) -> dict[str, str]:
    """Return what a section says of how an engine keeps vectors and is written to, as options of its address."""
    return _of_neo4j(config.neo4j) if engine == "neo4j" else {}


def _of_neo4j(section: Neo4jConfig) -> dict[str, str]:
    index, graph = section.vector_index, section.graph
    relations = ",".join(graph.relationship_types) if graph.enable_relationships else ""
    return {
        "index": index.index_name,
        "label": index.node_label,
        "property": index.vector_property,
        "metric": index.metric,
        **({"relations": relations} if relations else {}),
        BATCH: str(section.batch_size),
        POOL: str(section.connection_pool_size),
    }


# The embedding model of a memory client: the built-in one, one of a provider, or one that the host gives.


GivenEmbedder = Embedder | EmbeddingFunction

_KEY = "memory.vector_store.embedding_model"
SENTENCE = "sentence-transformers"
"""Of Hugging Face's models: what runs them here, whether they embed or rerank."""
_OWN = f"Or pass the client an `embedder`: an Embedder, or a function of texts; or name {BUILT_IN_MODEL!r}."


def check_embedder(config: MemoryConfig, given: GivenEmbedder | None) -> None:
    """Raise `InvalidInput` or `MissingExtra` for a model that cannot be had, or of another dimension. Opens nothing."""
    wanted = config.vector_store
    name = wanted.embedding_model
    if given is None and not (name in BUILT_IN_MODELS or name in EMBEDDERS or name.startswith(SCHEME)):
        _check_package(wanted.embedding_model)
    if _is_embedder(given):
        _check_dimension(config, given)
    elif given is None and wanted.embedding_model in BUILT_IN_MODELS:
        _check_index(config, BUILT_IN_DIMENSION)


def embedder_of(config: MemoryConfig, given: GivenEmbedder | None) -> Embedder | None:
    """Return the embedder to use, `None` for the built-in one. Raises what opening a model raises."""
    wanted = config.vector_store
    name = wanted.embedding_model
    if given is None and name in BUILT_IN_MODELS:
        return None
    if given is None:
        embedder = embedder_named(_named(name), replace(Settings.read(), embedder_url=""))
    elif _is_embedder(given):
        embedder = given
    else:
        function = cast("EmbeddingFunction", given)
        embedder = FunctionEmbedder(function, _function_name(function) if name in BUILT_IN_MODELS else name)
    _check_dimension(config, embedder)
    return embedder


def _is_embedder(given: GivenEmbedder | None) -> TypeGuard[Embedder]:
    return hasattr(given, "embed_documents")


def _function_name(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _named(name: str) -> str:
    """Return a model as `open_embedder` names it; one of Hugging Face's sentence transformers runs here."""
    return f"{SENTENCE}:{name}" if name.startswith(f"{SENTENCE}/") else name


def _check_package(name: str) -> None:
    if name.startswith((f"{SENTENCE}/", f"{SENTENCE}:")):
        if find_spec("sentence_transformers") is None:
            raise InvalidInput(
                f"{_KEY}: {name!r} is not built in.", hint=f"Run: pip install 'treering[llm]' {SENTENCE}. {_OWN}"
            )
    elif ":" not in name:
        raise InvalidInput(
            f"{_KEY}: {name!r} is not built in.",
            hint=f"Use PROVIDER:MODEL, such as openai:text-embedding-3-small. {_OWN}",
        )
    if find_spec("pydantic_ai") is None:
        raise MissingExtra("llm", needed_for=f"{_KEY} {name!r}")


def _check_dimension(config: MemoryConfig, embedder: Embedder) -> None:
    _check_index(config, embedder.dimension)
    wanted = config.vector_store
    if wanted.embedding_model in BUILT_IN_MODELS:
        return  # whatever embedder is given stands in its place
    if "embedding_dimension" in wanted.model_fields_set and embedder.dimension != wanted.embedding_dimension:
        raise InvalidInput(
            f"memory.vector_store.embedding_dimension is {wanted.embedding_dimension}, but {embedder.model_id} "
            f"has {embedder.dimension}.",
            hint=f"Set it to {embedder.dimension}, omit it, or pass the embedder that matches it.",
        )


def _check_index(config: MemoryConfig, dimension: int) -> None:
    if config.engine != "neo4j":
        return
    try:
        config.neo4j.vector_index.check(dimension)
    except ValueError as error:
        raise InvalidInput(f"memory: {error}", hint="Correct the configuration.") from error
