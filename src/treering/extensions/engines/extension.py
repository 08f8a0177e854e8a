"""Vector engines that mirror the vectors of a space."""

from treering.registry import Extension

EXTENSION = Extension(
    "engines",
    commands=("treering.extensions.engines.commands:add_index",),
    help="treering.extensions.engines.commands:HELP",
    operations="treering.extensions.engines.operations:OPERATIONS",
    vector_engines="treering.extensions.engines.mirrors:MIRRORS",
)
