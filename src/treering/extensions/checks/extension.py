"""`treering check`: what a change contradicts."""

from treering.registry import Extension

EXTENSION = Extension(
    "checks",
    commands=("treering.extensions.checks.commands:add_checking",),
    help="treering.extensions.checks.commands:HELP",
)
