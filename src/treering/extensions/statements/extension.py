"""Current statements of conversations, and their replacements."""

from treering.registry import Extension

EXTENSION = Extension("statements", replaced_turns="treering.extensions.statements.conversations:replaced_turns")
