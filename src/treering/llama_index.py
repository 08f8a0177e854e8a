"""Treering for LlamaIndex: a memory block and a retriever.

from treering.client import MemorySystemClient
from treering.llama_index import TreeringMemoryBlock

memory = Memory.from_defaults(memory_blocks=[TreeringMemoryBlock(client=MemorySystemClient())])
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="llama_index")
