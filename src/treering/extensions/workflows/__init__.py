"""Workflows: lists of nodes, as JSON or YAML, that use memory and ask language models."""
