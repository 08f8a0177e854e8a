"""Opening the space of a memory client: its ledger, the engine that searches its vectors, and its journal."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from treering.core.errors import InvalidInput, MissingExtra, TreeringError
from treering.core.objects import Channel
from treering.edges.memory_engines import at_usual_place, not_used
from treering.edges.memory_models import GivenEmbedder, check_embedder, embedder_of
from treering.edges.memory_places import GivenStores, MemoryPlaces, check_places, places_of
from treering.edges.settings import Settings
from treering.edges.wiring import Opened, Opening, author, open_engine
from treering.memories.client.buffering import NoJournal, WriteJournal
from treering.memories.client.config import MemoryConfig
from treering.memories.client.filtering import Who
from treering.memories.client.memory import ClientMemory
from treering.memories.client.weighing import NO_RERANKER
from treering.ports.reranker import Reranker
from treering.ports.vector_engine import EngineSelection
from treering.tools.engine import Engine

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
    """Raise `InvalidInput` for a backend, an index, a model or a codec that cannot be had: for all at once."""
    checks: Sequence[Callable[[], None]] = (
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
    from treering.edges.models.cross_encoder import open_reranker

    try:
        return open_reranker(named, threads=settings.threads), NO_RERANKER
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
                f"Memories in {places.ledger} search their own vectors, and no engine.",
                hint="Leave memory.vector_store.backend out.",
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
        _LOG.warning("What %s keeps of memories could not be removed: %s", dropped.address, dropped.problem)


def _journal(config: MemoryConfig, places: MemoryPlaces) -> WriteJournal:
    if places.beside is None or os.name != "posix":
        return NoJournal()
    from treering.edges.memory_codecs import Packer
    from treering.edges.memory_journal import FileJournal

    return FileJournal(Path(f"{places.beside}.journal"), Packer(config.compression))


def _buffered(config: MemoryConfig, places: MemoryPlaces) -> MemoryConfig:
    """Return the configuration; what is stored durably is written at once where no journal can be."""
    if places.beside is None or os.name == "posix":
        return config
    storage = config.storage.model_copy(update={"enable_async_writes": False})
    return config.model_copy(update={"storage": storage})
