"""Secrets in text: what they look like, where they stand, and how they are replaced."""
