"""Treering for Google ADK: a memory service.

from treering.client import MemorySystemClient
from treering.google_adk import TreeringMemoryService

service = TreeringMemoryService(MemorySystemClient())
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="google_adk")
