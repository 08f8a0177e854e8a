from treering.extensions.client.blocking import BlockingMemoryClient as BlockingMemoryClient
from treering.extensions.client.client import MemorySystemClient as MemorySystemClient
from treering.extensions.client.config import MemoryConfig as MemoryConfig
from treering.extensions.client.config_file import read_memory_config as read_memory_config
from treering.extensions.client.hooks.execution_history import (
    ExecutionHistoryMemoryBridge as ExecutionHistoryMemoryBridge,
)
from treering.extensions.client.hooks.memory_access import MemoryDependencies as MemoryDependencies
from treering.extensions.client.hooks.memory_access import MemoryState as MemoryState
from treering.extensions.client.hooks.memory_access import memory_tools as memory_tools
from treering.extensions.client.hooks.memory_access import recalled_memories as recalled_memories
from treering.extensions.client.hooks.memory_access import retrieve_memory as retrieve_memory
from treering.extensions.client.hooks.memory_access import store_memory as store_memory
from treering.extensions.client.hooks.nodes import memory_node as memory_node
from treering.extensions.client.hooks.nodes import nested_memory as nested_memory
from treering.extensions.client.hooks.tool_runs import log_tool_runs as log_tool_runs
from treering.extensions.client.items.buffering import SetAside as SetAside
from treering.extensions.client.items.documents import MemoryDocument as MemoryDocument
from treering.extensions.client.items.documents import MemoryItem as MemoryItem
from treering.extensions.client.items.documents import NestedContext as NestedContext
from treering.extensions.client.items.recording import KeyedMemory as KeyedMemory
from treering.extensions.client.profiles import AgentProfile as AgentProfile
from treering.extensions.client.profiles import Switches as Switches
from treering.extensions.engines.host import StoredDocument as StoredDocument
from treering.extensions.engines.host import VectorStoreAdapter as VectorStoreAdapter
