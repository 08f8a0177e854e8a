"""Open the configured store of the memories of wiki agents: a space or MongoDB."""

from collections.abc import Callable
from dataclasses import dataclass

from treering.core.errors import Conflict, InvalidInput, TreeringError, Unavailable, needing
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiMemoryStore
from treering.ports.models import Embedder
from treering.surfaces.python.space import open_space
from treering.system.settings import Settings

_MONGODB = ("mongodb://", "mongodb+srv://")


@dataclass(frozen=True, slots=True)
class NamedStore:
    """An open store, and the function that closes it."""

    store: WikiMemoryStore
    close: Callable[[], None]


def open_named_store(embedder: Embedder | None) -> NamedStore:
    """Open the store in `TREERING_WIKI_MEMORY`, else the space that `treering.open` finds.

    Raises `Unavailable` and `Conflict` if a retry may succeed, and `InvalidInput` if the settings must be corrected.
    """
    settings = Settings.read()
    try:
        if settings.wiki_memory.startswith(_MONGODB):
            return _mongodb(settings.wiki_memory, embedder)
        space = open_space(settings.wiki_memory or None, embedder=embedder)
        return NamedStore(SpaceWikiMemories(space.engine), space.close)
    except (Unavailable, Conflict):
        raise
    except TreeringError as error:
        raise InvalidInput(
            f"Cannot open the memory of wiki agents: {error.message}",
            hint=f"{error.hint} {_what_to_correct(settings)}".strip(),
            details={"code": error.code},
        ) from error


def _mongodb(address: str, embedder: Embedder | None) -> NamedStore:
    with needing("mongodb", "TREERING_WIKI_MEMORY=mongodb://…"):
        from treering.extensions.wiki.memories.mongo_store import MongoWikiMemories
    store = MongoWikiMemories(address, embedder=embedder)
    return NamedStore(store, store.close)


def _what_to_correct(settings: Settings) -> str:
    if settings.wiki_memory:
        return "Correct TREERING_WIKI_MEMORY."
    return (
        "Correct TREERING_SPACE." if settings.space else "Or set another one in TREERING_SPACE or TREERING_WIKI_MEMORY."
    )
