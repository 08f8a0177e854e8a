"""Entities and triples from text by rules: prose, dialogue, code."""
