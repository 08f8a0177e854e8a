"""The memory client for agent frameworks."""

from treering.registry import Extension

EXTENSION = Extension("client", needs=("encoder", "engines", "statements"))
