"""Treering for Pydantic AI: a capability that gives an agent a memory, and its tools alone.

from treering.client import MemorySystemClient
from treering.pydantic_ai import TreeringMemory

agent = Agent(model, capabilities=[TreeringMemory(MemorySystemClient())])
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="pydantic_ai")
