"""Treering for the Anthropic SDK: the memory tool of Claude over a space.

from treering.anthropic import TreeringMemoryTool
from treering.client import MemorySystemClient

tools = [TreeringMemoryTool(MemorySystemClient())]
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="anthropic")
