"""Conversations and meetings in the files that programs export them to."""
