"""Memories: stored, filtered, weighed and retrieved."""
