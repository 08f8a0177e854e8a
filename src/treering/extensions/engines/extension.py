"""Vector engines that mirror the vectors of a space."""

from treering.registry import Extension

EXTENSION = Extension(
    "engines",
    vector_engines="treering.extensions.engines.mirrors:MIRRORS",
)
