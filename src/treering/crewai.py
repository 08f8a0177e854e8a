"""Treering for CrewAI: a storage of its memory.

from treering.client import MemorySystemClient
from treering.crewai import TreeringStorage

memory = Memory(storage=TreeringStorage(MemorySystemClient()))
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="crewai")
