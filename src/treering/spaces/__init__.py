"""Spaces: how one is opened, moved and exported."""
