"""Workflows of nodes that read and write memories."""

from treering.registry import Extension

EXTENSION = Extension(
    "workflows",
    needs=("discussions", "encoder"),
    commands=("treering.extensions.workflows.commands:add_workflows",),
    help="treering.extensions.workflows.commands:HELP",
    memory_plan="treering.extensions.workflows.endpoints:plan_of",
)
