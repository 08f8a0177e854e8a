"""Current statements of conversations, and their replacements."""

from treering.registry import Extension

EXTENSION = Extension(
    "statements",
    replaced_turns="treering.extensions.statements.conversations:replaced_turns",
    on_vectors_ready="treering.extensions.statements.reading_ahead:read_ahead",
    on_erased="treering.extensions.statements.conversations:forget",
    named_views="treering.extensions.statements.people:person_view",
)
