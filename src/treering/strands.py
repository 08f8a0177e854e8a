"""Treering for Strands Agents: a memory store.

from treering.client import MemorySystemClient
from treering.strands import TreeringMemoryStore

agent = Agent(plugins=[MemoryManager(stores=[TreeringMemoryStore(MemorySystemClient())])])
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="strands")
