"""`treering check`: what a change contradicts."""

from treering.registry import Extension

EXTENSION = Extension(
    "checks",
    needs=("code", "records"),
    commands=("treering.extensions.checks.commands:add_checking",),
    help="treering.extensions.checks.commands:HELP",
)
