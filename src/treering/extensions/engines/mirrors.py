"""Opening the engine of a space: one that its address names, or one that the program gives."""

from typing import TYPE_CHECKING

from treering.extensions.engines.engine_address import ENGINES, GIVEN, EngineAddress, EngineBackend
from treering.extensions.engines.selection import SelectedEngine
from treering.facades import LazyModule
from treering.ports.models import Embedder
from treering.ports.stores import Needs, Stores
from treering.retrieval.index.engine_mirror import MAX_COMPARED
from treering.retrieval.index.passage_texts import PassageDescriber, PassageTexts

if TYPE_CHECKING:
    from treering.extensions.engines import host
else:
    host = LazyModule("treering.extensions.engines.host")  # loads asyncio, which few spaces need


class Mirrors:
    """`ports.vector_engine.VectorMirrors`: `given` is an `EngineBackend`, a `HostStore` or `None`."""

    def embedder(self, given: object | None, embedder: Embedder) -> Embedder:
        """Return an embedder that notes queries if a store of the program is searched with them."""
        return host.QuestionRecorder(embedder) if given and isinstance(given, host.HostStore) else embedder

    def open(self, given: object | None, stores: Stores, needs: Needs, embedder: Embedder) -> SelectedEngine | None:
        """Return which engine searches the vectors of a space, or `None` if its stores report no changes of vectors."""
        if stores.feed is None:
            return None
        return SelectedEngine(
            stores.feed,
            stores.leases,
            needs.clock,
            {**ENGINES, GIVEN: _backend(given, stores, embedder)} if given else ENGINES,
            model=needs.model_id,
            dimension=needs.dimension,
            describe=PassageDescriber(stores.index, stores.ledger),
            compared=given.store.compare_up_to if given and isinstance(given, host.HostStore) else MAX_COMPARED,
        )


def _backend(given: object, stores: Stores, embedder: Embedder) -> EngineBackend:
    if isinstance(given, EngineBackend):
        return given
    if not isinstance(given, host.HostStore):
        raise TypeError(f"given_engine is a {type(given).__name__}, not an EngineBackend or a HostStore")
    texts, file = PassageTexts(stores.index.passages, stores.ledger), host.StateFile(given.file)
    recorder = embedder if isinstance(embedder, host.QuestionRecorder) else host.QuestionRecorder(embedder)

    def opened(_address: EngineAddress, mark: str, dimension: int) -> "host.HostEngine":
        return host.HostEngine(given.store, mark, dimension, file=file, texts=texts, question=recorder.question)

    return EngineBackend(lambda: opened, extra="")


MIRRORS = Mirrors()
