"""Spaces: how one is opened, moved, exported, and worked on in the background."""
