"""What wiki agents remember.

from treering.wiki import WikiMemoryService

service = WikiMemoryService()
await service.store_memory(repository_id, "Pages follow the packages.", "structural_decision", "structure_agent")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.edges.wiki_memory_service import WikiMemoryService
    from treering.memories.wiki_memory import WikiGenerationStore, WikiMemoryStore, WikiMemoryType

_HOMES = {
    "treering.edges.wiki_memory_service": ["WikiMemoryService"],
    "treering.memories.wiki_memory": ["WikiGenerationStore", "WikiMemoryStore", "WikiMemoryType"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["WikiGenerationStore", "WikiMemoryService", "WikiMemoryStore", "WikiMemoryType"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.wiki' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
