"""Opening the memory of a client: its space, the engine that searches its vectors, and its journal."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from treering.core.errors import InvalidInput, MissingExtra, TreeringError
from treering.core.objects import Channel
from treering.extensions.client.config import MemoryConfig, Storage
from treering.extensions.client.items.buffering import WriteJournal
from treering.extensions.client.items.recalling import Who
from treering.extensions.client.models import check_embedder, embedder_of, reranker_of
from treering.extensions.client.place import Given, MemoryPlace, place_of, warn_of_ignored_keys, with_hint
from treering.extensions.client.writing import MemoryWriter
from treering.extensions.engines.host import VectorStoreAdapter
from treering.ports.vector_engine import EngineSelection
from treering.spaces.wiring import Opened, Opening, author, open_engine
from treering.system.settings import Settings
from treering.verbs.engine import Engine

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenMemory:
    """An open memory and its space. `lasting`: whether the space remains after it is closed.

    `no_reranker`: the reason why no model orders the results.
    """

    writer: MemoryWriter
    space: Opened
    lasting: bool
    no_reranker: str
    address: str
    """The address of the space, without a password."""

    @property
    def engine(self) -> Engine:
        """The engine of the space."""
        return self.space.engine

    def close(self) -> None:
        """Write buffered memories, and close the space. An engine deletes its vectors of a space in memory."""
        try:
            self.writer.close()
            if not self.lasting and self.space.engine.selection:
                _drop(self.space.engine.selection)
        finally:
            self.space.close()


def open_memory(config: MemoryConfig, who: Who, given: Given, *, actor: str | None, channel: Channel) -> OpenMemory:
    """Open the space that a configuration names. Raises what opening a space and choosing its engine raise."""
    settings = Settings.read()
    place = place_of(config, settings, given, connect=True)
    reranker, no_reranker = reranker_of(config, given.reranker, settings)
    opening = Opening(
        address=place.ledger,
        settings=settings,
        author=author(actor or who.agent_type, channel, settings),
        background=settings.background if given.background is None else given.background,
        embedder=embedder_of(config, given.embedder, settings),
        reranker=reranker,
        connection=place.connection,
        given_engine=place.given_engine,
    )
    space = open_engine(opening)
    try:
        try:
            _choose_engine(space.engine, place)
        except TreeringError as error:
            raise with_hint(config, error) from error
        writer = MemoryWriter(space.engine, _buffered(config.storage, place), _journal(config, place))
        return OpenMemory(writer, space, not place.ledger.in_memory, no_reranker, str(place.ledger))
    except BaseException:  # the caller does not know the space yet; close it even if the program is interrupted
        space.close()
        raise


def check(config: MemoryConfig, settings: Settings, given: Given) -> None:
    """Raise `InvalidInput` naming everything in a configuration, or from the host, that cannot be used. Opens nothing.

    Logs the keys that have no effect.
    """
    _check_kinds(given)
    checks: Sequence[Callable[[], object]] = (
        partial(place_of, config, settings, given, connect=False),
        partial(check_embedder, config, given.embedder),
        partial(_check_codec, config),
    )
    errors = [error for check in checks if (error := _error_of(check))]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise InvalidInput(
            " ".join(error.message for error in errors),
            hint=" ".join(error.hint for error in errors),
            details={"problems": [error.message for error in errors]},
        )
    warn_of_ignored_keys(config, given)


def _check_kinds(given: Given) -> None:
    """Raise `InvalidInput` for an object of the wrong kind."""
    store, embedder, reranker = given.vector_store, given.embedder, given.reranker
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


def _error_of(check: Callable[[], object]) -> InvalidInput | None:
    try:
        check()
    except InvalidInput as error:
        return error
    return None


def _check_codec(config: MemoryConfig) -> None:
    if config.compression.enabled and config.compression.algorithm == "lz4" and find_spec("lz4") is None:
        raise MissingExtra("lz4", needed_for="memory.compression.algorithm=lz4")


def _choose_engine(engine: Engine, place: MemoryPlace) -> None:
    """Have the space use the named engine, which is filled in the background."""
    if place.engine is None:
        return
    if engine.selection is None:
        if place.engine:
            raise InvalidInput(
                f"Memories in {place.ledger} search their own vectors, so an engine cannot be used.",
                hint="Omit memory.vector_store.backend.",
            )
        return
    if place.engine:
        engine.selection.use(place.engine)
        engine.vectoriser.start()
    else:
        _drop(engine.selection)


def _drop(selection: EngineSelection) -> None:
    dropped = selection.drop()
    if dropped.problem:
        _LOG.warning("The memories stored in %s could not be deleted: %s", dropped.address, dropped.problem)


def _journal(config: MemoryConfig, place: MemoryPlace) -> WriteJournal:
    if place.beside is None or os.name != "posix":
        return WriteJournal()
    from treering.extensions.client.journal import FileJournal, Packer

    return FileJournal(Path(f"{place.beside}.journal"), Packer(config.compression))


def _buffered(storage: Storage, place: MemoryPlace) -> Storage:
    """Return the configuration; without a journal, memories of a lasting space are written at once."""
    if place.beside is None or os.name == "posix":
        return storage
    return storage.model_copy(update={"enable_async_writes": False})
