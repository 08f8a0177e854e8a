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
    from treering.edges.hooks.execution_history import ExecutionHistoryMemoryBridge
    from treering.edges.hooks.memory_access import recalled_memories
    from treering.edges.hooks.memory_tools import memory_tools, retrieve_memory, store_memory
    from treering.edges.hooks.nested_loops import nested_memory
    from treering.edges.hooks.nodes import memory_node
    from treering.edges.hooks.state_fields import MemoryDependencies, MemoryState
    from treering.edges.hooks.tool_runs import log_tool_runs
    from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient
    from treering.edges.memory_config_files import read_memory_config
    from treering.memories.client.buffering import SetAside
    from treering.memories.client.config import MemoryConfig
    from treering.memories.client.documents import MemoryDocument, MemoryItem
    from treering.memories.client.profiles import AgentProfile, Switches
    from treering.memories.client.recording import KeyedMemory
    from treering.memories.client.sessions import NestedContext

_HOMES = {
    "treering.edges.engines.host_store": ["StoredDocument", "VectorStoreAdapter"],
    "treering.edges.hooks.execution_history": ["ExecutionHistoryMemoryBridge"],
    "treering.edges.hooks.memory_access": ["recalled_memories"],
    "treering.edges.hooks.memory_tools": ["memory_tools", "retrieve_memory", "store_memory"],
    "treering.edges.hooks.nested_loops": ["nested_memory"],
    "treering.edges.hooks.nodes": ["memory_node"],
    "treering.edges.hooks.state_fields": ["MemoryDependencies", "MemoryState"],
    "treering.edges.hooks.tool_runs": ["log_tool_runs"],
    "treering.edges.memory_client": ["BlockingMemoryClient", "MemorySystemClient"],
    "treering.edges.memory_config_files": ["read_memory_config"],
    "treering.memories.client.buffering": ["SetAside"],
    "treering.memories.client.config": ["MemoryConfig"],
    "treering.memories.client.documents": ["MemoryDocument", "MemoryItem"],
    "treering.memories.client.profiles": ["AgentProfile", "Switches"],
    "treering.memories.client.recording": ["KeyedMemory"],
    "treering.memories.client.sessions": ["NestedContext"],
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
