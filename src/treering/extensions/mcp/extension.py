"""The four tools over MCP."""

from treering.registry import Extension

EXTENSION = Extension(
    "mcp",
)
