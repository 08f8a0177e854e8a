"""Treering for the Claude Agent SDK: transcripts, tools and hooks.

from treering.claude_agent_sdk import TreeringSessionStore, memory_server
from treering.client import MemorySystemClient

client = MemorySystemClient()
options = ClaudeAgentOptions(
    session_store=TreeringSessionStore(client), mcp_servers={"treering": memory_server(client)}
)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.claude_agent_sdk import MEMORY_TOOLS, TreeringSessionStore, memory_hooks, memory_server

__all__ = ["MEMORY_TOOLS", "TreeringSessionStore", "memory_hooks", "memory_server"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("claude_agent_sdk", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
