"""Treering for the Claude Agent SDK: transcripts, tools and hooks.

from treering.claude_agent_sdk import TreeringSessionStore, memory_server
from treering.client import MemorySystemClient

client = MemorySystemClient()
options = ClaudeAgentOptions(
    session_store=TreeringSessionStore(client), mcp_servers={"treering": memory_server(client)}
)
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="claude_agent_sdk")
