"""Generating a wiki as a LangGraph workflow, with models and without."""

from treering.edges.frameworks.wiki_generation.generate import generate_wiki

__all__ = ["generate_wiki"]
