"""The memory client for agent systems.

from treering.client import MemoryConfig, MemorySystemClient

client = MemorySystemClient(MemoryConfig(backend="in_memory"))
memory_id = await client.store("Test execution of BWA tool", {"tool": "bwa"})
memories = await client.retrieve("BWA tool execution", top_k=5)
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__)
