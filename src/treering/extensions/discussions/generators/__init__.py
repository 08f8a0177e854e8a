"""Generators of memories: rules, or a language model."""
