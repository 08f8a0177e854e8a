"""Treering for Pydantic AI Harness: a store for the files of its `Memory` capability.

from pydantic_ai_harness.memory import Memory
from treering.client import MemorySystemClient
from treering.pydantic_ai_harness import TreeringFileStore

agent = Agent(model, capabilities=[Memory(store=TreeringFileStore(MemorySystemClient()))])
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="pydantic_ai_harness")
