"""Generating a wiki as a LangGraph workflow, with models and without."""
