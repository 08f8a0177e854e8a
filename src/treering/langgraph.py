"""Treering for LangGraph: a store with semantic search, and a saver of checkpoints.

from treering.client import MemorySystemClient
from treering.langgraph import TreeringSaver, TreeringStore

client = MemorySystemClient()
graph = builder.compile(store=TreeringStore(client), checkpointer=TreeringSaver(client))
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="langgraph")
