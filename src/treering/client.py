"""The memory client for agent systems.

from treering.client import MemoryConfig, MemorySystemClient

client = MemorySystemClient(MemoryConfig(backend="in_memory"))
memory_id = await client.store("Test execution of BWA tool", {"tool": "bwa"})
memories = await client.retrieve("BWA tool execution", top_k=5)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.edges.engines.host_store import StoredDocument, VectorStoreAdapter
    from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient
    from treering.edges.memory_config_files import read_memory_config
    from treering.memories.client.config import MemoryConfig
    from treering.memories.client.documents import MemoryDocument, MemoryItem
    from treering.memories.client.profiles import AgentProfile, Switches
    from treering.memories.client.sessions import NestedContext

_HOMES = {
    "treering.edges.engines.host_store": ["StoredDocument", "VectorStoreAdapter"],
    "treering.edges.memory_client": ["BlockingMemoryClient", "MemorySystemClient"],
    "treering.edges.memory_config_files": ["read_memory_config"],
    "treering.memories.client.config": ["MemoryConfig"],
    "treering.memories.client.documents": ["MemoryDocument", "MemoryItem"],
    "treering.memories.client.profiles": ["AgentProfile", "Switches"],
    "treering.memories.client.sessions": ["NestedContext"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "AgentProfile",
    "BlockingMemoryClient",
    "MemoryConfig",
    "MemoryDocument",
    "MemoryItem",
    "MemorySystemClient",
    "NestedContext",
    "StoredDocument",
    "Switches",
    "VectorStoreAdapter",
    "read_memory_config",
]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.client' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
