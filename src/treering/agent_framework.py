"""Treering for Microsoft Agent Framework: providers of context and of history.

from treering.agent_framework import TreeringContextProvider
from treering.client import MemorySystemClient

providers = [TreeringContextProvider(MemorySystemClient(), "ann")]
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="agent_framework")
