"""Project memory, tickets, and the supervisor: rules, commands and routes."""

from treering.registry import Part

PART = Part(
    name="projects",
    commands=("treering.parts.projects.commands:add_supervising",),
    serving="treering.parts.projects.routes:serve_projects",
)
