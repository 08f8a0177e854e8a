"""Workflows: lists of nodes, as JSON or YAML, that use memory and ask language models."""

from treering.registry import Part

PART = Part(
    name="workflows",
    making="treering.parts.workflows.endpoints:plan_of",
    commands=("treering.parts.workflows.commands:add_workflows",),
)
