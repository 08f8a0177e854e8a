"""Where a configuration says that memories lie, what searches their vectors, and which connection serves which."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from treering.core.canonical import digest
from treering.core.errors import InvalidInput
from treering.edges.address import MEMORY, Address, file_address, parse_address
from treering.edges.engines.backends import EngineBackend
from treering.edges.engines.engine_address import given_address
from treering.edges.engines.host_engine import HostStore
from treering.edges.engines.host_store import VectorStoreAdapter
from treering.edges.memory_engines import DRIVERS, check_engine, engine_of, lacks, not_used
from treering.edges.settings import Settings
from treering.edges.wiring import postgres_of
from treering.memories.client.backends import ENGINES, LEDGERS
from treering.memories.client.config import MemoryConfig


@dataclass(frozen=True, slots=True)
class GivenStores:
    """What a host gives a client to keep and search memories with: an open driver, and a vector store."""

    connection: object | None = None
    vector_store: VectorStoreAdapter | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlaces:
    """Where the memories of a client lie, and what searches their vectors.

    `engine`: the address of an engine; empty where the ledger's own vectors are searched, `None` where the space says.
    `connection`: an open driver for the ledger; `given_engine`: what opens the engine where the host gave something.
    `beside`: the path that a file or folder beside the space begins with; `None` where there is no place for one.
    """

    ledger: Address
    engine: str | None
    beside: Path | None
    connection: object | None = None
    given_engine: EngineBackend | HostStore | None = None


def places_of(config: MemoryConfig, settings: Settings, given: GivenStores) -> MemoryPlaces:
    """Return where a client's memories are. Raises `InvalidInput` and `MissingExtra` for what cannot be had."""
    for_ledger, for_engine = _share(config, given)
    ledger, beside = _LEDGERS[config.ledger](config, settings, for_ledger)
    if given.vector_store:
        store = HostStore(given.vector_store, beside and Path(f"{beside}.handed"))
        return MemoryPlaces(ledger, str(given_address(given.vector_store.name)), beside, for_ledger, store)
    engine, opens = engine_of(config, beside, for_engine)
    return MemoryPlaces(ledger, engine, beside, for_ledger, opens)


def check_places(config: MemoryConfig, given: GivenStores) -> None:
    """Raise `InvalidInput` for a backend that is not there, or lacks what says where it is. Opens nothing."""
    for_ledger, for_engine = _share(config, given)
    if config.ledger == "postgres" and for_ledger is None and config.postgres.url is None:
        raise lacks("postgres")
    if for_ledger is not None and config.postgres.url is not None:
        not_used("postgres.url", "a connection was given, which has its own")
    if given.vector_store is None:
        check_engine(config, for_engine)
    elif config.engine in {*ENGINES, *LEDGERS}:
        not_used(f"{_naming(config)} {config.engine!r}", "a vector store was given")


def _naming(config: MemoryConfig) -> str:
    """Return the key that names the engine."""
    return "backend" if config.backend == config.engine else "vector_store.backend"


def _share(config: MemoryConfig, given: GivenStores) -> tuple[object | None, object | None]:
    """Return which of the ledger and the engine a connection is for, as two. Raises `InvalidInput` where for none."""
    connection = given.connection
    if connection is None:
        return None, None
    of_engine = config.engine if config.engine in DRIVERS and given.vector_store is None else None
    if of_engine == "neo4j" and not config.neo4j.use_existing_connection:
        raise InvalidInput(
            "memory.neo4j.use_existing_connection is false, and a connection was given.",
            hint="Set it to true, or leave the connection out.",
        )
    is_pool = type(connection).__module__.partition(".")[0] == "psycopg_pool"
    if config.ledger == "postgres" and (is_pool or of_engine is None):
        return connection, None
    if of_engine is not None:
        return None, connection
    raise InvalidInput(
        f"The backend {config.backend!r} takes no connection.",
        hint=f"Leave it out; with one go {', '.join(DRIVERS)}.",
    )


def _sqlite(config: MemoryConfig, settings: Settings, _connection: object | None) -> tuple[Address, Path | None]:
    address = parse_address(config.sqlite.path, named=settings.data_dir)
    return address, address.file


def _in_memory(_config: MemoryConfig, _settings: Settings, _connection: object | None) -> tuple[Address, Path | None]:
    return file_address(MEMORY), None


def _postgres(config: MemoryConfig, settings: Settings, connection: object | None) -> tuple[Address, Path | None]:
    named = config.postgres
    if connection is None:
        address = parse_address(named.url or "", named=settings.data_dir)
        options = dict(address.options)
        space = named.space if _SPACE in named.model_fields_set else options.get(_SPACE, named.space)
        address = replace(address, options=tuple({**options, _SPACE: space}.items()))
        return address, _place_on_this_machine(settings, str(address))
    address = Address("postgresql", "connection/", options=((_SPACE, named.space),))
    return address, _place_on_this_machine(settings, f"{postgres_of(connection)}?{named.space}")


def _place_on_this_machine(settings: Settings, space: str) -> Path:
    """Return where files lie that belong to a space on a server: the journal of what this machine has yet to write."""
    return settings.data_dir / "memories" / digest(space)[:_DIGITS]


_LEDGERS: Mapping[str, Callable[[MemoryConfig, Settings, object | None], tuple[Address, Path | None]]] = {
    "sqlite": _sqlite,
    "in_memory": _in_memory,
    "postgres": _postgres,
}
_SPACE = "space"
_DIGITS = 24
