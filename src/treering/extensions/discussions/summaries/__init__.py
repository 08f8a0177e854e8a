"""Memories, the rolling summary and the state document."""
