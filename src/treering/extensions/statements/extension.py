"""What holds now in conversations, and what was replaced."""

from treering.registry import Extension

EXTENSION = Extension("statements", replaced_turns="treering.extensions.statements.conversations:replaced_turns")
