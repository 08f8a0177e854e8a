"""Treering for the OpenAI Agents SDK: sessions, and recall before the model is called.

from treering.client import MemorySystemClient
from treering.openai_agents import TreeringSession

result = await Runner.run(agent, "Hello", session=TreeringSession("user-1", MemorySystemClient()))
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="openai_agents")
