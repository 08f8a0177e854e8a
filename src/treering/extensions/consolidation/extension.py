"""Merging of duplicates, and budgets of scopes: `lint` in mode `consolidate`."""

from treering.registry import Extension

EXTENSION = Extension(
    "consolidation",
    commands=("treering.extensions.consolidation.commands:add_consolidation",),
    help="treering.extensions.consolidation.commands:HELP",
    modes={"lint consolidate": "treering.extensions.consolidation.consolidate:CONSOLIDATE"},
)
