"""Opening the engine of a space: one that its address names, or one that the program gives."""

from treering.extensions.engines.engine_address import ENGINES, GIVEN, EngineAddress, EngineBackend
from treering.extensions.engines.engine_mirror import MAX_COMPARED
from treering.extensions.engines.passage_texts import PassageDescriber, PassageTexts
from treering.extensions.engines.selection import SelectedEngine
from treering.ports.models import Embedder
from treering.ports.stores import Needs, Stores

# `engines.host` is imported only if the program gives an engine, because every command goes through this module.


class Mirrors:
    """`ports.vector_engine.VectorMirrors`: `given` is an `EngineBackend`, a `HostStore` or `None`."""

    def embedder(self, given: object | None, embedder: Embedder) -> Embedder:
        """Return an embedder that notes queries if a store of the program is searched with them."""
        if given is None:
            return embedder
        from treering.extensions.engines.host import HostStore, QuestionRecorder

        return QuestionRecorder(embedder) if isinstance(given, HostStore) else embedder

    def open(self, given: object | None, stores: Stores, needs: Needs, embedder: Embedder) -> SelectedEngine | None:
        """Return which engine searches the vectors of a space, or `None` if its stores report no changes of vectors."""
        if stores.feed is None:
            return None
        backend, compared = _backend(given, stores, embedder) if given else (None, MAX_COMPARED)
        return SelectedEngine(
            stores.feed,
            stores.leases,
            needs.clock,
            {**ENGINES, GIVEN: backend} if backend else ENGINES,
            model=needs.model_id,
            dimension=needs.dimension,
            describe=PassageDescriber(stores.index, stores.ledger),
            compared=compared,
        )


def _backend(given: object, stores: Stores, embedder: Embedder) -> tuple[EngineBackend, int]:
    """Return the given engine, and how many vectors a search without it compares."""
    from treering.extensions.engines.host import HostEngine, HostStore, QuestionRecorder, StateFile

    if isinstance(given, EngineBackend):
        return given, MAX_COMPARED
    if not isinstance(given, HostStore):
        raise TypeError(f"given_engine is a {type(given).__name__}, not an EngineBackend or a HostStore")
    texts, file = PassageTexts(stores.index.passages, stores.ledger), StateFile(given.file)
    recorder = embedder if isinstance(embedder, QuestionRecorder) else QuestionRecorder(embedder)

    def opened(_address: EngineAddress, mark: str, dimension: int) -> HostEngine:
        return HostEngine(given.store, mark, dimension, file=file, texts=texts, question=recorder.question)

    return EngineBackend(lambda: opened, extra=""), given.store.compare_up_to


MIRRORS = Mirrors()
