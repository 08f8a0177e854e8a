"""The four tools over MCP."""

from treering.registry import Extension

EXTENSION = Extension(
    "mcp",
    commands=("treering.extensions.mcp.commands:add_mcp",),
    help="treering.extensions.mcp.commands:HELP",
)
