"""Entities, statements and summaries from text, by rules or by a language model."""
