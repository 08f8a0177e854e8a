"""Treering: memory for LLM agents that can be checked."""

__version__ = "0.1.0"
