"""The four tools over HTTP, and the web page."""

from treering.registry import Extension

EXTENSION = Extension(
    "server",
    needs=("mcp",),
)
