"""Copies of a space: transfers, differences, merges, syncs over git or a shared folder, and proofs of answers."""

from treering.registry import Extension

EXTENSION = Extension(
    "sharing",
    commands=(
        "treering.extensions.sharing.transfer_commands:add_transfer",
        "treering.extensions.sharing.commands:add_sharing",
    ),
    help="treering.extensions.sharing.commands:HELP",
    operations="treering.extensions.sharing.operations:OPERATIONS",
)
