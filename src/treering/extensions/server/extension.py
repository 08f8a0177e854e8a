"""The four tools over HTTP, and the web page."""

from treering.registry import Extension

EXTENSION = Extension(
    "server",
    needs=("mcp",),
    commands=("treering.extensions.server.commands:add_serving", "treering.extensions.server.key_commands:add_keys"),
    help="treering.extensions.server.commands:HELP",
)
