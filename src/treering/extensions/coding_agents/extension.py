"""Connections to coding agents, and their hooks."""

from treering.registry import Extension

EXTENSION = Extension(
    "coding_agents",
    needs=("code", "conversations", "resident"),
    commands=("treering.extensions.coding_agents.commands:add_connecting",),
    help="treering.extensions.coding_agents.commands:HELP",
)
