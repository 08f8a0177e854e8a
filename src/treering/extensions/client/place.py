"""The place of a client's memories: its configuration and what the host passes, as addresses that the wiring opens."""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from treering.core.canonical import digest
from treering.core.errors import InvalidInput, TreeringError, Unavailable, as_sentence, needing
from treering.extensions.client.config import (
    ENGINES,
    HOST_STORES,
    LEDGERS,
    MemoryConfig,
    Neo4jConfig,
)
from treering.extensions.encoder.embedders import EmbeddingFunction
from treering.extensions.engines.engine_address import (
    BATCH,
    FAISS,
    MONGODB_SCHEMES,
    NEO4J_SCHEMES,
    OVER_CONNECTIONS,
    POOL,
    EngineAddress,
    EngineBackend,
    Neo4jOptions,
    backend_of,
    given_address,
    parse_engine_address,
)
from treering.extensions.engines.engine_address import ENGINES as WIRED_ENGINES
from treering.extensions.engines.host import HostStore, VectorStoreAdapter
from treering.ports.models import Embedder, Reranker
from treering.system.address import MEMORY, Address, file_address, parse_address
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.postgres.connection.pools import LentPool

_LOG = logging.getLogger(__name__)
_SPACE = "space"
_DIGITS = 24

GivenEmbedder = Embedder | EmbeddingFunction


@dataclass(frozen=True, slots=True)
class Given:
    """Objects that a host passes to a client; `None` if the configuration decides."""

    connection: object | None = None
    vector_store: VectorStoreAdapter | None = None
    embedder: GivenEmbedder | None = None
    reranker: Reranker | None = None
    background: bool | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """The storage of a client's memories, and the engine that searches their vectors.

    `engine`: the address of an engine; empty if the ledger searches its own vectors, `None` if the space decides.
    `beside`: the beginning of the paths of files that belong to the space; `None` for a space in memory.
    `connection`: an open driver for the ledger. `given_engine`: opens the engine over an object of the host.
    """

    ledger: Address
    engine: str | None
    beside: Path | None
    connection: object | None = None
    given_engine: EngineBackend | HostStore | None = None


@dataclass(frozen=True, slots=True)
class BackendServer:
    """How a server is reached: the class of its drivers, and the schemes, the form and the default of its URL."""

    driver: str
    schemes: tuple[str, ...]
    form: str
    default: str = ""


SERVERS: Mapping[str, BackendServer] = {
    "postgres": BackendServer(
        "psycopg_pool.ConnectionPool", ("postgresql", "pgvector"), "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    ),
    "redis": BackendServer(
        "redis.Redis", ("redis", "rediss"), "redis://:PASSWORD@HOST:PORT/0", "redis://localhost:6379/0"
    ),
    "neo4j": BackendServer("neo4j.Driver", NEO4J_SCHEMES, "neo4j://USER:PASSWORD@HOST:PORT", "neo4j://localhost:7687"),
    "mongodb": BackendServer(
        "pymongo.MongoClient",
        MONGODB_SCHEMES,
        "mongodb://USER:PASSWORD@HOST:PORT/DATABASE",
        "mongodb://localhost:27017",
    ),
}
"""Servers by backend; a host may pass an open driver for each."""


def place_of(config: MemoryConfig, settings: Settings, given: Given, *, connect: bool) -> MemoryPlace:
    """Translate a configuration. Opens nothing.

    `connect`: ask a Postgres pool for its database, which names the files of the space on this machine; otherwise
    they have a name that only serves to check the rest.
    Raises `InvalidInput` and `MissingExtra` for a backend that is missing, or without an address.
    """
    for_ledger, for_engine = _share(config, given)
    ledger, beside = _ledger(config, settings, for_ledger, connect=connect)
    if given.vector_store:
        store = HostStore(given.vector_store, beside and Path(f"{beside}.handed"))
        return MemoryPlace(ledger, given_address(given.vector_store.name).url, beside, for_ledger, store)
    if not config.engine:
        return MemoryPlace(ledger, config.engine, beside, for_ledger)
    engine, opens = _engine(config, config.engine, beside, for_engine)
    return MemoryPlace(ledger, engine.url, beside, for_ledger, opens)


def warn_of_ignored_keys(config: MemoryConfig, given: Given) -> None:
    """Log the keys of a configuration that have no effect because of others, or of an object of the host."""
    for_ledger, for_engine = _share(config, given)
    for key in _ignored_by_a_driver(config, for_ledger, for_engine):
        warn_ignored(key, "a connection was given, which has its own")
    named, engine = config.vector_store.backend, config.engine
    if given.vector_store and engine in {*ENGINES, *LEDGERS}:
        key = "backend" if config.backend == engine else "vector_store.backend"
        warn_ignored(f"{key} {engine!r}", "a vector store was given")
    elif engine and named not in {None, engine}:
        warn_ignored(f"vector_store.backend {named!r}", f"memory.backend is {engine!r}")


def warn_ignored(key: str, reason: str) -> None:
    """Log that a key of a configuration has no effect."""
    _LOG.warning("memory.%s is ignored: %s", key, as_sentence(reason))


def with_hint(config: MemoryConfig, error: TreeringError) -> TreeringError:
    """Return why an engine cannot be used, with the key to set if only its default address was tried."""
    engine = config.engine or ""
    server = SERVERS.get(engine)
    if server is None or not server.default or getattr(config, engine).url is not None:
        return error
    return Unavailable(
        f"{error.message} memory.{engine}.url is not set, so the default address was tried.",
        hint=f"Start the server there, set memory.{engine}.url ({server.form}), or pass the "
        f"client connection= with a {server.driver}.",
    )


def _share(config: MemoryConfig, given: Given) -> tuple[object | None, object | None]:
    """Return the connection for the ledger, and the one for the engine. Raises `InvalidInput` if neither uses it."""
    connection = given.connection
    if connection is None:
        return None, None
    engine = config.engine if config.engine in SERVERS and given.vector_store is None else None
    if engine == "neo4j" and not config.neo4j.use_existing_connection:
        raise InvalidInput(
            "memory.neo4j.use_existing_connection is false, but a connection was given.",
            hint="Set it to true, or omit the connection.",
        )
    is_pool = type(connection).__module__.partition(".")[0] == "psycopg_pool"
    if config.ledger == "postgres" and (is_pool or engine is None):
        return connection, None
    if engine is not None:
        return None, connection
    raise InvalidInput(
        f"The backend {config.backend!r} does not accept a connection.",
        hint=f"Omit it; these backends accept one: {', '.join(SERVERS)}.",
    )


def _ignored_by_a_driver(config: MemoryConfig, for_ledger: object | None, for_engine: object | None) -> Iterator[str]:
    if for_ledger is not None and config.postgres.url is not None:
        yield "postgres.url"
    if for_engine is not None and config.engine:
        section = getattr(config, config.engine)
        for name in ("url", "connection_pool_size"):
            field = type(section).model_fields.get(name)
            if field and getattr(section, name) != field.default:
                yield f"{config.engine}.{name}"


def _ledger(
    config: MemoryConfig, settings: Settings, connection: object | None, *, connect: bool
) -> tuple[Address, Path | None]:
    if config.ledger == "in_memory":
        return file_address(MEMORY), None
    if config.ledger == "sqlite":
        address = parse_address(config.sqlite.path or "", named=settings.data_dir)
        return address, address.file
    if connection is None:
        address = _postgres(config)
        database = str(address)
    else:
        pool = lent_pool(connection)
        space = config.postgres.space
        address = Address("postgresql", "connection/", options=((_SPACE, space),))
        database = f"{pool.place()}?{space}" if connect else ""
    return address, settings.data_dir / "memories" / digest(database)[:_DIGITS]


def lent_pool(connection: object) -> "LentPool":
    """Return a pool of Postgres connections that a space can use. Raises `InvalidInput`, `MissingExtra`."""
    with needing("postgres", "A space in a Postgres database"):
        from treering.extensions.postgres.connection.pools import LentPool
    return LentPool(connection)


def _postgres(config: MemoryConfig) -> Address:
    section, address = config.postgres, _address(config, "postgres")
    options = dict(address.options)
    space = section.space if _SPACE in section.model_fields_set else options.get(_SPACE, section.space)
    return replace(address, scheme="postgresql", options=tuple({**options, _SPACE: space}.items()))


def _address(config: MemoryConfig, name: str) -> Address:
    """Return the address of a server, in its section or the default one."""
    server = SERVERS[name]
    url = getattr(config, name).url or server.default
    if not url:
        raise InvalidInput(
            f"memory.{name}.url is not set, and no connection was given.",
            hint=f"Set it, or pass the client connection= with a {server.driver}.",
        )
    if url.partition(":")[0].lower() not in server.schemes:
        raise InvalidInput(
            f"memory.{name}.url does not begin with {server.schemes[0]}://.", hint=f"Write {server.form}."
        )
    return parse_address(url, named=Path())


def _engine(
    config: MemoryConfig, name: str, beside: Path | None, connection: object | None
) -> tuple[EngineAddress, EngineBackend | None]:
    """Return the address of an engine, and the function that opens it over a given connection, if any."""
    if name in HOST_STORES:
        raise InvalidInput(
            f"memory.vector_store.backend: {name!r} is a vector store of the host, but none was given.",
            hint="Give the client vector_store=VectorStoreAdapter(STORE).",
        )
    opens = None
    if connection is not None:
        opens = OVER_CONNECTIONS[name].over(connection, getattr(getattr(config, name), "database", None))
        address = given_address(name)
    else:
        address = _faiss(config, beside) if name == FAISS else _on_server(config, name)
        backend_of(address, WIRED_ENGINES).check()
    if name == "neo4j":
        address = address.with_options(_neo4j_options(config.neo4j))
        try:
            Neo4jOptions.of(address)
        except InvalidInput as error:
            raise InvalidInput(f"memory.neo4j: {error.message}", hint=error.hint) from error
    return address, opens


def _faiss(config: MemoryConfig, beside: Path | None) -> EngineAddress:
    folder = config.faiss.path or (beside and f"{beside}.faiss")
    if not folder:
        raise InvalidInput(
            f"memory.faiss.path is not set, and memories in {config.ledger!r} have no folder next to them.",
            hint="Set it to a folder for the vector files.",
        )
    return parse_engine_address(f"{FAISS}:{os.fspath(folder)}?kind={config.faiss.kind}")


def _on_server(config: MemoryConfig, name: str) -> EngineAddress:
    section, address = getattr(config, name), _address(config, name)
    if name == "postgres":
        # `space` names the space of a ledger; Postgres does not know it.
        options = tuple(option for option in address.options if option[0] != _SPACE)
        return EngineAddress(replace(address, scheme="pgvector", options=options))
    if not getattr(section, "database", None):
        return EngineAddress(address)
    host, _, database = address.place.partition("/")
    if database not in {"", section.database}:
        raise InvalidInput(
            f"memory.{name}.database is {section.database!r}, but memory.{name}.url names the database {database!r}.",
            hint="Remove one of them.",
        )
    return EngineAddress(replace(address, place=f"{host}/{section.database}"))


def _neo4j_options(section: Neo4jConfig) -> dict[str, str]:
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
