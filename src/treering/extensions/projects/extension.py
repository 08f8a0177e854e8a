"""Project memory, and tickets that a supervising agent works on."""

from treering.registry import Extension

EXTENSION = Extension(
    "projects",
    needs=("documents", "encoder", "statements"),
    commands=("treering.extensions.projects.commands:add_supervising",),
    help="treering.extensions.projects.commands:HELP",
    spaces="treering.extensions.projects.spaces:spaces_at",
    http_routes="treering.extensions.projects.routes:serve_projects",
    serve_flags="treering.extensions.projects.commands:ProjectFlags",
)
