"""The messages of discussions, stored in blocks."""
