"""The memory client for agent systems.

from treering.client import MemoryConfig, MemorySystemClient

client = MemorySystemClient(MemoryConfig(backend="in_memory"))
memory_id = await client.store("Test execution of BWA tool", {"tool": "bwa"})
memories = await client.retrieve("BWA tool execution", top_k=5)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.parts.client.client import BlockingMemoryClient, MemorySystemClient
    from treering.parts.client.config import MemoryConfig
    from treering.parts.client.config_files import read_memory_config
    from treering.parts.client.hooks.execution_history import ExecutionHistoryMemoryBridge
    from treering.parts.client.hooks.memory_access import MemoryDependencies, MemoryState, recalled_memories
    from treering.parts.client.hooks.memory_tools import memory_tools, retrieve_memory, store_memory
    from treering.parts.client.hooks.nodes import memory_node, nested_memory
    from treering.parts.client.hooks.tool_runs import log_tool_runs
    from treering.parts.client.items.buffering import SetAside
    from treering.parts.client.items.documents import MemoryDocument, MemoryItem, NestedContext
    from treering.parts.client.items.recording import KeyedMemory
    from treering.parts.client.profiles import AgentProfile, Switches
    from treering.stores.engines.host import StoredDocument, VectorStoreAdapter

_HOMES = {
    "treering.stores.engines.host": ["StoredDocument", "VectorStoreAdapter"],
    "treering.parts.client.hooks.execution_history": ["ExecutionHistoryMemoryBridge"],
    "treering.parts.client.hooks.memory_access": ["recalled_memories", "MemoryDependencies", "MemoryState"],
    "treering.parts.client.hooks.memory_tools": ["memory_tools", "retrieve_memory", "store_memory"],
    "treering.parts.client.hooks.nodes": ["nested_memory", "memory_node"],
    "treering.parts.client.hooks.tool_runs": ["log_tool_runs"],
    "treering.parts.client.client": ["BlockingMemoryClient", "MemorySystemClient"],
    "treering.parts.client.config_files": ["read_memory_config"],
    "treering.parts.client.items.buffering": ["SetAside"],
    "treering.parts.client.config": ["MemoryConfig"],
    "treering.parts.client.items.documents": ["MemoryDocument", "MemoryItem", "NestedContext"],
    "treering.parts.client.profiles": ["AgentProfile", "Switches"],
    "treering.parts.client.items.recording": ["KeyedMemory"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "AgentProfile",
    "BlockingMemoryClient",
    "ExecutionHistoryMemoryBridge",
    "KeyedMemory",
    "MemoryConfig",
    "MemoryDependencies",
    "MemoryDocument",
    "MemoryItem",
    "MemoryState",
    "MemorySystemClient",
    "NestedContext",
    "SetAside",
    "StoredDocument",
    "Switches",
    "VectorStoreAdapter",
    "log_tool_runs",
    "memory_node",
    "memory_tools",
    "nested_memory",
    "read_memory_config",
    "recalled_memories",
    "retrieve_memory",
    "store_memory",
]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.client' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
