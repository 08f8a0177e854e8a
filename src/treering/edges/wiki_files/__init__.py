"""A wiki as a folder: published whole, checked, and shown."""
