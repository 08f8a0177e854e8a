"""Copies of a space: their differences, merges, and syncs over git or a shared folder."""

from treering.registry import Extension

EXTENSION = Extension(
    "sharing",
    commands=("treering.extensions.sharing.commands:add_sharing",),
    help="treering.extensions.sharing.commands:HELP",
)
