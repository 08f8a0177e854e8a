"""Opening the space of a memory client: its ledger, the engine that searches its vectors, and its journal."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from treering.core.canonical import digest
from treering.core.errors import InvalidInput, MissingExtra, TreeringError
from treering.core.objects import Channel
from treering.parts.client.config import ENGINES, LEDGERS, MemoryConfig
from treering.parts.client.default_place import with_place
from treering.parts.client.engines import (
    DRIVERS,
    SENTENCE,
    GivenEmbedder,
    at_usual_place,
    check_embedder,
    check_engine,
    embedder_of,
    engine_of,
    lacks,
    not_used,
)
from treering.parts.client.items.buffering import NoJournal, WriteJournal
from treering.parts.client.items.recalling import Who
from treering.parts.client.items.weighing import NO_RERANKER
from treering.parts.client.memory import ClientMemory
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineSelection
from treering.spaces.wiring import Opened, Opening, author, check_postgres, open_engine, postgres_of, reranker_named
from treering.stores.engines.engine_address import EngineBackend, given_address
from treering.stores.engines.host import HostStore, VectorStoreAdapter
from treering.system.address import MEMORY, Address, file_address, parse_address
from treering.system.settings import Settings
from treering.verbs.engine import Engine

# Where a configuration says that memories lie, what searches their vectors, and which connection serves which.


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
    if for_ledger is not None:
        check_postgres(for_ledger)
        if config.postgres.url is not None:
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
            "memory.neo4j.use_existing_connection is false, but a connection was given.",
            hint="Set it to true, or omit the connection.",
        )
    is_pool = type(connection).__module__.partition(".")[0] == "psycopg_pool"
    if config.ledger == "postgres" and (is_pool or of_engine is None):
        return connection, None
    if of_engine is not None:
        return None, connection
    raise InvalidInput(
        f"The backend {config.backend!r} does not accept a connection.",
        hint=f"Omit it; these backends accept one: {', '.join(DRIVERS)}.",
    )


def _sqlite(config: MemoryConfig, settings: Settings, _connection: object | None) -> tuple[Address, Path | None]:
    address = parse_address(with_place(config, settings).sqlite.path or "", named=settings.data_dir)
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


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """What a host gives a client to work with; `None` where the configuration says."""

    stores: GivenStores
    embedder: GivenEmbedder | None = None
    reranker: Reranker | None = None
    background: bool | None = None


class OpenMemory:
    """An open memory, and the space it works on."""

    def __init__(self, memory: ClientMemory, space: Opened, *, lasting: bool) -> None:
        self.memory = memory
        self._space = space
        self._lasting = lasting

    def close(self) -> None:
        """Write what is buffered, and close the space. What an engine keeps of a space in memory is removed."""
        try:
            self.memory.close()
            if not self._lasting and self._space.engine.selection:
                _drop(self._space.engine.selection)
        finally:
            self._space.close()


def open_memory(
    config: MemoryConfig, who: Who, given: MemoryParts, *, actor: str | None, channel: Channel
) -> OpenMemory:
    """Open the space that a configuration names. Raises what opening a space and choosing its engine raise."""
    settings = Settings.read()
    places = places_of(config, settings, given.stores)
    reranker, no_reranker = _reranker(config, given, settings)
    opening = Opening(
        address=places.ledger,
        settings=settings,
        author=author(actor or who.agent_type, channel, settings),
        background=settings.background if given.background is None else given.background,
        embedder=embedder_of(config, given.embedder),
        reranker=reranker,
        connection=places.connection,
        given_engine=places.given_engine,
    )
    space = open_engine(opening)
    try:
        try:
            _choose_engine(space.engine, places)
        except TreeringError as error:
            raise at_usual_place(config, error) from error
        journal = _journal(config, places)
        memory = ClientMemory(
            space.engine, _buffered(config, places), who=who, journal=journal, no_reranker=no_reranker
        )
        return OpenMemory(memory, space, lasting=not places.ledger.in_memory)
    except BaseException:  # nobody else knows of the space yet, not even when the program is interrupted
        space.close()
        raise


def check_parts(config: MemoryConfig, given: MemoryParts) -> None:
    """Raise `InvalidInput` for what was given or named and cannot be used: for all of it at once."""
    checks: Sequence[Callable[[], None]] = (
        partial(_check_kinds, given),
        partial(check_places, config, given.stores),
        partial(check_embedder, config, given.embedder),
        partial(_check_codec, config),
    )
    missing = [error for check in checks if (error := _problem_of(check))]
    if len(missing) == 1:
        raise missing[0]
    if missing:
        raise InvalidInput(
            " ".join(one.message for one in missing),
            hint=" ".join(one.hint for one in missing),
            details={"problems": [one.message for one in missing]},
        )


def _check_kinds(given: MemoryParts) -> None:
    """Raise `InvalidInput` for an object that was given as what it is not."""
    store, embedder, reranker = given.stores.vector_store, given.embedder, given.reranker
    if store is not None and not isinstance(store, VectorStoreAdapter):
        raise InvalidInput(
            f"vector_store: {type(store).__name__} is not a VectorStoreAdapter.", hint="Give VectorStoreAdapter(STORE)."
        )
    if not (embedder is None or callable(embedder) or hasattr(embedder, "embed_documents")):
        raise InvalidInput(
            f"embedder: {type(embedder).__name__} is neither an Embedder nor a function of texts.",
            hint="Pass a function that returns one vector per text.",
        )
    if reranker is not None and not hasattr(reranker, "score"):
        raise InvalidInput(
            f"reranker: {type(reranker).__name__} has no method `score`.",
            hint="Pass an object with score(question, texts), or set retrieval.reranking_model.",
        )


def _problem_of(check: Callable[[], None]) -> InvalidInput | None:
    try:
        check()
    except InvalidInput as error:
        return error
    return None


def _check_codec(config: MemoryConfig) -> None:
    if config.compression.enabled and config.compression.algorithm == "lz4" and find_spec("lz4") is None:
        raise MissingExtra("lz4", needed_for="memory.compression.algorithm=lz4")


def _reranker(config: MemoryConfig, given: MemoryParts, settings: Settings) -> tuple[Reranker | None, str]:
    """Return what reads memories again, and why it is not what the configuration names, where it is not."""
    named = config.retrieval.reranking_model
    if given.reranker is not None or named is None:
        return given.reranker, NO_RERANKER
    of_hugging_face = ":" not in named and "/" in named
    try:
        return reranker_named(f"{SENTENCE}:{named}" if of_hugging_face else named, settings.threads), NO_RERANKER
    except (InvalidInput, MissingExtra) as error:
        not_used(f"retrieval.reranking_model {named!r}", error.message)
        return None, error.message


def _choose_engine(engine: Engine, places: MemoryPlaces) -> None:
    """Have the space use the engine that was named. It is filled in the background."""
    if places.engine is None:
        return
    if engine.selection is None:
        if places.engine:
            raise InvalidInput(
                f"Memories in {places.ledger} search their own vectors, so an engine cannot be used.",
                hint="Omit memory.vector_store.backend.",
            )
        return
    if places.engine:
        engine.selection.use(places.engine)
        engine.vectoriser.start()
    else:
        _drop(engine.selection)


def _drop(selection: EngineSelection) -> None:
    dropped = selection.drop()
    if dropped.problem:
        _LOG.warning("The memories stored in %s could not be deleted: %s", dropped.address, dropped.problem)


def _journal(config: MemoryConfig, places: MemoryPlaces) -> WriteJournal:
    if places.beside is None or os.name != "posix":
        return NoJournal()
    from treering.parts.client.journal import FileJournal, Packer

    return FileJournal(Path(f"{places.beside}.journal"), Packer(config.compression))


def _buffered(config: MemoryConfig, places: MemoryPlaces) -> MemoryConfig:
    """Return the configuration; what is stored durably is written at once where no journal can be."""
    if places.beside is None or os.name == "posix":
        return config
    storage = config.storage.model_copy(update={"enable_async_writes": False})
    return config.model_copy(update={"storage": storage})
