"""Copies of a space: their differences, merges, and syncs over git or a shared folder."""
